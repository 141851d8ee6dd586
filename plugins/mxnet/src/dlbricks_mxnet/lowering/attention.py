"""Attention and rotary embedding, composed as defined by ONNX."""

from __future__ import annotations

import math

import numpy as np

from dlbricks_core.errors import UnsupportedError
from dlbricks_core.ir import Array
from dlbricks_mxnet.lowering.context import LayerContext
from dlbricks_mxnet.lowering.limits import REAL
from dlbricks_mxnet.lowering.matrix import matmul
from dlbricks_mxnet.lowering.symbols import (
    Shape,
    Symbol,
    npi,
    op,
    product,
    reshape,
    slice_axis,
    transpose,
    where,
)
from dlbricks_mxnet.lowering.table import lowers


@lowers("Attention", types=REAL)
def _attention(ctx: LayerContext) -> list[Symbol]:
    if ctx.has(6):
        raise UnsupportedError("MXNet has no padded keys and values")
    flat = ctx.rank(0) == 3
    heads, kv_heads = (
        (ctx.attribute("q_num_heads"), ctx.attribute("kv_num_heads"))
        if flat
        else (ctx.shape(0)[1], ctx.shape(1)[1])
    )
    q, q_shape = _heads(ctx, 0, heads)
    k, k_shape = _heads(ctx, 1, kv_heads)
    v, v_shape = _heads(ctx, 2, kv_heads)
    if ctx.has(4):
        k, k_shape = _appended(ctx, 4, k, k_shape)
        v, v_shape = _appended(ctx, 5, v, v_shape)
    present = [k, v]
    groups = heads // kv_heads
    k, k_shape = _repeated(k, k_shape, groups)
    v, v_shape = _repeated(v, v_shape, groups)
    scale = ctx.attribute("scale") or 1 / math.sqrt(q_shape[3])
    root = math.sqrt(scale)
    scores = matmul(q * root, k * root, q_shape, k_shape, transpose_b=True)
    cap = ctx.attribute("softcap")
    past = k_shape[2] - ctx.shape(1)[1 if flat else 2]
    if cap:
        scores = op.tanh(scores / cap) * cap
    shape = (*q_shape[:3], k_shape[2])
    scores = _masked(ctx, scores, shape, past)
    weights = op.softmax(scores, axis=3)
    if ctx.has(3):  # a query that may attend to nothing yields zeros
        blind = npi.equal_scalar(op.max(scores, axis=3, keepdims=True), scalar=-math.inf)
        weights = where(blind, op.zeros_like(weights), weights)
    y = matmul(weights, v, shape, v_shape)
    if flat:
        y = reshape(transpose(y, (0, 2, 1, 3)), ctx.out_shape())
    return [y, *present]


def _heads(ctx: LayerContext, position: int, heads: int) -> tuple[Symbol, Shape]:
    """An operand as (batch, heads, steps, size)."""
    x, shape = ctx.input(position), ctx.shape(position)
    if len(shape) == 4:
        return x, shape
    batch, steps, hidden = shape
    split = (batch, steps, heads, hidden // heads)
    return transpose(reshape(x, split), (0, 2, 1, 3)), (batch, heads, steps, hidden // heads)


def _appended(ctx: LayerContext, position: int, x: Symbol, shape: Shape) -> tuple[Symbol, Shape]:
    """Puts the past before the present."""
    past = ctx.shape(position)
    joined = op.Concat(ctx.input(position), x, dim=2)
    return joined, (*shape[:2], past[2] + shape[2], shape[3])


def _repeated(x: Symbol, shape: Shape, groups: int) -> tuple[Symbol, Shape]:
    """Repeats heads, so that every query head has a key or value head of its own."""
    if groups == 1:
        return x, shape
    return op.repeat(x, repeats=groups, axis=1), (shape[0], shape[1] * groups, *shape[2:])


def _masked(ctx: LayerContext, scores: Symbol, shape: Shape, past: int) -> Symbol:
    if ctx.attribute("is_causal"):
        visible = np.tril(np.ones(shape[2:], bool), past)
        hidden = _hidden(visible).astype(ctx.dtype())
        scores = op.broadcast_add(scores, ctx.fixed("causal", hidden[np.newaxis, np.newaxis]))
    if not ctx.has(3):
        return scores
    mask_shape = ctx.shape(3)
    if mask_shape[-1] != shape[3]:
        raise UnsupportedError("MXNet has no mask that is shorter than the keys")
    aligned = (1,) * (4 - len(mask_shape)) + mask_shape
    return op.broadcast_add(scores, reshape(_added(ctx), aligned))


def _added(ctx: LayerContext) -> Symbol:
    """The mask in additive form: 0 where a query may attend, minus infinity elsewhere.

    Layers often share a mask. MXNet merges equal computations of several layers in a model, but a
    brick pays for them again. So as little as possible is computed from the mask.
    """
    if ctx.dtype(3) != "bool":
        return ctx.input(3)
    if ctx.is_weight(3):
        return ctx.prepared("added", [3], _hidden, ctx.shape(3), dtype=ctx.dtype())
    return op.log(op.cast(ctx.input(3), dtype=ctx.dtype()))


def _hidden(visible: Array) -> Array:
    return np.where(visible, 0, -np.inf)


@lowers("RotaryEmbedding", types=REAL)
def _rotary_embedding(ctx: LayerContext) -> Symbol:
    shape = ctx.shape(0)
    x = ctx.input(0)
    if len(shape) == 4:
        x, full = transpose(x, (0, 2, 1, 3)), (shape[0], shape[2], shape[1], shape[3])
    else:
        heads = ctx.attribute("num_heads")
        full = (shape[0], shape[1], heads, shape[2] // heads)
        x = reshape(x, full)
    size = full[3]
    rotated = ctx.attribute("rotary_embedding_dim") or size
    half = rotated // 2
    rest = slice_axis(x, 3, rotated, size) if rotated < size else None
    x = slice_axis(x, 3, 0, rotated) if rest is not None else x
    cos, sin = (_angles(ctx, i, (full[0], full[1], 1, half)) for i in (1, 2))
    if ctx.attribute("interleaved"):
        pairs = reshape(x, (*full[:3], half, 2))
        first, second = (reshape(slice_axis(pairs, 4, i, i + 1), (*full[:3], half)) for i in (0, 1))
    else:
        first, second = slice_axis(x, 3, 0, half), slice_axis(x, 3, half, rotated)
    real = op.broadcast_sub(op.broadcast_mul(first, cos), op.broadcast_mul(second, sin))
    imaginary = op.broadcast_add(op.broadcast_mul(first, sin), op.broadcast_mul(second, cos))
    if ctx.attribute("interleaved"):
        y = reshape(op.stack(real, imaginary, axis=4), (*full[:3], rotated))
    else:
        y = op.Concat(real, imaginary, dim=3)
    if rest is not None:
        y = op.Concat(y, rest, dim=3)
    return transpose(y, (0, 2, 1, 3)) if len(shape) == 4 else reshape(y, shape)


def _angles(ctx: LayerContext, position: int, shape: Shape) -> Symbol:
    """Sines or cosines for every step, selected by the given positions."""
    x = ctx.input(position)
    if ctx.has(3):
        x = op.take(x, ctx.input(3), axis=0, mode="clip")
    held = ctx.shape(position)[-1]
    if held != shape[3] or (not ctx.has(3) and product(ctx.shape(position)) != product(shape)):
        raise UnsupportedError("MXNet has no tables of another size")
    return reshape(x, shape)
