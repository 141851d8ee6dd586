"""Short models: copies of a repeated block are left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from dlbricks_core.analysis.shortening.repeats import (
    KEPT,
    NotRepeatedError,
    Repeat,
    longest_repeat,
    names_of,
)
from dlbricks_core.ir import CanonicalModel, Layer


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
        tail = [renamed(layer, self._seam) for layer in whole.layers[repeat.end :]]
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
    """Short models, each of the one before, until no repeat is left that is longer.

    Args:
        model: Model in canonical form.
        kept: Copies to keep of each repeat.
    """
    found: list[Short] = []
    while (repeat := longest_repeat(model, kept)) is not None:
        found.append(Short(model, repeat, kept))
        model = found[-1].model
    return found


def renamed(layer: Layer, name: Callable[[str], str]) -> Layer:
    """A copy of a layer with other names for its inputs and outputs."""
    return replace(
        layer,
        inputs=tuple(name(each) if each else "" for each in layer.inputs),
        outputs=tuple(name(each) if each else "" for each in layer.outputs),
        captures=tuple(map(name, layer.captures)),
    )


def counterpart(name: str, following: Mapping[str, str], copies: int) -> str:
    """The tensor that corresponds to one, so many copies later."""
    for _ in range(copies):
        if name not in following:
            raise NotRepeatedError(f"{name} has no counterpart in a later block")
        name = following[name]
    return name
