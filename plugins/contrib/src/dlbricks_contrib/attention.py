"""Definitions of attention and rotary embedding.

They are valid for sequences that use all steps: lengths hide no step of the cache and no new step.
These are the lengths that :mod:`dlbricks_core.values` draws.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dlbricks_contrib.definitions import Body
from dlbricks_core.errors import UnsupportedError
from dlbricks_core.ir import Array

_HIDDEN = -60000.0
"""Score of hidden positions; every float type has it."""


@dataclass(frozen=True)
class _Heads:
    """Queries, keys and values, each as ``[batch, heads, steps, size]``.

    Attributes:
        query: Name of the queries.
        key: Name of the keys, without the cache.
        value: Name of the values, without the cache.
        batch: Number of sequences.
        steps: New steps.
        total: All steps that a query may see.
    """

    query: str
    key: str
    value: str
    batch: int
    steps: int
    total: int


def _to_heads(body: Body, name: str, batch: int, heads: int) -> str:
    """``[batch, steps, heads * size]`` as ``[batch, heads, steps, size]``."""
    width = body.reshape(name, batch, 0, heads, -1)
    return body.transpose(width, 0, 2, 1, 3)


def _joined(body: Body, name: str, past: int) -> str:
    """Keys or values behind those of the cache."""
    if not body.has(past) or not body.sizes(past)[2]:
        return name
    return body.op("Concat", body.input(past), name, axis=2)


def _visible(steps: int, total: int, window: int) -> Array:
    """Which keys each query sees, none after itself and at most ``window``."""
    rows = np.arange(total - steps, total)[:, None]
    keys = np.arange(total)[None, :]
    seen: Array = keys <= rows
    return seen & (keys > rows - window) if window > 0 else seen


def _causal(body: Body, heads: _Heads, window: int, bias: str) -> tuple[str, int]:
    """Mask of causal attention and the attribute ``is_causal``; no mask where none is needed."""
    seen = _visible(heads.steps, heads.total, window)
    if seen.all():
        return bias, 0
    plain = not 0 < window < heads.total
    if not bias and plain and heads.steps == heads.total:
        return "", 1
    if not bias:
        return body.value(seen), 0
    hidden = body.value(np.where(seen, 0, _HIDDEN).tolist(), body.dtype())
    return body.op("Add", bias, hidden), 0


def _attend(
    body: Body, heads: _Heads, mask: str, causal: int, softcap: float = 0.0
) -> str:  # fmt: skip
    """Attention as ``[batch, steps, heads * size]``."""
    attributes = {"is_causal": causal}
    scale = body.attribute("scale", 0.0)
    more = {"scale": scale} if scale else {}
    more |= {"softcap": softcap} if softcap else {}
    inputs = [heads.query, heads.key, heads.value, *filter(None, [mask])]
    y = body.op("Attention", *inputs, **attributes, **more)
    return body.reshape(body.transpose(y, 0, 2, 1, 3), heads.batch, heads.steps, -1)


_UNKNOWN_TO_GROUPED = {11: "a sink", 12: "a quantized cache", 13: "a quantized cache"}


def grouped_query(body: Body) -> None:
    """GroupQueryAttention: rotation, cache, and causal attention with shared keys and values."""
    for position, what in _UNKNOWN_TO_GROUPED.items():
        if body.has(position):
            raise UnsupportedError(f"attention with {what} has no definition")
    if body.attribute("smooth_softmax", -1) > 0 or body.attribute("causal", 1) != 1:
        raise UnsupportedError("attention with a smooth softmax or without order has no definition")
    batch, steps, width = body.sizes()
    shared = int(body.attribute("kv_num_heads"))
    past = body.sizes(3)[2] if body.has(3) else 0
    total = past + steps
    if body.number(6) not in (None, total):
        raise UnsupportedError("a cache that is longer than its content has no definition")
    query, key, value = (body.input(position) for position in range(3))
    if not key:
        size = width // (body.heads + 2 * shared)
        parts = (body.heads * size, shared * size, shared * size)
        query, key, value = body.split(query, parts, axis=2)
    query = _to_heads(body, query, batch, body.heads)
    key, value = (_to_heads(body, name, batch, shared) for name in (key, value))
    epsilon = body.attribute("qk_norm_epsilon", 1e-6)
    if body.has(14):
        query = body.op("RMSNormalization", query, body.input(14), axis=-1, epsilon=epsilon)
    if body.has(15):
        key = body.op("RMSNormalization", key, body.input(15), axis=-1, epsilon=epsilon)
    if body.attribute("do_rotary", 0):
        query, key = _rotated(body, query, key, past, batch, steps)
    key, value = _joined(body, key, 3), _joined(body, value, 4)
    body.give(1, key)
    body.give(2, value)
    heads = _Heads(query, key, value, batch, steps, total)
    window = int(body.attribute("local_window_size", -1))
    mask, causal = _causal(body, heads, window, body.input(10))
    body.give(0, _attend(body, heads, mask, causal, body.attribute("softcap", 0.0)))


def _rotated(
    body: Body, query: str, key: str, past: int, batch: int, steps: int
) -> tuple[str, str]:
    """Queries and keys, turned by their positions."""
    places = body.input(9)
    if not places:
        rows = np.broadcast_to(np.arange(past, past + steps, dtype=np.int64), (batch, steps))
        places = body.value(np.ascontiguousarray(rows))
    more = {"interleaved": body.attribute("rotary_interleaved", 0)}
    more |= _rotated_dims(body, 7)
    caches = body.input(7), body.input(8)
    turned = [body.op("RotaryEmbedding", x, *caches, places, **more) for x in (query, key)]
    return turned[0], turned[1]


def _rotated_dims(body: Body, cache: int) -> dict[str, int]:
    """Attribute with the number of elements that are rotated: two for each cosine."""
    return {"rotary_embedding_dim": 2 * body.sizes(cache)[1]}


def rotary(body: Body) -> None:
    """RotaryEmbedding: positions may be one number, that of the first step."""
    if body.attribute("is_packed_batching", 0):
        raise UnsupportedError("sequences of several lengths in one row have no definition")
    sizes = body.sizes()
    batch, steps = sizes[0], sizes[2] if len(sizes) == 4 else sizes[1]
    places = body.input(1)
    if len(body.sizes(1)) == 1:
        rows = np.broadcast_to(np.arange(steps, dtype=np.int64), (batch, steps))
        places = body.op("Add", places, body.value(np.ascontiguousarray(rows)))
    more = {"interleaved": body.attribute("interleaved", 0), **_rotated_dims(body, 2)}
    x = body.input(0)
    if len(sizes) == 3:
        size = 2 * body.sizes(2)[1]
        heads = body.attribute("num_heads", 0) or sizes[2] // size
        x = body.transpose(body.reshape(x, batch, steps, heads, -1), 0, 2, 1, 3)
    x = body.op("RotaryEmbedding", x, body.input(2), body.input(3), places, **more)
    if len(sizes) == 3:
        x = body.reshape(body.transpose(x, 0, 2, 1, 3), batch, steps, -1)
    body.give(0, x)


def _padding(body: Body, position: int, bias: int, total: int) -> str:
    """Scores to add for a padding mask and a bias; empty if there is neither."""
    added = body.input(bias) if bias >= 0 else ""
    if not body.has(position):
        return added
    batch, steps = body.sizes()[:2]
    shape = body.sizes(position)
    if len(shape) == 1:
        return added  # lengths, all of which are full
    if shape != (batch, total):
        raise UnsupportedError("a mask with a row for each query has no definition")
    dtype = body.dtype() if bias >= 0 else body.dtype(2)  # that of queries, not of their codes
    hidden = body.value(body.attribute("mask_filter_value", -10000.0), dtype)
    kept = body.cast(body.input(position), dtype)
    scores = body.op("Mul", body.op("Sub", body.value(1.0, dtype), kept), hidden)
    scores = body.reshape(scores, batch, 1, 1, total)
    # Not every framework takes a mask that all queries share.
    scores = body.op("Expand", scores, body.integers(batch, 1, steps, total))
    return body.op("Add", scores, added) if added else scores


def _finished(body: Body, heads: _Heads, mask: str) -> None:
    causal = 0
    if body.attribute("unidirectional", 0):
        mask, causal = _causal(body, heads, -1, mask)
    body.give(0, _attend(body, heads, mask, causal))


def multi_head(body: Body) -> None:
    """MultiHeadAttention: attention of queries, keys and values that are projected already."""
    query = body.sizes()
    if len(query) != 3 or not body.has(1) or len(body.sizes(1)) == 5 or body.has(9):
        raise UnsupportedError("packed or reordered heads have no definition")
    if len(body.layer.outputs) > 3 and body.layer.outputs[3]:
        raise UnsupportedError("scores as a result have no definition")
    batch, steps, width = query
    names = [body.input(position) for position in range(3)]
    projected = len(body.sizes(1)) == 4
    if body.has(3):
        widths = [width, *([width] if projected else [body.sizes(1)[2]])]
        bias = body.split(body.input(3), (*widths, body.sizes(3)[0] - sum(widths)), axis=0)
        count = 1 if projected else 3
        names[:count] = [
            body.op("Add", name, part) for name, part in zip(names[:count], bias, strict=False)
        ]
    query_heads = _to_heads(body, names[0], batch, body.heads)
    key, value = names[1:] if projected else (
        _to_heads(body, name, batch, body.heads) for name in names[1:]
    )  # fmt: skip
    key, value = _joined(body, key, 6), _joined(body, value, 7)
    body.give(1, key)
    body.give(2, value)
    keys = body.sizes(1)[2 if projected else 1]
    total = keys + (body.sizes(6)[2] if body.has(6) else 0)
    heads = _Heads(query_heads, key, value, batch, steps, total)
    _finished(body, heads, _padding(body, 4, 5, total))


@dataclass(frozen=True)
class _Places:
    """Positions of the inputs of an attention with the projection inside; -1 for one it lacks."""

    past: int
    mask: int
    bias: int


def projected(body: Body) -> None:
    """Attention: one product for queries, keys and values, then attention."""
    product = body.op("MatMul", body.input(0), body.input(1))
    _of_projection(body, body.added(product, 2), _Places(past=4, mask=3, bias=5))


def quantized(body: Body) -> None:
    """QAttention: the same with a product of integers."""
    inputs = [body.input(position) for position in (0, 1, 6, 7)]
    while not inputs[-1]:
        inputs.pop()
    floats = body.cast(body.op("MatMulInteger", *inputs), body.dtype(2))
    scale = body.op("Mul", body.input(3), body.input(4))
    y = body.added(body.op("Mul", floats, scale), 2)
    _of_projection(body, y, _Places(past=8, mask=5, bias=-1))


def _of_projection(body: Body, y: str, places: _Places) -> None:
    """Attention of queries, keys and values that are packed in one tensor, side by side."""
    if body.attribute("do_rotary", 0) or body.attribute("past_present_share_buffer", 0):
        raise UnsupportedError("rotation inside and a cache with room have no definition")
    batch, steps, _ = body.sizes()
    every = body.sizes(1)[1]
    parts = tuple(body.attribute("qkv_hidden_sizes") or (every // 3,) * 3)
    query, key, value = (
        _to_heads(body, part, batch, body.heads) for part in body.split(y, parts, axis=2)
    )
    past = body.sizes(places.past)[3] if body.has(places.past) else 0
    if past:
        size = parts[0] // body.heads
        kept = [
            body.reshape(half, batch, body.heads, past, size)
            for half in body.split(body.input(places.past), (1, 1), axis=0)
        ]
        key = body.op("Concat", kept[0], key, axis=2)
        value = body.op("Concat", kept[1], value, axis=2)
    if len(body.layer.outputs) > 1 and body.layer.outputs[1]:
        first = body.integers(0)
        both = (body.op("Unsqueeze", x, first) for x in (key, value))
        body.give(1, body.op("Concat", *both, axis=0))
    total = steps + past
    heads = _Heads(query, key, value, batch, steps, total)
    _finished(body, heads, _padding(body, places.mask, places.bias, total))
