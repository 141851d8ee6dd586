"""Tiles: a few rows of a large network, which tell how long all of its rows take.

A convolution over an image of a million pixels does the same for each row of it. Two parts of
it with few rows differ by what so many rows take, and have in common what does not depend on
rows (weights that are read, threads that are woken): a straight line through both leads to the
whole.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace

import numpy as np

from dlbricks_core.analysis.flops import ELEMENTWISE, layer_flops
from dlbricks_core.bricks import Brick, native_to, signature
from dlbricks_core.errors import ModelError
from dlbricks_core.ir import CanonicalModel, Layer
from dlbricks_core.passes.shapes import infer

TILE_FLOPS = 1_000_000_000
"""Operations of the larger tile: some milliseconds on a core, beside which what a run costs by
itself is little."""

TILE_ROWS = 4
"""Rows of a result that the larger tile has at least: enough to be shared among threads, and for
kernels that work on several at a time."""

INTENSITY = 500
"""Operations for each byte of its feature maps that a network must have. Where it has fewer, it
matters whether maps fit into the caches: those of a tile do, those of the whole do not."""

PADDED = 0.05
"""Share of the rows of a convolution's windows that may lie on padding. Tiles have none, and
frameworks differ in whether they compute there."""

_APART = 4
"""How many times more operations the larger tile has than the smaller one. The farther they are
apart, the less does what their samples scatter count in the line through them."""

_WORTH = 3
"""How many times more operations than both of its tiles a network must have."""

_ALIKE = frozenset(
    {*ELEMENTWISE, "AveragePool", "BatchNormalization", "Clip", "Conv", "InstanceNormalization",
     "LRN", "MaxPool"}
)  # fmt: skip
"""Operators that do the same for each row. Products of matrices do too, but are packed and shared
among threads by the number of rows."""

_AXIS = 2
"""Axis of a feature map along which its rows lie."""


@dataclass(frozen=True)
class Tile:
    """A part of a large brick that is timed in its place, with others.

    Attributes:
        brick: The part.
        weight: What its cost counts for in the sum that is the large brick's cost.
    """

    brick: Brick
    weight: float


def tiles(brick: Brick) -> tuple[Tile, ...]:
    """Two parts of a brick that are to be timed in its place; none if it is not fit for that.

    Fit are convolutions that compute much and move little, and chains with them. Windows of one
    element are left out: they are products of matrices.

    Args:
        brick: In canonical form, with static shapes.
    """
    model = brick.model
    if brick.opaque or not _is_fit(model):
        return ()
    whole, rows = _operations(model), _rows(model)
    least = max(TILE_FLOPS, whole * TILE_ROWS // rows)
    parts = [_with_operations(model, number) for number in (least // _APART, least)]
    small, large = (_operations(part) if part else 0 for part in parts)
    if not 0 < small < large or whole < _WORTH * (small + large):
        return ()
    beyond = (whole - large) / (large - small)
    weights = (-beyond, 1 + beyond)
    return tuple(Tile(_brick(part), w) for part, w in zip(parts, weights, strict=True) if part)


def _is_fit(model: CanonicalModel) -> bool:
    if native_to(model) or not _ALIKE.issuperset(layer.qualified_op for layer in model.layers):
        return False
    if [model.tensors[name].rank > _AXIS for name in model.inputs] != [True]:
        return False
    convolutions = [layer for layer in model.layers if layer.qualified_op == "Conv"]
    fit = [_is_wide(each) and _padded(model, each) <= PADDED for each in convolutions]
    if not convolutions or not all(fit):
        return False
    maps = sum(spec.nbytes for name, spec in model.tensors.items() if name not in model.weights)
    return _operations(model) >= INTENSITY * maps


def _is_wide(layer: Layer) -> bool:
    """Whether the windows of a convolution hold more than one element."""
    return any(size > 1 for size in _integers(layer, "kernel_shape"))


def _operations(model: CanonicalModel) -> int:
    """Of all layers; those on rows of padding count half.

    ONNX Runtime leaves them out, oneDNN does not.
    """
    each = (
        (layer_flops(model, layer) or 0) * (1 - _padded(model, layer) / 2) for layer in model.layers
    )
    return round(sum(each))


def _padded(model: CanonicalModel, layer: Layer) -> float:
    """Share of the rows of a convolution's windows that lie on padding."""
    if layer.qualified_op != "Conv":
        return 0.0
    rows, results = (model.tensors[n].sizes[_AXIS] for n in (layer.inputs[0], layer.outputs[0]))
    size, step, apart, before = (
        _integers(layer, name)[0] for name in ("kernel_shape", "strides", "dilations", "pads")
    )
    first = np.arange(results)[:, None] * step - before
    positions = first + np.arange(size) * apart
    return float(np.mean((positions < 0) | (positions >= rows)))


def _integers(layer: Layer, name: str) -> tuple[int, ...]:
    value = layer.attributes[name]
    assert isinstance(value, tuple)
    return value


def _rows(model: CanonicalModel) -> int:
    """Of the first convolution's result."""
    first = next(layer for layer in model.layers if layer.qualified_op == "Conv")
    return model.tensors[first.outputs[0]].sizes[_AXIS]


def _with_operations(model: CanonicalModel, number: int) -> CanonicalModel | None:
    """The part with the fewest rows that has so many operations; ``None`` if there is none."""

    def operations(rows: int) -> int:
        part = _part(model, rows)
        return _operations(part) if part else 0

    every = range(model.tensors[model.inputs[0]].sizes[_AXIS])
    return _part(model, bisect_left(every, number, 1, key=operations))


def _part(model: CanonicalModel, rows: int) -> CanonicalModel | None:
    """The same layers on so many rows from the middle of a map, which have no padding.

    Returns:
        ``None`` if the layers do not fit them.
    """
    (name,) = model.inputs
    sizes = list(model.tensors[name].sizes)
    sizes[_AXIS] = rows
    tensors = {**model.tensors, name: replace(model.tensors[name], shape=tuple(sizes))}
    layers = tuple(map(_without_row_padding, model.layers))
    try:
        for layer in layers:
            tensors.update(infer(layer, tensors, model.constants))
    except ModelError:
        return None
    sound = all(spec.is_static and min(spec.sizes, default=1) > 0 for spec in tensors.values())
    return replace(model, layers=layers, tensors=tensors) if sound else None


def _without_row_padding(layer: Layer) -> Layer:
    if "pads" not in layer.attributes:
        return layer
    pads = list(_integers(layer, "pads"))
    pads[0] = pads[len(pads) // 2] = 0
    return replace(layer, attributes={**layer.attributes, "pads": tuple(pads)})


def _brick(part: CanonicalModel) -> Brick:
    identity = signature(part, range(len(part.layers)))
    return Brick(identity, replace(part, name=identity))
