"""Matrix products."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch.fx import Node

from dlbricks_pytorch.lowering.context import LayerContext
from dlbricks_pytorch.lowering.table import lowers


@lowers("MatMul")
def _matmul(ctx: LayerContext) -> Node:
    if ctx.is_weight(1) and ctx.rank(1) == 2 and not ctx.is_weight(0):
        weight = ctx.prepared(1, torch.t, "transposed")
        return ctx.call(F.linear, ctx.input(0), weight)
    return ctx.call(torch.matmul, ctx.input(0), ctx.input(1))


@lowers("Gemm")
def _gemm(ctx: LayerContext) -> Node:
    alpha, beta = ctx.attribute("alpha"), ctx.attribute("beta")
    columns = ctx.out_shape()[1]
    a = ctx.input(0)
    if ctx.attribute("transA"):
        a = ctx.call(torch.t, a)
    plain = alpha == 1.0 and (not ctx.has(2) or beta == 1.0)
    as_linear = ctx.is_weight(1) and (not ctx.has(2) or ctx.shape(2) in ((columns,), (1, columns)))
    if plain and as_linear:
        transposed = ctx.attribute("transB")
        weight = ctx.input(1) if transposed else ctx.prepared(1, torch.t, "transposed")
        bias = ctx.prepared(2, torch.ravel, "ravel") if ctx.has(2) else None
        return ctx.call(F.linear, a, weight, bias)
    b = ctx.input(1)
    if ctx.attribute("transB"):
        b = ctx.call(torch.t, b)
    floating = ctx.torch_dtype(0).is_floating_point
    alpha, beta = (alpha, beta) if floating else (int(alpha), int(beta))
    if not ctx.has(2):
        product = ctx.call(torch.mm, a, b)
        return product if alpha == 1 else ctx.call(torch.mul, product, alpha)
    return ctx.call(torch.addmm, ctx.input(2), a, b, beta=beta, alpha=alpha)


@lowers("Einsum")
def _einsum(ctx: LayerContext) -> Node:
    return ctx.call(torch.einsum, ctx.attribute("equation"), *ctx.inputs())


@lowers("Det")
def _det(ctx: LayerContext) -> Node:
    return ctx.call(torch.linalg.det, ctx.input(0))
