"""Layers that all parts of a decoder are written in."""

from __future__ import annotations

import numpy as np

from dlbricks_decoders.block_parts import Norm
from dlbricks_decoders.graph import Graph


def linear(graph: Graph, x: str, inner: int, outer: int, at: str, *, bias: bool = False) -> str:
    """A projection of the last axis."""
    weight = graph.weight(f"{at}.weight", inner, outer)
    if not bias:
        return graph.add("MatMul", x, weight, out=at)
    y = graph.add("MatMul", x, weight, out=f"{at}.product")
    return graph.add("Add", y, graph.weight(f"{at}.bias", outer), out=at)


def normalized(graph: Graph, norm: Norm | None, x: str, size: int, at: str, use: str = "") -> str:
    """The normalization of the last axis; nothing where there is none.

    The weight of an RMSNorm is the factor itself. Gemma's files hold the factor minus 1. Where the
    same weights are used several times, ``use`` tells the results apart.
    """
    if norm is None:
        return x
    out = f"{at}.{use}" if use else at
    ones = (
        graph.constant(np.ones(size, np.float32))
        if not norm.weight
        else graph.weight(f"{at}.weight", size)
    )
    if not norm.centered:
        return graph.add("RMSNormalization", x, ones, out=out, axis=-1, epsilon=norm.epsilon)
    bias = [graph.weight(f"{at}.bias", size)] if norm.bias else []
    return graph.add("LayerNormalization", x, ones, *bias, out=out, axis=-1, epsilon=norm.epsilon)


def capped(graph: Graph, x: str, cap: float, at: str) -> str:
    """A tensor within a soft bound; the tensor itself where the bound is 0."""
    if not cap:
        return x
    bound = graph.number(cap)
    x = graph.add("Div", x, bound, out=f"{at}.divided")
    x = graph.add("Tanh", x, out=f"{at}.tanh")
    return graph.add("Mul", x, bound, out=f"{at}.capped")


def scaled(graph: Graph, x: str, factor: float, at: str) -> str:
    """A tensor times a factor; the tensor itself where the factor is 1."""
    return x if factor == 1.0 else graph.add("Mul", x, graph.number(factor), out=at)


def embedded(
    graph: Graph, x: str, places: str, count: int, offset: int, hidden: int, at: str
) -> str:
    """The sum with learned positions; the tensor itself where there are none.

    Args:
        graph: Graph of the decoder.
        x: Embeddings of tokens, ``[batch, sequence, hidden]``.
        places: Positions of the tokens, ``[sequence]``.
        count: Number of learned positions; 0 for none.
        offset: Row of the first position among the learned ones.
        hidden: Elements of a token's state.
        at: Name of the learned positions.
    """
    if not count:
        return x
    if offset:
        places = graph.add("Add", places, graph.integer(offset), out=f"{at}.rows")
    learned = graph.weight(f"{at}.weight", count, hidden)
    rows = graph.add("Gather", learned, places, out=at)
    return graph.add("Add", x, rows, out=f"{at.removesuffix('positions')}sum")
