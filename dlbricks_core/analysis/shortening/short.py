"""Short models: copies of a repeated block are left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from dlbricks_core.errors import DLBricksError
from dlbricks_core.ir import CanonicalModel, Layer
from dlbricks_core.operators.table import operator

# Repeated blocks: runs of layers that are copies of each other, wired alike.

KEPT = 3
"""Copies that a short model keeps. The first and the last copy may be rewritten differently from
the others, because their neighbours are not copies."""


_TRIED = 8
"""Maximum number of repeats whose wiring is compared; repeats that leave out most layers come
first."""


class NotRepeatedError(DLBricksError):
    """A model or its rewritten graph does not consist of repeated blocks."""


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

    Copies begin and end where their neighbours are copies as well, so they exclude the inputs of
    the first block and the results of the last.
    """
    wiring = Wiring(model)
    for period, start, length in wiring.candidates(kept)[:_TRIED]:
        found = wiring.repeat(period, start, length)
        if found is not None and found.copies > kept:
            return found
    return None


class Wiring:
    """Wiring of a model, which shows whether layers are copies of each other."""

    def __init__(self, model: CanonicalModel) -> None:
        self.model = model
        numbers: dict[Any, int] = {}
        keys = (self._key(layer, i) for i, layer in enumerate(model.layers))
        self.kinds = np.array([numbers.setdefault(key, len(numbers)) for key in keys])

    def _key(self, layer: Layer, index: int) -> Any:
        """Key that copies of a layer share."""
        if layer.opaque or layer.captures:
            return index  # its work is unknown
        parameters = operator(layer.qualified_op).parameters
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
        """Key that copies of a tensor share, without the values of small vectors of weights."""
        model = self.model
        if not name:
            return None
        value = model.constants.get(name)
        known: Any = value is not None
        if value is not None and (by_value or value.size == 1 or value.dtype.kind != "f"):
            known = value.shape, value.tobytes()
        role = name in model.weights, name in model.input_names, name in model.output_names
        return model.tensors[name], *role, known

    def candidates(self, kept: int) -> list[tuple[int, int, int]]:
        """Period, first layer and number of layers that have an equal one a period later.

        Repeats that leave out most layers come first.
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
                for a, b in zip(names_of(layers[i]), names_of(layers[i + period]), strict=True))
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
            for a, b in zip(names_of(layers[i]), names_of(layers[i + period]), strict=True):
                found[a] = b if found.setdefault(a, b) == b else ""
        return found

    def _corresponds(self, a: str, b: str, period: int, following: Mapping[str, str]) -> bool:
        """Whether a layer's tensor corresponds to its counterpart's tensor one period earlier."""
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
        """Whether layers after the copies read only results of the last copy."""
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


def names_of(layer: Layer) -> tuple[str, ...]:
    """Inputs and outputs of a layer, in order."""
    return (*layer.inputs, *layer.outputs)


@dataclass(frozen=True)
class Short:
    """A short model and the model that it represents.

    Attributes:
        whole: The model.
        repeat: Its repeated blocks.
        kept: Number of copies that the short model keeps: the first copies.
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
        """The short model: the last copies are left out, and their readers read the kept copies.

        Tensors keep their names.
        """
        whole, repeat = self.whole, self.repeat
        begin = repeat.end - self.left_out * repeat.period
        tail = [layer.renamed(self._seam) for layer in whole.layers[repeat.end :]]
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
        """Tensor that a layer after the copies reads in place of another."""
        producer = self.whole.producers.get(name, -1)
        return self._before[name] if self.repeat.start <= producer < self.repeat.end else name

    @cached_property
    def _before(self) -> Mapping[str, str]:
        """By a result of the last copy, its counterpart in the last one that is kept."""
        repeat = self.repeat
        begin = repeat.start + (self.kept - 1) * repeat.period
        kept = (n for layer in self.whole.layers[begin:][: repeat.period] for n in layer.outputs)
        return {counterpart(name, repeat.following, self.left_out): name for name in kept if name}

    @cached_property
    def behind(self) -> frozenset[str]:
        """Tensors that layers after the copies make, and weights and inputs that only they read."""
        layers, producers, end = self.whole.layers, self.whole.producers, self.repeat.end
        before = {name for layer in layers[:end] for name in names_of(layer)}
        after = {name for layer in layers[end:] for name in names_of(layer)}
        return frozenset(
            name
            for name in after - before
            if producers.get(name, self.repeat.end) >= self.repeat.end
        )


def shorten(model: CanonicalModel, kept: int = KEPT) -> list[Short]:
    """Short models, each of the one before, until no repeat is left that is longer."""
    found: list[Short] = []
    while (repeat := longest_repeat(model, kept)) is not None:
        found.append(Short(model, repeat, kept))
        model = found[-1].model
    return found


def counterpart(name: str, following: Mapping[str, str], copies: int) -> str:
    """The tensor that corresponds to one, so many copies later."""
    for _ in range(copies):
        if name not in following:
            raise NotRepeatedError(f"{name} has no counterpart in a later block")
        name = following[name]
    return name
