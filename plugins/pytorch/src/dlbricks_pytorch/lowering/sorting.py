"""Sorting and selection."""

from __future__ import annotations

import torch
from torch.fx import Node

from dlbricks_pytorch.lowering.context import LayerContext
from dlbricks_pytorch.lowering.table import lowering


@lowering("TopK")
def _top_k(layer: LayerContext) -> tuple[Node, Node]:
    axis, k = layer.axis(default=-1), layer.integers(1)[0]
    largest, ordered = bool(layer.attribute("largest", 1)), bool(layer.attribute("sorted", 1))
    if layer.dtype(0).is_floating_point:
        both = layer.call(torch.topk, layer.input(0), k, axis, largest, ordered)
    else:  # integers are often equal, and ONNX wants the first of equals first
        both = layer.call(stable_top_k, layer.input(0), k, axis, largest)
    return layer.item(both, 0), layer.item(both, 1)


def stable_top_k(
    x: torch.Tensor, k: int, axis: int, largest: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """The k first of a stable sort."""
    values, indices = torch.sort(x, dim=axis, descending=largest, stable=True)
    return values.narrow(axis, 0, k), indices.narrow(axis, 0, k)
