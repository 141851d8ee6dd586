"""Loss functions that models carry into inference."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch.fx import Node

from dlbricks_pytorch.lowering.context import LayerContext
from dlbricks_pytorch.lowering.table import lowers

_IGNORE_NOTHING = -(2**31)
"""Class that no target has: torch ignores one in any case."""


def _arguments(ctx: LayerContext) -> dict[str, object]:
    ignored = ctx.attribute("ignore_index")
    return {
        "weight": ctx.optional(2),
        "ignore_index": _IGNORE_NOTHING if ignored is None else ignored,
        "reduction": ctx.attribute("reduction"),
    }


def _target(ctx: LayerContext) -> Node:
    if ctx.torch_dtype(1) == torch.int64:
        return ctx.input(1)
    return ctx.call(torch.Tensor.to, ctx.input(1), torch.int64)


@lowers("NegativeLogLikelihoodLoss")
def _nll_loss(ctx: LayerContext) -> Node:
    return ctx.call(F.nll_loss, ctx.input(0), _target(ctx), **_arguments(ctx))


@lowers("SoftmaxCrossEntropyLoss")
def _cross_entropy(ctx: LayerContext) -> Node | tuple[Node, Node]:
    if not ctx.wants(1):
        return ctx.call(F.cross_entropy, ctx.input(0), _target(ctx), **_arguments(ctx))
    logarithms = ctx.call(torch.log_softmax, ctx.input(0), 1)
    return ctx.call(F.nll_loss, logarithms, _target(ctx), **_arguments(ctx)), logarithms
