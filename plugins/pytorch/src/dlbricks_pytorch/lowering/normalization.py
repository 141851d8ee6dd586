"""Normalization layers."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch.fx import Node

from dlbricks_pytorch.lowering.context import LayerContext
from dlbricks_pytorch.lowering.table import lowering


@lowering("BatchNormalization")
def _batch_norm(layer: LayerContext) -> Node:
    if layer.attribute("training_mode", 0) or any(layer.wants(i) for i in (1, 2)):
        raise layer.unsupported("the training mode is not inference")
    x, scale, bias, mean, variance = layer.inputs()
    epsilon = layer.attribute("epsilon", 1e-5)
    return layer.call(torch.batch_norm, x, scale, bias, mean, variance, False, 0.0, epsilon, False)


@lowering("InstanceNormalization")
def _instance_norm(layer: LayerContext) -> Node:
    x, scale, bias = layer.inputs()
    epsilon = layer.attribute("epsilon", 1e-5)
    return layer.call(torch.instance_norm, x, scale, bias, None, None, True, 0.0, epsilon, False)


@lowering("GroupNormalization")
def _group_norm(layer: LayerContext) -> Node:
    x, scale, bias = layer.inputs()
    epsilon = layer.attribute("epsilon", 1e-5)
    return layer.call(torch.group_norm, x, layer.attribute("num_groups"), scale, bias, epsilon)


def _normalized_shape(layer: LayerContext) -> tuple[int, ...]:
    return layer.shape(0)[layer.axis(default=-1) :]


def _parameter(layer: LayerContext, position: int) -> Node | None:
    """A scale or bias in the shape of the normalized axes."""
    if not layer.has(position):
        return None
    shape = _normalized_shape(layer)
    if layer.shape(position) == shape:
        return layer.input(position)
    try:
        np.broadcast_to(np.empty(layer.shape(position)), shape)
    except ValueError as error:
        raise layer.unsupported("the scale reaches beyond the normalized axes") from error
    return layer.prepared(position, lambda value: value.expand(shape), ("expanded", shape))


@lowering("LayerNormalization")
def _layer_norm(layer: LayerContext) -> Node | tuple[Node, ...]:
    shape, epsilon = _normalized_shape(layer), layer.attribute("epsilon", 1e-5)
    arguments = (layer.input(0), shape, _parameter(layer, 1), _parameter(layer, 2), epsilon)
    if not layer.wants(1) and not layer.wants(2):
        return layer.call(torch.layer_norm, *arguments, False)
    results = layer.call(torch.native_layer_norm, *arguments)
    return tuple(layer.item(results, i) for i in range(3))


@lowering("RMSNormalization")
def _rms_norm(layer: LayerContext) -> Node:
    epsilon = layer.attribute("epsilon", 1e-5)
    return layer.call(
        torch.rms_norm, layer.input(0), _normalized_shape(layer), _parameter(layer, 1), epsilon
    )


@lowering("LRN")
def _lrn(layer: LayerContext) -> Node:
    size, alpha = layer.attribute("size"), layer.attribute("alpha", 1e-4)
    beta, bias = layer.attribute("beta", 0.75), layer.attribute("bias", 1.0)
    function = F.local_response_norm if size % 2 else local_response_norm_even
    return layer.call(function, layer.input(0), size, alpha, beta, bias)


def local_response_norm_even(
    x: torch.Tensor, size: int, alpha: float, beta: float, bias: float
) -> torch.Tensor:
    """For windows of even size, where ONNX reaches one channel further up than torch."""
    flipped = F.local_response_norm(x.flip(1), size, alpha, beta, bias)
    return flipped.flip(1)


@lowering("LpNormalization")
def _lp_normalization(layer: LayerContext) -> Node:
    axis, p = layer.axis(default=-1), layer.attribute("p", 2)
    return layer.call(lp_normalize, layer.input(0), p, axis)


def lp_normalize(x: torch.Tensor, p: int, axis: int) -> torch.Tensor:
    """Divided by the norm along the axis; zeros stay zeros."""
    norm = torch.linalg.vector_norm(x, p, axis, keepdim=True)
    return torch.where(norm == 0, torch.zeros_like(x), x / norm)


@lowering("MeanVarianceNormalization")
def _mean_variance(layer: LayerContext) -> Node:
    axes = tuple(layer.attribute("axes", (0, 2, 3)))
    return layer.call(mean_variance_normalize, layer.input(0), axes)


def mean_variance_normalize(x: torch.Tensor, axes: tuple[int, ...]) -> torch.Tensor:
    """Mean zero and variance one over the axes, as ONNX's own function body has it."""
    variance, mean = torch.var_mean(x, axes, correction=0, keepdim=True)
    return (x - mean) / (torch.sqrt(variance) + 1e-9)
