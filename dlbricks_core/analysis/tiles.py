"""Tiles: parts of a large network with few rows, from which the latency of all rows follows.

A convolution does the same work for each row of an image. Two parts of it with few rows differ
in latency by the time that their difference in rows takes. They have the fixed costs in common:
reading weights, waking threads. A straight line through the two latencies leads to the latency of
the whole.
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
"""Minimum operations of the larger tile: some milliseconds on one core, so that the fixed cost of a
run is a small part of it."""

TILE_ROWS = 4
"""Minimum rows of the larger tile's result: enough to share among threads, and for kernels that
compute several rows at a time."""

INTENSITY = 500
"""Minimum operations of a network for each byte of its feature maps. Below that, latency depends on
whether feature maps fit into the caches: those of a tile do, those of the whole do not."""

PADDED = 0.05
"""Maximum share of a convolution's window rows that lie on padding. Tiles have no padding, and
frameworks differ in whether they compute on it."""

_APART = 4
"""Ratio of the larger tile's operations to the smaller tile's. The farther apart the two are, the
less the scatter of their samples tilts the line through them."""

_WORTH = 3
"""Minimum ratio of a network's operations to those of both tiles together."""

_ALIKE = frozenset(
    {*ELEMENTWISE, "AveragePool", "BatchNormalization", "Clip", "Conv", "InstanceNormalization",
     "LRN", "MaxPool"}
)  # fmt: skip
"""Operators that do the same work for each row. Matrix products are left out: frameworks pack them
and share them among threads by the number of rows."""

_AXIS = 2
"""Axis of a feature map along which its rows lie."""


@dataclass(frozen=True)
class Tile:
    """A part of a large brick, timed in the place of the brick.

    Attributes:
        brick: The part.
        weight: Factor of the part's cost in the sum that is the large brick's cost.
    """

    brick: Brick
    weight: float


def tiles(brick: Brick) -> tuple[Tile, ...]:
    """Two parts of a brick that are timed in its place; none if the brick is not suited.

    Convolutions that compute much and move little are suited, and so are chains with such a
    convolution. Convolutions with windows of one element are not: they are matrix products.

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
    """Operations of all layers; operations on rows of padding count half.

    ONNX Runtime skips rows of padding, oneDNN computes them.
    """
    each = (
        (layer_flops(model, layer) or 0) * (1 - _padded(model, layer) / 2) for layer in model.layers
    )
    return round(sum(each))


def _padded(model: CanonicalModel, layer: Layer) -> float:
    """Share of a convolution's window rows that lie on padding."""
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
    """Number of rows of the first convolution's result."""
    first = next(layer for layer in model.layers if layer.qualified_op == "Conv")
    return model.tensors[first.outputs[0]].sizes[_AXIS]


def _with_operations(model: CanonicalModel, number: int) -> CanonicalModel | None:
    """The smallest part with at least this many operations; ``None`` if there is none."""

    def operations(rows: int) -> int:
        part = _part(model, rows)
        return _operations(part) if part else 0

    every = range(model.tensors[model.inputs[0]].sizes[_AXIS])
    return _part(model, bisect_left(every, number, 1, key=operations))


def _part(model: CanonicalModel, rows: int) -> CanonicalModel | None:
    """Layers on a number of rows from the middle of a feature map, without padding.

    Returns:
        ``None`` if the layers do not fit so few rows.
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
