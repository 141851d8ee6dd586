"""Short models: a few of each repeated block stand for all, and what is made of them is expanded.

A decoder of 80 blocks repeats one block. Whoever looks at layers and their neighbours alone, as
frameworks do that fuse layers, makes of 80 blocks what it makes of a few, again and again. The
repeat is found in both: in the model, to leave copies out, and in what was made of the short model,
to put copies in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from dlbricks_core.bricks import signature
from dlbricks_core.bricks.common import plain
from dlbricks_core.errors import DLBricksError
from dlbricks_core.ir import CanonicalModel, Layer
from dlbricks_core.ir.parameters import PARAMETER_INPUTS

KEPT = 3
"""Copies that a short model keeps. The first and the last may be made into something else than
those between them, for their neighbours are no copies."""

_TRIED = 8
"""Repeats whose wiring is looked at; those that would leave out most layers come first."""

_COPY = "~"
"""Stands between the name that a backend made up for a tensor and the number of its copy."""


class NotRepeatedError(DLBricksError):
    """A model, or what was made of it, does not consist of repeated blocks."""


@dataclass(frozen=True)
class Repeat:
    """Copies of a run of layers, one right after the other and wired alike.

    Layer ``start + i`` is the same as ``start + period + i`` and so on. Each reads the same tensor
    from outside as its counterparts, or tensors that correspond: results of its own copy or of the
    one before, and weights and inputs of its own copy.

    Attributes:
        start: First layer of the first copy.
        period: Number of layers in a copy.
        copies: Number of copies.
        following: Tensor of the next copy that corresponds to each tensor of a copy.
    """

    start: int
    period: int
    copies: int
    following: Mapping[str, str]

    @property
    def end(self) -> int:
        """Index of the layer after the last copy."""
        return self.start + self.period * self.copies

    def copy(self, layer: int) -> int:
        """Number of the copy that a layer belongs to; negative before the first."""
        return (layer - self.start) // self.period


def longest_repeat(model: CanonicalModel, kept: int = KEPT) -> Repeat | None:
    """The repeat that leaves out most layers if so many copies are kept; ``None`` without one.

    Copies begin and end where their neighbours are copies as well: what the first block reads from
    outside, and what is read of the last, is no part of them.

    Args:
        model: In canonical form, or a graph that a backend made.
        kept: Copies to keep.
    """
    wiring = _Wiring(model)
    for period, start, length in wiring.candidates(kept)[:_TRIED]:
        found = wiring.repeat(period, start, length)
        if found is not None and found.copies > kept:
            return found
    return None


@dataclass(frozen=True)
class Short:
    """A short model and the model that it stands for.

    Attributes:
        whole: The model.
        repeat: Its repeated blocks.
        kept: Number of copies that the short model keeps, the first ones.
    """

    whole: CanonicalModel
    repeat: Repeat
    kept: int = KEPT

    @property
    def left_out(self) -> int:
        """Number of copies that the short model lacks."""
        return self.repeat.copies - self.kept

    @cached_property
    def model(self) -> CanonicalModel:
        """The short model: the last copies are left out, and what read them reads the kept ones.

        Tensors keep their names.
        """
        whole, repeat = self.whole, self.repeat
        begin = repeat.end - self.left_out * repeat.period
        tail = [_renamed(layer, self._seam) for layer in whole.layers[repeat.end :]]
        layers = (*whole.layers[:begin], *tail)
        gone = {name for layer in whole.layers[begin : repeat.end] for name in layer.outputs}
        read = {name for layer in layers for name in layer.reads}
        outputs = tuple(name for name in whole.outputs if name not in gone)
        lost = {n for layer in whole.layers for n in layer.reads} - read
        inputs = tuple(name for name in whole.inputs if name not in lost)
        made = {name for layer in layers for name in layer.outputs if name}
        kept = {*inputs, *read, *made, *outputs}
        return replace(
            whole,
            layers=layers,
            inputs=inputs,
            outputs=outputs,
            tensors={n: spec for n, spec in whole.tensors.items() if n in kept},
            weights=whole.weights & kept,
            constants={n: value for n, value in whole.constants.items() if n in kept},
        )

    def _seam(self, name: str) -> str:
        """What a layer after the copies reads in place of a tensor."""
        producer = self.whole.producers.get(name, -1)
        return self._before[name] if self.repeat.start <= producer < self.repeat.end else name

    @cached_property
    def _before(self) -> Mapping[str, str]:
        """By a result of the last copy, its counterpart in the last one that is kept."""
        repeat = self.repeat
        begin = repeat.start + (self.kept - 1) * repeat.period
        kept = (n for layer in self.whole.layers[begin:][: repeat.period] for n in layer.outputs)
        return {_after(name, repeat.following, self.left_out): name for name in kept if name}

    def expanded(self, made: CanonicalModel) -> CanonicalModel:
        """What a backend would make of the whole model, from what it made of the short one.

        Tensors that are the model's have its names. What the backend named itself has the number
        of its copy behind its name.

        Args:
            made: Graph that was made of :attr:`model`.

        Raises:
            NotRepeatedError: If copies of the model are not copies in the graph.
        """
        return _Expansion(made, self).expanded()

    @cached_property
    def behind(self) -> frozenset[str]:
        """Tensors that layers after the copies make, and weights and inputs that only they read."""
        layers, producers, end = self.whole.layers, self.whole.producers, self.repeat.end
        before = {name for layer in layers[:end] for name in _names(layer)}
        after = {name for layer in layers[end:] for name in _names(layer)}
        return frozenset(
            name
            for name in after - before
            if producers.get(name, self.repeat.end) >= self.repeat.end
        )


def shorten(model: CanonicalModel, kept: int = KEPT) -> list[Short]:
    """Short models, each of the one before, until no repeat is left that is longer.

    Args:
        model: In canonical form.
        kept: Copies to keep of each repeat.
    """
    found: list[Short] = []
    while (repeat := longest_repeat(model, kept)) is not None:
        found.append(Short(model, repeat, kept))
        model = found[-1].model
    return found


def expand(shorts: Sequence[Short], made: CanonicalModel) -> CanonicalModel:
    """What a backend would make of a model, from what it made of the last of its short models.

    Raises:
        NotRepeatedError: If copies of the model are not copies in what was made.
    """
    for short in reversed(shorts):
        made = short.expanded(made)
    return made


def rewritten_short(
    model: CanonicalModel, rewriting: Callable[[CanonicalModel], CanonicalModel]
) -> CanonicalModel:
    """What a backend makes of a model, asked of short models alone.

    It is asked of two, one of which has one more copy of each block. If that comes out as the
    expansion of the other, it is expanded in turn: what holds for one more copy holds for all.

    Args:
        model: In canonical form.
        rewriting: Asks the backend what it makes of a model.

    Raises:
        NotRepeatedError: If the model has no repeated blocks, or what is made of it does not
            repeat.
    """
    shorts = shorten(model, KEPT + 1)
    if not shorts:
        raise NotRepeatedError("its layers do not repeat")
    longer = shorts[-1].model
    shorter = shorten(longer)
    made = rewriting(longer)
    if not same_structure(expand(shorter, rewriting(shorter[-1].model)), made):
        raise NotRepeatedError("what is made of one more block differs from that of the others")
    return expand(shorts, made)


def same_structure(one: CanonicalModel, two: CanonicalModel) -> bool:
    """Whether two graphs are the same layers in the same order, wired alike."""
    counts = len(one.layers), len(one.inputs), len(one.outputs)
    if counts != (len(two.layers), len(two.inputs), len(two.outputs)):
        return False
    every = range(len(one.layers))
    return signature(one, every) == signature(two, every)


class _Wiring:
    """What tells whether layers of a model are copies of each other."""

    def __init__(self, model: CanonicalModel) -> None:
        self.model = model
        numbers: dict[Any, int] = {}
        keys = (self._key(layer, i) for i, layer in enumerate(model.layers))
        self.kinds = np.array([numbers.setdefault(key, len(numbers)) for key in keys])

    def _key(self, layer: Layer, index: int) -> Any:
        """What copies of a layer have in common."""
        if layer.opaque or layer.captures:
            return index  # nobody knows what is inside of it
        parameters = PARAMETER_INPUTS.get(layer.qualified_op, frozenset())
        return (
            layer.qualified_op,
            layer.opset,
            tuple(sorted((name, repr(value)) for name, value in layer.attributes.items())),
            tuple(
                self._operand(name, by_value=position in parameters)
                for position, name in enumerate(layer.inputs)
            ),
            tuple(map(self._operand, layer.outputs)),
        )

    def _operand(self, name: str, *, by_value: bool = False) -> Any:
        """What copies of a tensor have in common: of small vectors of weights, not the values."""
        model = self.model
        if not name:
            return None
        value = model.constants.get(name)
        known: Any = value is not None
        if value is not None and (by_value or value.size == 1 or value.dtype.kind != "f"):
            known = value.shape, value.tobytes()
        role = name in model.weights, name in model.inputs, name in model.output_names
        return model.tensors[name], *role, known

    def candidates(self, kept: int) -> list[tuple[int, int, int]]:
        """Period, first layer and number of layers that have an equal one a period later.

        Those that leave out most layers come first.
        """
        kinds, found = self.kinds, []
        for period in range(1, len(kinds) // (kept + 1) + 1):
            for start, length in _runs(kinds[:-period] == kinds[period:]):
                copies = length // period + 1
                if copies > kept:
                    found.append(((copies - kept) * period, period, start, length))
        found.sort(key=lambda each: (-each[0], each[1], each[2]))
        return [each[1:] for each in found]

    def repeat(self, period: int, start: int, length: int) -> Repeat | None:
        """The longest repeat of a period within a range of layers that are equal to later ones."""
        layers = self.model.layers
        following = self._following(period, start, length)
        good = np.array([
            all(self._corresponds(a, b, period, following)
                for a, b in zip(_names(layers[i]), _names(layers[i + period]), strict=True))
            for i in range(start, start + length)
        ])  # fmt: skip
        begin, most = max(_runs(good), key=lambda run: run[1], default=(0, 0))
        copies = most // period + 1
        if copies < 2:
            return None
        own = {a: b for a, b in following.items() if b and a != b}
        found = Repeat(start + begin, period, copies, own)
        return found if self._closed(found) else None

    def _following(self, period: int, start: int, length: int) -> Mapping[str, str]:
        """Counterparts a period later; empty for tensors that have several."""
        layers = self.model.layers
        found: dict[str, str] = {}
        for i in range(start, start + length):
            for a, b in zip(_names(layers[i]), _names(layers[i + period]), strict=True):
                found[a] = b if found.setdefault(a, b) == b else ""
        return found

    def _corresponds(self, a: str, b: str, period: int, following: Mapping[str, str]) -> bool:
        """Whether a layer reads or makes what its counterpart does a period before."""
        model = self.model
        if following[a] != b:
            return False
        if a == b:  # one tensor for all copies
            return True
        one, two = model.producers.get(a), model.producers.get(b)
        if (one is None) != (two is None) or (one is not None and two != one + period):
            return False
        readers = (i + period for i in model.consumers.get(a, ()))
        return tuple(readers) == model.consumers.get(b, ())

    def _closed(self, repeat: Repeat) -> bool:
        """Whether layers after the copies read nothing of them but of the last."""
        producers = self.model.producers
        early = range(repeat.start, repeat.end - repeat.period)
        return not any(
            producers.get(name, -1) in early
            for layer in self.model.layers[repeat.end :]
            for name in layer.reads
        )


def _runs(truths: Sequence[bool] | np.ndarray[Any, Any]) -> Iterator[tuple[int, int]]:
    """First position and length of each run of truths."""
    changes = np.flatnonzero(np.diff(np.concatenate(([0], np.asarray(truths, np.int8), [0]))))
    for begin, end in changes.reshape(-1, 2).tolist():
        yield begin, end - begin


def _names(layer: Layer) -> tuple[str, ...]:
    return (*layer.inputs, *layer.outputs)


def _renamed(layer: Layer, name: Callable[[str], str]) -> Layer:
    return replace(
        layer,
        inputs=tuple(name(each) if each else "" for each in layer.inputs),
        outputs=tuple(name(each) if each else "" for each in layer.outputs),
        captures=tuple(map(name, layer.captures)),
    )


def _after(name: str, following: Mapping[str, str], copies: int) -> str:
    """The tensor that corresponds to one, so many copies later."""
    for _ in range(copies):
        if name not in following:
            raise NotRepeatedError(f"{name} has no counterpart in a later block")
        name = following[name]
    return name


class _Expansion:
    """Puts copies into a graph that was made of a short model, right after one of its copies.

    Args:
        made: The graph.
        short: The short model.

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
        wiring = _Wiring(self._made)
        for candidate in wiring.candidates(1):
            found = wiring.repeat(*candidate)
            if found is not None and self._is_counterpart(found):
                return found
        raise NotRepeatedError("what is made of its blocks does not repeat")

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
        raise NotRepeatedError("what is made of its blocks shares nothing with them")

    def _is_counterpart(self, repeat: Repeat) -> bool:
        """Whether a copy in the graph holds tensors of one block later than the copy before."""
        inside = self._made.layers[repeat.start : repeat.end - repeat.period]
        pairs = [
            (one, self._place(repeat.following[a]))
            for layer in inside
            for a in _names(layer)
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
        layers += [_renamed(layer, self._later) for layer in made.layers[until:]]
        names = {name for layer in layers for name in (*_names(layer), *layer.reads) if name}
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
        """What a copy reads where the first two copies read these."""
        if first == second:
            return first
        if second in self._made_first:  # of the copy before
            return self._moved(second, number - 1)
        return self._moved(first, number)

    def _moved(self, name: str, copies: int) -> str:
        """Name of what corresponds to a tensor of the first copy, so many copies later."""
        if not copies:
            return name
        origin = self._origin(name)
        if origin:
            base = _after(origin, self._short.repeat.following, copies)
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

    What comes after the copies that are left out has moved up.
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
