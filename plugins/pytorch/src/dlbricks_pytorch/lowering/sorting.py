"""Sorting and selection."""

from __future__ import annotations

import torch
from torch.fx import Node

from dlbricks_pytorch.lowering.context import LayerContext
from dlbricks_pytorch.lowering.table import lowers


@lowers("TopK")
def _top_k(ctx: LayerContext) -> tuple[Node, Node]:
    axis, k = ctx.axis(), ctx.integer(1)
    largest, ordered = bool(ctx.attribute("largest")), bool(ctx.attribute("sorted"))
    if ctx.torch_dtype(0).is_floating_point:
        both = ctx.call(torch.topk, ctx.input(0), k, axis, largest, ordered)
    else:  # integers are often equal, and ONNX wants the first of equals first
        both = ctx.call(stable_top_k, ctx.input(0), k, axis, largest)
    return ctx.item(both, 0), ctx.item(both, 1)


def stable_top_k(
    x: torch.Tensor, k: int, axis: int, largest: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """The first k elements of a stable sort."""
    values, indices = torch.sort(x, dim=axis, descending=largest, stable=True)
    return values.narrow(axis, 0, k), indices.narrow(axis, 0, k)
