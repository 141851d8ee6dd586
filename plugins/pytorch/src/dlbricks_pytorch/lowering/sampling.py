"""Random numbers: the same distribution as ONNX's, drawn by torch's generator."""

from __future__ import annotations

import torch
from torch.fx import Node

from dlbricks_pytorch.lowering.context import LayerContext
from dlbricks_pytorch.lowering.table import lowering


@lowering("RandomNormal", "RandomNormalLike")
def _random_normal(layer: LayerContext) -> Node:
    mean, scale = layer.attribute("mean", 0.0), layer.attribute("scale", 1.0)
    return layer.call(torch.normal, mean, scale, layer.result_shape(), dtype=layer.result_dtype())


@lowering("RandomUniform", "RandomUniformLike")
def _random_uniform(layer: LayerContext) -> Node:
    low, high = layer.attribute("low", 0.0), layer.attribute("high", 1.0)
    return layer.call(uniform, layer.result_shape(), low, high, layer.result_dtype())


def uniform(shape: tuple[int, ...], low: float, high: float, dtype: torch.dtype) -> torch.Tensor:
    """Uniform numbers between two bounds."""
    return torch.empty(shape, dtype=dtype).uniform_(low, high)


@lowering("Bernoulli")
def _bernoulli(layer: LayerContext) -> Node:
    drawn = layer.call(torch.bernoulli, layer.input(0))
    if layer.dtype(0) == layer.result_dtype():
        return drawn
    return layer.call(torch.Tensor.to, drawn, layer.result_dtype())


@lowering("Multinomial")
def _multinomial(layer: LayerContext) -> Node:
    count = layer.attribute("sample_size", 1)
    probabilities = layer.call(torch.softmax, layer.input(0), -1)
    drawn = layer.call(torch.multinomial, probabilities, count, True)
    return layer.call(torch.Tensor.to, drawn, layer.result_dtype())
