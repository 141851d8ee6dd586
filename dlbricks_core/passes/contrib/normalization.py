"""Definitions of normalizations and embeddings."""

from __future__ import annotations

from dlbricks_core.passes.contrib.body import Body

_FOLLOWS_NORMALIZATION = 3
"""Position of the sum that a skip normalization also returns."""


def simplified(body: Body) -> None:
    """SimplifiedLayerNormalization: division by the root mean square, and scale."""
    body.give(
        0,
        body.op(
            "RMSNormalization", body.input(0), body.input(1),
            axis=body.attribute("axis", -1), epsilon=body.attribute("epsilon", 1e-5),
        ),
    )  # fmt: skip


def _skipped(body: Body, bias: int) -> str:
    """Sum of input, skip and bias; the skip may lack the batch."""
    total = body.added(body.op("Add", body.input(0), body.input(1)), bias)
    body.give(_FOLLOWS_NORMALIZATION, total)
    return total


def skip_simplified(body: Body) -> None:
    """SkipSimplifiedLayerNormalization: the same of a sum."""
    total = _skipped(body, bias=3)
    epsilon = body.attribute("epsilon", 1e-12)
    body.give(
        0, body.op("RMSNormalization", total, body.input(2), axis=-1, epsilon=epsilon)
    )  # fmt: skip


def skip(body: Body) -> None:
    """SkipLayerNormalization: LayerNormalization of a sum."""
    total = _skipped(body, bias=4)
    inputs = [total, body.input(2), *filter(None, [body.input(3)])]
    epsilon = body.attribute("epsilon", 1e-12)
    body.give(0, body.op("LayerNormalization", *inputs, axis=-1, epsilon=epsilon))


def embedding(body: Body) -> None:
    """EmbedLayerNormalization: LayerNormalization of a sum of rows of up to three tables."""
    batch, steps = body.sizes()
    total = body.op("Gather", body.input(2), body.input(0), axis=0)
    if body.has(8):
        place = body.op("Gather", body.input(3), body.input(8), axis=0)
    else:
        place = body.op("Slice", body.input(3), *(body.integers(n) for n in (0, steps, 0, 1)))
    total = body.op("Add", total, place)
    if body.has(4):
        segment = body.op("Gather", body.input(4), body.input(1), axis=0)
        total = body.op("Add", total, segment)
    epsilon = body.attribute("epsilon", 1e-12)
    body.give(
        0,
        body.op(
            "LayerNormalization", total, body.input(5), body.input(6), axis=-1, epsilon=epsilon
        ),
    )
    if body.has(7):
        counted = body.op("ReduceSum", body.input(7), body.integers(1), keepdims=0)
    else:
        counted = body.value([0] * batch, body.dtype())
    body.give(1, counted)
    body.give(2, total)
