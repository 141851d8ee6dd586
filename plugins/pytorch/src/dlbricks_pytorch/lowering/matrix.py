"""Matrix products."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch.fx import Node

from dlbricks_pytorch.lowering.context import LayerContext
from dlbricks_pytorch.lowering.table import lowering


@lowering("MatMul")
def _matmul(layer: LayerContext) -> Node:
    if layer.is_weight(1) and layer.rank(1) == 2 and not layer.is_weight(0):
        weight = layer.prepared(1, torch.t, "transposed")
        return layer.call(F.linear, layer.input(0), weight)
    return layer.call(torch.matmul, layer.input(0), layer.input(1))


@lowering("Gemm")
def _gemm(layer: LayerContext) -> Node:
    alpha, beta = layer.attribute("alpha", 1.0), layer.attribute("beta", 1.0)
    columns = layer.result_shape()[1]
    a = layer.input(0)
    if layer.attribute("transA", 0):
        a = layer.call(torch.t, a)
    plain = alpha == 1.0 and (not layer.has(2) or beta == 1.0)
    as_linear = layer.is_weight(1) and (
        not layer.has(2) or layer.shape(2) in ((columns,), (1, columns))
    )
    if plain and as_linear:
        transposed = layer.attribute("transB", 0)
        weight = layer.input(1) if transposed else layer.prepared(1, torch.t, "transposed")
        bias = layer.prepared(2, torch.ravel, "ravel") if layer.has(2) else None
        return layer.call(F.linear, a, weight, bias)
    b = layer.input(1)
    if layer.attribute("transB", 0):
        b = layer.call(torch.t, b)
    floating = layer.dtype(0).is_floating_point
    alpha, beta = (alpha, beta) if floating else (int(alpha), int(beta))
    if not layer.has(2):
        product = layer.call(torch.mm, a, b)
        return product if alpha == 1 else layer.call(torch.mul, product, alpha)
    return layer.call(torch.addmm, layer.input(2), a, b, beta=beta, alpha=alpha)


@lowering("Einsum")
def _einsum(layer: LayerContext) -> Node:
    equation = layer.attribute("equation").replace(" ", "")
    return layer.call(torch.einsum, equation, *layer.inputs())


@lowering("Det")
def _det(layer: LayerContext) -> Node:
    return layer.call(torch.linalg.det, layer.input(0))
