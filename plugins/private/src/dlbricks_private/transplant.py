"""Transplants layer sequences: resizes a sequence of one model until it fits into another.

A sequence keeps its operators, windows and groups. Its widths are adapted to those at its ends.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from dlbricks_core.errors import DLBricksError
from dlbricks_core.ir import Array, CanonicalModel, Layer, TensorSpec
from dlbricks_core.passes.shapes import infer

Sizes = tuple[int, ...]

_MOST_TRIES = 4
"""Maximum number of widths that are changed in turn until the result has the wanted width."""

STEP = 8
"""Usual divisor of the widths of real models."""

_SCALES = (0.5, 0.75, 1.0, 1.0, 1.0, 1.0, 1.5, 2.0)
"""Factors of inner widths, on top of the proportion to the ends; each is equally likely."""


class UnfitError(DLBricksError):
    """A sequence that cannot be resized to fit."""


def transplant(
    piece: CanonicalModel,
    read: TensorSpec,
    written: TensorSpec,
    random: np.random.Generator,
    step: int = STEP,
) -> CanonicalModel | None:
    """The sequence with other sizes at its ends.

    Inner widths that do not follow from the ends are drawn. Widths therefore do not reveal the
    resizing, even to an attacker who knows the sequence.

    Args:
        piece: Sequence with one input and one output, with canonical layers.
        read: Tensor that the sequence reads afterwards.
        written: Tensor that the sequence computes afterwards.
        random: Generator that draws the free widths.
        step: Divisor of free widths.

    Returns:
        The resized sequence, or ``None`` if it cannot be made to fit.
    """
    if len(piece.inputs) != 1 or len(piece.outputs) != 1:
        return None
    before, after = piece.tensors[piece.inputs[0]], piece.tensors[piece.outputs[0]]
    if _form(before) != _form(read) or _form(after) != _form(written):
        return None
    if not (before.sizes and after.sizes):
        return None
    if (before, after) == (read, written):
        return piece
    scale = float(random.choice(_SCALES))
    axes = _width_axis(piece, before), _width_axis(piece, after)
    ends = [
        (before.sizes[axes[0]], read.sizes[axes[0]]),
        (after.sizes[axes[1]], written.sizes[axes[1]]),
    ]
    widths = _Widths.between(ends, scale, step)
    if widths is None:
        return None
    axis = axes[1]
    try:
        for _ in range(_MOST_TRIES):
            found = _Replay(piece, read, widths).model()
            made = found.tensors[found.outputs[0]]
            if made == written:
                return found
            if not widths.widened(written.sizes[axis] - made.sizes[axis]):
                return None
    except UnfitError:
        return None
    return None


def _form(spec: TensorSpec) -> tuple[str, int]:
    return spec.dtype, len(spec.sizes)


_ON_MAPS = frozenset({"AveragePool", "BatchNormalization", "Conv", "GlobalAveragePool", "MaxPool"})
"""Operators that read channels along the second axis."""


def _width_axis(piece: CanonicalModel, spec: TensorSpec) -> int:
    """Axis of the channels of a map, or of the features of tokens."""
    has_map = len(spec.sizes) > 3 and any(layer.op in _ON_MAPS for layer in piece.layers)
    return 1 if has_map else len(spec.sizes) - 1


@dataclass
class _Widths:
    """Inner widths of a sequence, derived from those at its ends."""

    known: dict[int, int]  #: New width by old one.
    ratios: Sequence[Fraction]  #: New width by old one of the input and of the output.
    scale: float  #: Further factor of the free widths.
    step: int  #: Divisor of free widths.
    last: int = 0  #: Old value of the free width that was requested last; 0 for none.

    @classmethod
    def between(cls, ends: Sequence[tuple[int, int]], scale: float, step: int) -> _Widths | None:
        """Widths between ends, each with its old and its new width; ``None`` if they contradict."""
        known = dict(reversed(ends))
        if any(known[old] != new for old, new in ends) or min(map(min, ends)) < 1:
            return None
        return cls(known, [Fraction(new, old) for old, new in ends], scale, step)

    def of(self, old: int) -> int:
        """New width of a layer."""
        if old not in self.known:
            self.known[old] = self._free(old)
            self.last = old
        return self.known[old]

    def widened(self, more: int) -> bool:
        """Increases the last free width. Returns whether that is possible."""
        if not self.last or self.known[self.last] + more < 1:
            return False
        self.known[self.last] += more
        return True

    def _free(self, old: int) -> int:
        """The width in proportion to one of the ends, if real models have such a width."""
        for ratio in self.ratios:
            new = old * ratio * Fraction(self.scale)
            if new.denominator == 1 and new >= self.step and new % self.step == 0:
                return int(new)
        mean = math.sqrt(float(self.ratios[0] * self.ratios[1]))
        return max(round(old * mean * self.scale / self.step), 1) * self.step


@dataclass
class _Replay:
    """Rebuilds a sequence with other sizes."""

    piece: CanonicalModel  #: The sequence.
    read: TensorSpec  #: Tensor that the sequence reads now.
    widths: _Widths  #: New widths.

    def model(self) -> CanonicalModel:
        """The sequence with new sizes.

        Raises:
            UnfitError: If a layer cannot have the new sizes.
        """
        piece = self.piece
        tensors = {piece.inputs[0]: self.read}
        constants: dict[str, Array] = {}
        layers = []
        for layer in piece.layers:
            if layer.opaque or layer.domain:
                raise UnfitError(f"{layer.qualified_op} is not resized")
            attributes, weights, values = self._resized(layer, tensors)
            for name, spec in weights.items():
                if tensors.setdefault(name, spec) != spec:
                    raise UnfitError(f"{name} has two sizes")
            constants |= values
            layer = replace(layer, attributes={**layer.attributes, **attributes})
            layers.append(layer)
            try:
                specs = {name: tensors[name] for name in layer.reads}
                found = infer(layer, specs, constants)
            except DLBricksError as error:
                raise UnfitError(error.message) from error
            if not all(
                spec.is_static and min(spec.sizes, default=1) > 0 for spec in found.values()
            ):
                raise UnfitError(f"{layer.op} has no size")
            tensors |= found
        return replace(piece, layers=tuple(layers), tensors=tensors, constants=constants)

    def _resized(
        self, layer: Layer, tensors: Mapping[str, TensorSpec]
    ) -> tuple[dict[str, Any], dict[str, TensorSpec], dict[str, Array]]:
        """New attributes, specifications of weights, and values of weights of one layer."""
        piece = self.piece
        weights = [name for name in layer.inputs if name in piece.weights]
        if not weights:
            return {}, {}, {}
        old = [piece.tensors[name].sizes if name else None for name in layer.inputs]
        new = [tensors[n].sizes if n in tensors else None for n in layer.inputs]
        resize = _RULES.get(layer.op)
        if resize is None:
            raise UnfitError(f"{layer.op} has weights that are not resized")
        asked = _Asked(layer, old, new, self.widths, self._values(layer))
        sizes, attributes, values = resize(asked)
        specs, constants = {}, {}
        for position, name in enumerate(layer.inputs):
            if name not in piece.weights:
                continue
            if position in values:
                constants[name] = values[position]
                specs[name] = replace(piece.tensors[name], shape=values[position].shape)
                continue
            kept = piece.constants.get(name)
            if position not in sizes:
                raise UnfitError(f"input {position} of {layer.op} is not resized")
            specs[name] = replace(piece.tensors[name], shape=sizes[position])
            if kept is not None:
                if kept.shape != sizes[position]:
                    raise UnfitError(f"the values of an input of {layer.op} are not resized")
                constants[name] = kept
        return attributes, specs, constants

    def _values(self, layer: Layer) -> dict[int, Array]:
        known = self.piece.constants
        return {i: known[name] for i, name in enumerate(layer.inputs) if name in known}


@dataclass(frozen=True)
class _Asked:
    """A layer whose weights are to be resized."""

    layer: Layer  #: The layer.
    old: Sequence[Sizes | None]  #: Old sizes of its inputs; ``None`` for omitted inputs.
    new: Sequence[Sizes | None]  #: Known new sizes; ``None`` for weights and for omitted inputs.
    widths: _Widths  #: New widths.
    values: Mapping[int, Array]  #: Known values of inputs, by position.

    def ends(self, position: int = 0) -> tuple[Sizes, Sizes]:
        """Old and new sizes of an input."""
        old, new = self.old[position], self.new[position]
        if old is None or new is None:
            raise UnfitError(f"{self.layer.op} reads a weight there")
        return old, new


_Resized = tuple[dict[int, Sizes], dict[str, Any], dict[int, Array]]
"""Sizes of weights by position, attributes, and values of weights by position."""


def _convolution(asked: _Asked) -> _Resized:
    (_, channels, *_), (_, now, *_) = asked.ends()
    weight = asked.old[1]
    group = asked.layer.attributes["group"]
    assert weight is not None
    assert isinstance(group, int)
    if group == channels and group > 1:
        made, group = weight[0] // channels * now, now
    else:
        made = asked.widths.of(weight[0])
    if now % group or made % group:
        raise UnfitError("channels do not divide into the groups")
    sizes: dict[int, Sizes] = {1: (made, now // group, *weight[2:]), 2: (made,)}
    return sizes, {"group": group}, {}


def _gemm(asked: _Asked) -> _Resized:
    _, now = asked.ends()
    weight = asked.old[1]
    attributes = asked.layer.attributes
    if weight is None or attributes["transA"] or asked.new[1] is not None:
        raise UnfitError("Gemm of another form")
    read, made = now[1], asked.widths.of(weight[0 if attributes["transB"] else 1])
    shape = (made, read) if attributes["transB"] else (read, made)
    return {1: shape, 2: (made,)}, {}, {}


def _matmul(asked: _Asked) -> _Resized:
    _, now = asked.ends()
    weight = asked.old[1]
    if weight is None or len(weight) != 2:
        raise UnfitError("MatMul of another form")
    return {1: (now[-1], asked.widths.of(weight[1]))}, {}, {}


def _per_channel(axis: int) -> Callable[[_Asked], _Resized]:
    def resize(asked: _Asked) -> _Resized:
        _, now = asked.ends()
        return dict.fromkeys(range(1, len(asked.old)), (now[axis],)), {}, {}

    return resize


def _broadcast(asked: _Asked) -> _Resized:
    """Weights that are added to or multiplied with a tensor."""
    other = next((i for i, sizes in enumerate(asked.new) if sizes is not None), None)
    if other is None:
        raise UnfitError(f"{asked.layer.op} reads weights alone")
    old, new = asked.ends(other)
    sizes = {}
    for i, weight in enumerate(asked.old):
        if weight is not None and asked.new[i] is None:
            if len(weight) > len(old):
                raise UnfitError(f"{asked.layer.op} adds axes")
            here = list(zip(weight, old[len(old) - len(weight) :], new[len(new) - len(weight) :],
                            strict=True))  # fmt: skip
            if any(size not in (1, was) for size, was, _ in here):
                raise UnfitError(f"{asked.layer.op} widens its input")
            sizes[i] = tuple(1 if size == 1 else now for size, _, now in here)
    return sizes, {}, {}


def _same_values(asked: _Asked) -> _Resized:
    """Parameters that do not depend on sizes: axes, bounds."""
    kept = {i: v for i, v in asked.values.items() if asked.new[i] is None}
    return {i: v.shape for i, v in kept.items()}, {}, kept


def _reshape(asked: _Asked) -> _Resized:
    old, new = asked.ends()
    target = [int(v) for v in asked.values[1].ravel()] if 1 in asked.values else []
    if not target or min(target) < 1:
        raise UnfitError("Reshape to unknown sizes")
    sizes = dict(zip(old, new, strict=True))
    found = [sizes.get(v, v) for v in target]
    wanted = math.prod(new)
    if math.prod(found) != wanted:
        # One of the sizes is the remainder: the last size that the input lacks.
        free = [i for i, v in enumerate(target) if v not in sizes] or [len(target) - 1]
        at = free[-1]
        others = math.prod(v for i, v in enumerate(found) if i != at)
        if wanted % others:
            raise UnfitError("Reshape to sizes that do not divide")
        found[at] = wanted // others
    return {}, {}, {1: np.array(found, dtype=np.int64)}


def _split(asked: _Asked) -> _Resized:
    old, new = asked.ends()
    axis = asked.layer.attributes.get("axis", 0)
    assert isinstance(axis, int)
    parts = [int(v) for v in asked.values[1]] if 1 in asked.values else []
    scaled = [Fraction(v * new[axis], old[axis]) for v in parts]
    if not parts or any(v.denominator != 1 or v < 1 for v in scaled):
        raise UnfitError("Split into parts that do not divide")
    return {}, {}, {1: np.array([int(v) for v in scaled], dtype=np.int64)}


_ELEMENTWISE = ("Add", "Div", "Max", "Min", "Mul", "PRelu", "Pow", "Sub", "Sum")
_SAME_VALUES = ("Clip", "ReduceMax", "ReduceMean", "ReduceSum", "Squeeze", "Unsqueeze", "Dropout")

_RULES: Mapping[str, Callable[[_Asked], _Resized]] = {
    "Conv": _convolution,
    "Gemm": _gemm,
    "MatMul": _matmul,
    "Reshape": _reshape,
    "Split": _split,
    **dict.fromkeys(("BatchNormalization", "InstanceNormalization"), _per_channel(1)),
    **dict.fromkeys(("LayerNormalization", "RMSNormalization"), _per_channel(-1)),
    **dict.fromkeys(_ELEMENTWISE, _broadcast),
    **dict.fromkeys(_SAME_VALUES, _same_values),
}
