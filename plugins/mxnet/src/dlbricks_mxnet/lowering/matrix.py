"""Matrix products."""

from __future__ import annotations

import numpy as np

from dlbricks_mxnet.lowering.context import LayerContext
from dlbricks_mxnet.lowering.elementwise import check_broadcast
from dlbricks_mxnet.lowering.limits import REAL
from dlbricks_mxnet.lowering.symbols import (
    Shape,
    Symbol,
    broadcast_to,
    op,
    product,
    reshaped,
)
from dlbricks_mxnet.lowering.table import lowers


@lowers("Gemm", types=REAL)
def _gemm(ctx: LayerContext) -> Symbol:
    alpha, beta = ctx.attribute("alpha"), ctx.attribute("beta")
    trans_a, trans_b = bool(ctx.attribute("transA")), bool(ctx.attribute("transB"))
    rows, columns = ctx.out_shape()
    if ctx.is_weight(1) and not trans_a:
        return _fully_connected(ctx, alpha, beta, trans_b=trans_b)
    y = op.dot(ctx.input(0), ctx.input(1), transpose_a=trans_a, transpose_b=trans_b)
    if alpha != 1.0:
        y = y * alpha
    if not ctx.has(2) or beta == 0.0:
        return y
    c = ctx.input(2) if beta == 1.0 else ctx.input(2) * beta
    return op.elemwise_add(y, c) if ctx.shape(2) == (rows, columns) else op.broadcast_add(y, c)


def _fully_connected(ctx: LayerContext, alpha: float, beta: float, *, trans_b: bool) -> Symbol:
    """A dense layer, whose weight has the shape (outputs, inputs) and includes the factors."""
    columns = ctx.out_shape()[1]
    inner = ctx.shape(0)[1]
    if trans_b and alpha == 1.0:
        weight = ctx.input(1)
    else:
        weight = ctx.prepared(
            f"weight{alpha}{'' if trans_b else 'T'}",
            [1],
            lambda b: (b if trans_b else b.T) * np.asarray(alpha, b.dtype),
            (columns, inner),
        )
    has_bias = ctx.has(2) and beta != 0.0
    as_vector = has_bias and ctx.is_weight(2) and product(ctx.shape(2)[:-1]) == 1
    bias = []
    if as_vector and beta == 1.0 and ctx.shape(2) == (columns,):
        bias = [ctx.input(2)]
    elif as_vector:
        bias = [
            ctx.prepared(
                f"bias{beta}x{columns}",
                [2],
                lambda c: np.broadcast_to(c * np.asarray(beta, c.dtype), (1, columns)),
                (columns,),
            )
        ]
    y = op.FullyConnected(
        ctx.input(0), weight, *bias, num_hidden=columns, no_bias=not bias, flatten=False
    )
    if has_bias and not as_vector:
        c = ctx.input(2) if beta == 1.0 else ctx.input(2) * beta
        y = op.broadcast_add(y, c)
    return y


@lowers("MatMul", types=REAL)
def _matmul(ctx: LayerContext) -> Symbol:
    a_shape, b_shape = ctx.shape(0), ctx.shape(1)
    if ctx.is_weight(1) and len(b_shape) == 2:
        weight = ctx.prepared("weight1.0T", [1], lambda b: b.T, (b_shape[1], b_shape[0]))
        rows = a_shape if len(a_shape) > 1 else (1, *a_shape)
        y = op.FullyConnected(
            reshaped(ctx.input(0), a_shape, rows),
            weight,
            num_hidden=b_shape[1],
            no_bias=True,
            flatten=False,
        )
        return reshaped(y, (*rows[:-1], b_shape[1]), ctx.out_shape())
    return matmul(ctx.input(0), ctx.input(1), a_shape, b_shape)


def matmul(
    a: Symbol, b: Symbol, a_shape: Shape, b_shape: Shape, *, transpose_b: bool = False
) -> Symbol:
    """The product as numpy's ``matmul`` defines it, with ``b``'s last axes swapped on request."""
    left = a_shape if len(a_shape) > 1 else (1, *a_shape)
    right = b_shape if len(b_shape) > 1 else (*b_shape, 1)
    m, k = left[-2:]
    n = right[-2] if transpose_b else right[-1]
    batch = np.broadcast_shapes(left[:-2], right[:-2])
    result = (*batch, *((m,) if len(a_shape) > 1 else ()), *((n,) if len(b_shape) > 1 else ()))
    if product(right[:-2]) == 1:
        # One matrix multiplies all rows of the other operand.
        flat = (product(left[:-1]), k)
        y = op.dot(reshaped(a, a_shape, flat), reshaped(b, b_shape, right[-2:]),
                   transpose_b=transpose_b)  # fmt: skip
        return reshaped(y, (flat[0], n), result)
    count = product(batch)
    factors = []
    for x, old, shape in ((a, a_shape, left), (b, b_shape, right)):
        full = (*batch, *shape[-2:])
        check_broadcast(shape, full)
        x = broadcast_to(reshaped(x, old, shape), shape, full)
        factors.append(reshaped(x, full, (count, *shape[-2:])))
    y = op.batch_dot(*factors, transpose_b=transpose_b)
    return reshaped(y, (count, m, n), result)


@lowers("Det", types=REAL)
def _det(ctx: LayerContext) -> Symbol:
    return op.linalg.det(ctx.input(0))
