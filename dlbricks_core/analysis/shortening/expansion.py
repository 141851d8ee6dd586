"""Expands the rewritten graph of a short model to that of the whole model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from dlbricks_core.analysis.shortening.short import (
    KEPT,
    NotRepeatedError,
    Repeat,
    Short,
    Wiring,
    counterpart,
    names_of,
    shorten,
)
from dlbricks_core.bricks import signature
from dlbricks_core.bricks.brickset import plain
from dlbricks_core.ir import CanonicalModel, Layer

_COPY = "~"
"""Stands between the name that a backend made up for a tensor and the number of its copy."""


def rewritten_short(
    model: CanonicalModel, rewriting: Callable[[CanonicalModel], CanonicalModel]
) -> CanonicalModel:
    """Rewritten graph of a model, derived from rewritten short models alone.

    Two short models are rewritten, one with one more copy of each block. If its graph equals the
    expansion of the other graph, this is taken as proof for any number of copies, and it is
    expanded.

    Raises:
        NotRepeatedError: If the model has no repeated blocks, or its rewritten graph has none.
    """
    shorts = shorten(model, KEPT + 1)
    if not shorts:
        raise NotRepeatedError("its layers do not repeat")
    longer = shorts[-1].model
    shorter = shorten(longer)
    made = rewriting(longer)
    if not same_structure(expand(shorter, rewriting(shorter[-1].model)), made):
        raise NotRepeatedError("one more block is rewritten differently from the others")
    return expand(shorts, made)


def expand(shorts: Sequence[Short], made: CanonicalModel) -> CanonicalModel:
    """Rewritten graph of a model, derived from that of the last of its short models.

    Raises:
        NotRepeatedError: If copies in the model are not copies in the rewritten graph.
    """
    for short in reversed(shorts):
        made = expanded(short, made)
    return made


def expanded(short: Short, made: CanonicalModel) -> CanonicalModel:
    """Rewritten graph of the whole model, derived from the graph of the short model.

    Tensors of the model keep their names. Names that the backend chose get the number of the copy
    as a suffix.

    Raises:
        NotRepeatedError: If copies of the model are not copies in the graph.
    """
    return _Expansion(made, short).expanded()


def same_structure(one: CanonicalModel, two: CanonicalModel) -> bool:
    """Whether two graphs are the same layers in the same order, wired alike."""
    counts = len(one.layers), len(one.inputs), len(one.outputs)
    if counts != (len(two.layers), len(two.inputs), len(two.outputs)):
        return False
    every = range(len(one.layers))
    return signature(one, every) == signature(two, every)


class _Expansion:
    """Puts copies into a graph that was made of a short model, right after one of its copies.

    Raises:
        NotRepeatedError: If copies of the model are not copies in the graph.
    """

    def __init__(self, made: CanonicalModel, short: Short) -> None:
        self._made = made
        self._short = short
        self._places = _places(short)
        self._repeat = self._counterpart()
        start = self._repeat.start + self._repeat.period * self._model_copy()
        first = range(start, start + self._repeat.period)
        self._until = first.stop
        self._first = [made.layers[i] for i in first]
        self._second = [made.layers[i + self._repeat.period] for i in first]
        self._made_first = {name for layer in self._first for name in layer.outputs if name}
        self._fixed = {name for layer in made.layers[: first.stop] for name in layer.reads} - {
            name for layer in made.layers[first.start :] for name in layer.outputs
        }
        self._sources: dict[str, str] = {}

    def _counterpart(self) -> Repeat:
        """Where the blocks of the model repeat in the graph."""
        wiring = Wiring(self._made)
        for candidate in wiring.candidates(1):
            found = wiring.repeat(*candidate)
            if found is not None and self._is_counterpart(found):
                return found
        raise NotRepeatedError("the rewritten blocks do not repeat")

    def _model_copy(self) -> int:
        """Number of the first copy of which all that is the model's has counterparts later.

        At the edges, a backend may make the same of layers that are no copies in the model.
        """
        repeat, following = self._repeat, self._short.repeat.following
        for number in range(repeat.copies - 1):
            begin = repeat.start + number * repeat.period
            inside = self._made.layers[begin : begin + repeat.period]
            own = {a for layer in inside for a in layer.outputs if a} | {
                a
                for i, layer in enumerate(inside, begin)
                for a, b in zip(layer.inputs, self._made.layers[i + repeat.period].inputs,
                                strict=True)
                if a != b and a not in self._made.producers
            }  # fmt: skip
            if all(not (origin := self._origin(name)) or origin in following for name in own):
                return number
        raise NotRepeatedError("the rewritten blocks share no tensor with its blocks")

    def _is_counterpart(self, repeat: Repeat) -> bool:
        """Whether a copy in the graph has tensors of the block after the previous copy's."""
        inside = self._made.layers[repeat.start : repeat.end - repeat.period]
        pairs = [
            (one, self._place(repeat.following[a]))
            for layer in inside
            for a in names_of(layer)
            if a in repeat.following and (one := self._place(a)) is not None
        ]
        return bool(pairs) and all((one[0], one[1] + 1) == two for one, two in pairs)

    def _place(self, name: str) -> tuple[str, int] | None:
        return self._places.get(self._origin(name))

    def _origin(self, name: str) -> str:
        """The model's tensor that a tensor of the graph holds; empty for the graph's own."""
        known = self._short.model.tensors
        return next((each for each in (name, plain(name)) if each in known), "")

    def expanded(self) -> CanonicalModel:
        """The graph with all copies."""
        made, whole, left_out = self._made, self._short.whole, self._short.left_out
        until = self._until
        layers = [*made.layers[:until]]
        for number in range(1, left_out + 1):
            layers += self._copy(number)
        layers += [layer.renamed(self._later) for layer in made.layers[until:]]
        names = {name for layer in layers for name in (*names_of(layer), *layer.reads) if name}
        sources = {name: self._sources.get(name, name) for name in names}
        inputs = tuple(filter(self._is_input, whole.inputs))
        return replace(
            made,
            name=whole.name,
            source=whole.source,
            layers=tuple(layers),
            inputs=inputs,
            outputs=tuple(name for name in whole.outputs if name in names or name in inputs),
            tensors={name: whole.tensors[name] for name in inputs}
            | {name: made.tensors[source] for name, source in sources.items()},
            weights=frozenset(n for n, source in sources.items() if source in made.weights),
            constants={
                name: whole.constants.get(name, made.constants[source])
                for name, source in sources.items()
                if source in made.constants
            },
        )

    def _is_input(self, name: str) -> bool:
        """Whether the expanded graph has an input of the model: it may be there and not be read."""
        place, given = self._places.get(name), self._made.inputs
        if name in self._short.model.inputs or place is None:
            return name in given
        return any(self._places.get(each, ("",))[0] == place[0] for each in given)

    def _copy(self, number: int) -> Iterator[Layer]:
        """Layers of a copy, so many after the one that it repeats."""
        for one, two in zip(self._first, self._second, strict=True):
            inputs = (self._read(a, b, number) for a, b in zip(one.inputs, two.inputs, strict=True))
            yield replace(
                one,
                name=f"{one.name}{_COPY}{number}" if one.name else "",
                inputs=tuple(inputs),
                outputs=tuple(self._moved(name, number) if name else "" for name in one.outputs),
            )

    def _read(self, first: str, second: str, number: int) -> str:
        """Tensor that a copy reads, given the tensors that the first two copies read."""
        if first == second:
            return first
        if second in self._made_first:  # of the copy before
            return self._moved(second, number - 1)
        return self._moved(first, number)

    def _moved(self, name: str, copies: int) -> str:
        """Name of the counterpart of a tensor of the first copy, a number of copies later."""
        if not copies:
            return name
        origin = self._origin(name)
        if origin:
            base = counterpart(origin, self._short.repeat.following, copies)
            moved = f"{base}{name.removeprefix(origin)}"
        else:
            moved = f"{name}{_COPY}{copies}"
        self._sources[moved] = name
        return moved

    def _later(self, name: str) -> str:
        """Name of a tensor after the copies that were put in."""
        place = self._place(name)
        if name in self._fixed or (place is None and name not in self._made_first):
            return name
        if place is not None and self._origin(name) in self._short.behind:
            return name
        return self._moved(name, self._short.left_out)


def _places(short: Short) -> Mapping[str, tuple[str, int]]:
    """By a tensor of the short model, the first that corresponds to it, and how many copies before.

    Layers after the omitted copies have moved up.
    """
    following = short.repeat.following
    later = set(following.values())
    found = {}
    for head in following:
        if head in later:
            continue
        name, steps = head, 0
        while True:
            found[name] = head, steps - (short.left_out if name in short.behind else 0)
            if name not in following:
                break
            name, steps = following[name], steps + 1
    return found
