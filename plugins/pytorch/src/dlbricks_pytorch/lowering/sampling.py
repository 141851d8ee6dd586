"""Random numbers: the same distribution as ONNX's, drawn by torch's generator."""

from __future__ import annotations

import torch
from torch.fx import Node

from dlbricks_pytorch.lowering.context import LayerContext
from dlbricks_pytorch.lowering.table import lowers


@lowers("RandomNormal", "RandomNormalLike")
def _random_normal(ctx: LayerContext) -> Node:
    mean, scale = ctx.attribute("mean"), ctx.attribute("scale")
    return ctx.call(torch.normal, mean, scale, ctx.out_shape(), dtype=ctx.out_torch_dtype())


@lowers("RandomUniform", "RandomUniformLike")
def _random_uniform(ctx: LayerContext) -> Node:
    low, high = ctx.attribute("low"), ctx.attribute("high")
    return ctx.call(uniform, ctx.out_shape(), low, high, ctx.out_torch_dtype())


def uniform(shape: tuple[int, ...], low: float, high: float, dtype: torch.dtype) -> torch.Tensor:
    """Uniform numbers between two bounds."""
    return torch.empty(shape, dtype=dtype).uniform_(low, high)


@lowers("Bernoulli")
def _bernoulli(ctx: LayerContext) -> Node:
    drawn = ctx.call(torch.bernoulli, ctx.input(0))
    if ctx.torch_dtype(0) == ctx.out_torch_dtype():
        return drawn
    return ctx.call(torch.Tensor.to, drawn, ctx.out_torch_dtype())


@lowers("Multinomial")
def _multinomial(ctx: LayerContext) -> Node:
    count = ctx.attribute("sample_size")
    probabilities = ctx.call(torch.softmax, ctx.input(0), -1)
    drawn = ctx.call(torch.multinomial, probabilities, count, True)
    return ctx.call(torch.Tensor.to, drawn, ctx.out_torch_dtype())
