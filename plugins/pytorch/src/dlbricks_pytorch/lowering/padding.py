"""Padding in all modes, along all axes."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch.fx import Node

from dlbricks_pytorch.lowering.context import LayerContext
from dlbricks_pytorch.lowering.convolution import torch_pads
from dlbricks_pytorch.lowering.table import lowering

_TORCH_MODES = {"reflect": "reflect", "edge": "replicate", "wrap": "circular"}


@lowering("Pad")
def _pad(layer: LayerContext) -> Node:
    mode, rank = layer.attribute("mode", "constant"), layer.rank(0)
    pads = _all_pads(layer)
    if mode == "constant":
        return _constant_pad(layer, pads)
    if _has_native(layer, mode, pads):
        spatial = rank - 2
        inner = [*pads[2:rank], *pads[rank + 2 :]]
        assert len(inner) == 2 * spatial
        return layer.call(F.pad, layer.input(0), torch_pads(inner), _TORCH_MODES[mode])
    node = layer.input(0)
    for axis, size in enumerate(layer.shape(0)):
        begin, end = pads[axis], pads[rank + axis]
        if begin or end:
            index = layer.constant(_source_indices(mode, size, begin, end))
            node = layer.call(torch.index_select, node, axis, index)
    return node


def _all_pads(layer: LayerContext) -> tuple[int, ...]:
    """Pads of every axis, all begins and then all ends."""
    given = layer.integers(1)
    if not layer.has(3):
        return given
    rank = layer.rank(0)
    axes = [axis % rank for axis in layer.integers(3)]
    pads = [0] * (2 * rank)
    for i, axis in enumerate(axes):
        pads[axis], pads[rank + axis] = given[i], given[len(axes) + i]
    return tuple(pads)


def _constant_pad(layer: LayerContext, pads: tuple[int, ...]) -> Node:
    if layer.has(2) and not layer.is_scalar_weight(2):
        raise layer.unsupported("the padding value is not a constant")
    value = layer.number(2) if layer.has(2) else 0
    return layer.call(torch.constant_pad_nd, layer.input(0), torch_pads(pads), value)


def _has_native(layer: LayerContext, mode: str, pads: tuple[int, ...]) -> bool:
    """Whether F.pad has the mode for these axes: the spatial ones of floats only."""
    rank = layer.rank(0)
    outer = (*pads[:2], *pads[rank : rank + 2])
    inside = mode == "edge" or all(
        pads[axis] < size and pads[rank + axis] < size for axis, size in enumerate(layer.shape(0))
    )
    return (
        3 <= rank <= 5
        and not any(outer)
        and min(pads) >= 0
        and inside
        and layer.dtype(0) in (torch.float32, torch.float64)
    )


def _source_indices(mode: str, size: int, begin: int, end: int) -> np.ndarray[Any, Any]:
    """Where each element of the padded axis comes from."""
    position = np.arange(-begin, size + end)
    if mode == "edge":
        return np.asarray(np.clip(position, 0, size - 1))
    if mode == "wrap":
        return position % size
    period = max(2 * (size - 1), 1)
    return np.asarray((size - 1) - np.abs((size - 1) - position % period))
