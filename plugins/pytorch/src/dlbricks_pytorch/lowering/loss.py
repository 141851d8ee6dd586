"""Loss functions, as far as models carry them into inference."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch.fx import Node

from dlbricks_pytorch.lowering.context import LayerContext
from dlbricks_pytorch.lowering.table import lowering

_IGNORE_NOTHING = -(2**31)


def _arguments(layer: LayerContext) -> dict[str, object]:
    ignored = layer.attribute("ignore_index")
    return {
        "weight": layer.optional(2),
        "ignore_index": _IGNORE_NOTHING if ignored is None else ignored,
        "reduction": layer.attribute("reduction", "mean"),
    }


def _target(layer: LayerContext) -> Node:
    if layer.dtype(1) == torch.int64:
        return layer.input(1)
    return layer.call(torch.Tensor.to, layer.input(1), torch.int64)


@lowering("NegativeLogLikelihoodLoss")
def _nll_loss(layer: LayerContext) -> Node:
    return layer.call(F.nll_loss, layer.input(0), _target(layer), **_arguments(layer))


@lowering("SoftmaxCrossEntropyLoss")
def _cross_entropy(layer: LayerContext) -> Node | tuple[Node, Node]:
    if not layer.wants(1):
        return layer.call(F.cross_entropy, layer.input(0), _target(layer), **_arguments(layer))
    logarithms = layer.call(torch.log_softmax, layer.input(0), 1)
    return layer.call(F.nll_loss, logarithms, _target(layer), **_arguments(layer)), logarithms
