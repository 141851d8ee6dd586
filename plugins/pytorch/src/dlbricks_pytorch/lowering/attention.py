"""Attention and rotary position embeddings."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F  # noqa: N812
from torch.fx import Node

from dlbricks_pytorch.lowering.context import LayerContext
from dlbricks_pytorch.lowering.table import UNSUPPORTED, lowers
from dlbricks_pytorch.tensors import TORCH_DTYPES

UNSUPPORTED["LinearAttention"] = "torch has no recurrent linear attention"
UNSUPPORTED["ai.onnx.preview.FlexAttention"] = "its score functions are subgraphs"


@dataclass(frozen=True)
class _Sizes:
    """Sizes of the attention: queries, all keys, and keys from the cache."""

    queries: int
    keys: int
    past: int


@lowers("Attention")
def _attention(ctx: LayerContext) -> tuple[Node | None, ...]:
    flat = ctx.rank(0) == 3
    q = _heads(ctx, 0, "q_num_heads")
    k, v = (_heads(ctx, position, "kv_num_heads") for position in (1, 2))
    past = 0
    if ctx.has(4):
        past = ctx.shape(4)[2]
        k = ctx.call(torch.cat, [ctx.input(4), k], 2)
        v = ctx.call(torch.cat, [ctx.input(5), v], 2)
    sizes = _Sizes(ctx.shape(0)[-2], ctx.shape(1)[-2] + past, past)
    scale = ctx.attribute("scale") or 1 / math.sqrt(_head_size(ctx))
    grouped = _head_count(ctx, 0, "q_num_heads") != _head_count(ctx, 1, "kv_num_heads")
    mask, causal = _mask(ctx, sizes)
    scores = None
    if ctx.attribute("softcap") or ctx.wants(3) or _raises_precision(ctx):
        y, scores = _explicit(ctx, (q, k, v), mask, causal, sizes, scale, grouped)
    else:
        extra = {"enable_gqa": True} if grouped else {}
        y = ctx.call(
            F.scaled_dot_product_attention, q, k, v, attn_mask=mask, is_causal=causal,
            scale=scale, **extra,
        )  # fmt: skip
    if flat:
        y = ctx.call(torch.transpose, y, 1, 2)
        y = ctx.call(torch.reshape, y, ctx.out_shape())
    return y, k, v, scores


def _head_count(ctx: LayerContext, position: int, attribute: str) -> int:
    if ctx.rank(position) == 4:
        return ctx.shape(position)[1]
    return int(ctx.attribute(attribute))


def _head_size(ctx: LayerContext) -> int:
    return ctx.shape(0)[-1] // (ctx.attribute("q_num_heads") if ctx.rank(0) == 3 else 1)


def _heads(ctx: LayerContext, position: int, attribute: str) -> Node:
    """An operand as ``[batch, heads, sequence, head size]``."""
    x = ctx.input(position)
    if ctx.rank(position) == 4:
        return x
    batch, length, width = ctx.shape(position)
    heads = int(ctx.attribute(attribute))
    x = ctx.call(torch.reshape, x, (batch, length, heads, width // heads))
    return ctx.call(torch.transpose, x, 1, 2)


def _mask(ctx: LayerContext, sizes: _Sizes) -> tuple[Node | None, bool]:
    """The mask for torch, and whether torch's own causal mask suffices instead."""
    causal = bool(ctx.attribute("is_causal"))
    window = (ctx.attribute("left_window_size"), ctx.attribute("right_window_size"))
    mask = None
    if ctx.has(3):
        mask = ctx.input(3)
        missing = sizes.keys - ctx.shape(3)[-1]
        if missing > 0:
            filling = False if ctx.torch_dtype(3) == torch.bool else -float("inf")
            mask = ctx.call(F.pad, mask, [0, missing], "constant", filling)
    if causal and mask is None and sizes.past == 0 and window == (-1, -1) and not ctx.has(6):
        return None, True
    if ctx.has(6):
        allowed = ctx.call(visible_keys, ctx.input(6), sizes.queries, sizes.keys, causal, window)
    elif causal or window != (-1, -1):
        allowed = ctx.fixed(visible(sizes.queries, sizes.keys, sizes.past, causal, window))
    else:
        return mask, False
    if mask is None:
        return allowed, False
    if ctx.torch_dtype(3) == torch.bool:
        return ctx.call(torch.logical_and, mask, allowed), False
    return ctx.call(torch.where, allowed, mask, -float("inf")), False


def visible(
    queries: int,
    keys: int,
    offset: int | torch.Tensor,
    causal: bool,
    window: tuple[int, int],
) -> torch.Tensor:
    """Boolean mask of the keys that each query attends to; the first query is at ``offset``."""
    left, right = window
    position = torch.arange(queries)[:, None] + offset
    key = torch.arange(keys)
    allowed = torch.ones(1, dtype=torch.bool)
    if causal:
        allowed = allowed & (key <= position)
    if left >= 0:
        allowed = allowed & (key >= position - left)
    if right >= 0:
        allowed = allowed & (key <= position + right)
    return allowed


def visible_keys(
    lengths: torch.Tensor, queries: int, keys: int, causal: bool, window: tuple[int, int]
) -> torch.Tensor:
    """Boolean mask of the keys that each query attends to, in a cache filled to ``lengths``."""
    lengths = lengths.reshape(-1, 1, 1, 1)
    filled = torch.arange(keys) < lengths
    return filled & visible(queries, keys, lengths - queries, causal, window)


def _raises_precision(ctx: LayerContext) -> bool:
    wanted = _softmax_dtype(ctx)
    return wanted is not None and torch.finfo(wanted).bits > max(
        32, torch.finfo(ctx.torch_dtype(0)).bits
    )


def _softmax_dtype(ctx: LayerContext) -> torch.dtype | None:
    from dlbricks_core.ir.tensors import DTYPE_NAMES

    number = ctx.attribute("softmax_precision")
    return TORCH_DTYPES[DTYPE_NAMES[number]] if number else None


def _explicit(
    ctx: LayerContext,
    operands: tuple[Node, Node, Node],
    mask: Node | None,
    causal: bool,
    sizes: _Sizes,
    scale: float,
    grouped: bool,
) -> tuple[Node, Node]:
    """Separate products and softmax, for results that the fused operator does not return."""
    q, k, v = operands
    if causal:
        mask = ctx.fixed(visible(sizes.queries, sizes.keys, 0, True, (-1, -1)))
    if grouped:
        times = _head_count(ctx, 0, "q_num_heads") // _head_count(ctx, 1, "kv_num_heads")
        k, v = (ctx.call(torch.repeat_interleave, x, times, 1) for x in (k, v))
    softcap = ctx.attribute("softcap")
    raw = ctx.call(scaled_scores, q, k, scale)
    capped = ctx.call(cap, raw, softcap) if softcap else raw
    biased = capped if mask is None else ctx.call(add_mask, capped, mask)
    weights = ctx.call(attention_weights, biased, _softmax_dtype(ctx), ctx.torch_dtype(0))
    scores = (raw, capped, biased, weights)[ctx.attribute("qk_matmul_output_mode")]
    return ctx.call(torch.matmul, weights, v), scores


def scaled_scores(q: torch.Tensor, k: torch.Tensor, scale: float) -> torch.Tensor:
    """Products of queries and keys, both scaled first to keep them small."""
    root = math.sqrt(scale)
    return torch.matmul(q * root, (k * root).transpose(-1, -2))


def cap(scores: torch.Tensor, bound: float) -> torch.Tensor:
    """Scores with a soft upper bound."""
    return bound * torch.tanh(scores / bound)


def add_mask(scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Scores with a mask of either kind."""
    return scores.masked_fill(~mask, -float("inf")) if mask.dtype == torch.bool else scores + mask


def attention_weights(
    scores: torch.Tensor, precision: torch.dtype | None, result: torch.dtype
) -> torch.Tensor:
    """Softmax over the keys; a query that attends to none gets zeros."""
    hidden = torch.isneginf(scores).all(-1, keepdim=True)
    weights = torch.softmax(scores, -1, dtype=precision)
    return weights.masked_fill(hidden, 0.0).to(result)


@lowers("RotaryEmbedding")
def _rotary_embedding(ctx: LayerContext) -> Node:
    heads_first = ctx.rank(0) == 4
    x = ctx.input(0)
    if heads_first:
        heads = ctx.shape(0)[1]
    else:
        heads = ctx.attribute("num_heads")
        batch, length, width = ctx.shape(0)
        x = ctx.call(torch.reshape, x, (batch, length, heads, width // heads))
    size = ctx.shape(0)[-1] // (1 if heads_first else heads)
    rotated = ctx.attribute("rotary_embedding_dim") or size
    axis = 1 if heads_first else 2
    if ctx.attribute("interleaved"):
        cos, sin = ctx.input(1), ctx.input(2)
        if ctx.has(3):
            cos, sin = (ctx.call(F.embedding, ctx.input(3), cache) for cache in (cos, sin))
        cos, sin = (ctx.call(torch.unsqueeze, cache, axis) for cache in (cos, sin))
        y = ctx.call(rotate_pairs, x, cos, sin, rotated)
    else:
        cos, sin = (_doubled(ctx, position, axis) for position in (1, 2))
        function = rotate_halves if rotated == size else rotate_first
        y = ctx.call(function, x, cos, sin)
    return y if heads_first else ctx.call(torch.reshape, y, ctx.shape(0))


def _doubled(ctx: LayerContext, position: int, axis: int) -> Node:
    """Cosines or sines of both halves of a head, from the values of one half."""
    half = ctx.input(position)
    if ctx.has(3):
        half = ctx.call(F.embedding, ctx.input(3), half)
    elif ctx.is_weight(position):
        return ctx.prepared(position, partial(both_halves, axis=axis), ("both halves", axis))
    return ctx.call(both_halves, half, axis)


def both_halves(half: torch.Tensor, axis: int) -> torch.Tensor:
    """A factor of each element of a head, ``[..., 1, head]`` from ``[..., head / 2]``."""
    return torch.cat((half, half), -1).unsqueeze(axis)


def rotate_halves(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotates pairs of an element of each half, in the order of transformers' operators."""
    half = x.shape[-1] // 2
    turned = torch.cat((-x[..., half:], x[..., :half]), -1)
    return (x * cos) + (turned * sin)


def rotate_first(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotates the first elements, as many as there are cosines."""
    rotated = cos.shape[-1]
    part, rest = x[..., :rotated], x[..., rotated:]
    return torch.cat((rotate_halves(part, cos, sin), rest), -1)


def rotate_pairs(
    x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, rotated: int
) -> torch.Tensor:
    """Rotates pairs of neighbours among the first elements."""
    part, rest = x[..., :rotated], x[..., rotated:]
    a, b = part[..., 0::2], part[..., 1::2]
    y = torch.stack((cos * a - sin * b, sin * a + cos * b), -1).flatten(-2)
    return torch.cat((y, rest), -1) if rest.shape[-1] else y
