"""Mixture of experts, written as its work when tokens spread evenly over experts.

The experts that work on a token depend on the token, but the layers of a model cannot. So the
choices of all tokens cycle through the experts, beginning with the first token and the first
experts. For a single token, the work equals that of any choice. For many tokens, each expert gets
an equal share. Where a router prefers some experts, the real model reads fewer weights, and more
rows for each.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dlbricks_decoders.block_parts import Experts
from dlbricks_decoders.graph import Graph
from dlbricks_decoders.layers import capped, normalized, scaled


def mixture(
    graph: Graph,
    experts: Experts,
    x: str,
    routed_by: str,
    hidden: int,
    tokens: str,
    at: str,
    expert: Callable[[str, str], str],
) -> str:
    """The sum of the experts' results for each token, weighted by the router.

    Args:
        graph: Graph of the decoder.
        experts: Number of experts, in all and for each token.
        x: States of the tokens, ``[batch, sequence, hidden]``.
        routed_by: States that the router reads, of the same shape.
        hidden: Elements of a state.
        tokens: Number of tokens, as a list of one integer.
        at: Name of the part.
        expert: Function that adds the layers of one expert, given rows and the expert's name.
    """
    count, each = experts.count, experts.per_token
    choices = graph.add("Mul", tokens, graph.integers(each), out=f"{at}.choices")
    limit = graph.add("Squeeze", choices, graph.integers(0), out=f"{at}.choices.scalar")
    flat = graph.add("Reshape", x, graph.integers(-1, hidden), out=f"{at}.rows")
    read = (
        flat
        if routed_by == x
        else graph.add("Reshape", routed_by, graph.integers(-1, hidden), out=f"{at}.gate.rows")
    )
    shares = _shares(graph, experts, read, limit, hidden, at)
    picked, results = [], []
    for index in range(count):
        place = f"{at}.experts.{index}"
        # Where there are too few tokens, the range is empty and normalization drops the expert.
        mine = graph.add("Range", graph.integer(index), limit, graph.integer(count),
                         out=f"{place}.choices")  # fmt: skip
        row = graph.add("Div", mine, graph.integer(each), out=f"{place}.tokens")
        rows = graph.add("Gather", flat, row, out=f"{place}.rows")
        if experts.weighs_input:
            by_choice = graph.add("Reshape", shares, graph.integers(-1, 1), out=f"{place}.shares")
            share = graph.add("Gather", by_choice, mine, out=f"{place}.share")
            rows = graph.add("Mul", rows, share, out=f"{place}.weighted")
        results.append(expert(rows, place) if index < count - experts.idle else rows)
        picked.append(mine)
    given = graph.add("Concat", *results, out=f"{at}.by_expert", axis=0)
    order = graph.add("Concat", *picked, out=f"{at}.order", axis=0)
    # Positions of the choices among the results of all experts: the inverse of the order.
    _, back = graph.add_many("TopK", order, choices, largest=0,
                             out=(f"{at}.order.sorted", f"{at}.order.back"))  # fmt: skip
    y = graph.add("Gather", given, back, out=f"{at}.by_choice")
    y = graph.add("Reshape", y, graph.integers(-1, each, hidden), out=f"{at}.by_token")
    if not experts.weighs_input:
        y = graph.add("Mul", y, shares, out=f"{at}.weighted")
    y = graph.add("ReduceSum", y, graph.integers(1), out=f"{at}.rows_sum", keepdims=0)
    return graph.add("Reshape", y, graph.add("Shape", x, out=f"{at}.shape"), out=at)


def _shares(graph: Graph, experts: Experts, flat: str, limit: str, hidden: int, at: str) -> str:
    """Weight of each choice of each token, ``[tokens, experts of a token, 1]``."""
    count, each = experts.count, experts.per_token
    if experts.router_norm:
        flat = normalized(graph, experts.router_norm, flat, hidden, f"{at}.gate.norm")
        factor = graph.weight(f"{at}.gate.scale", hidden)
        flat = graph.add("Mul", flat, factor, out=f"{at}.gate.by_element")
        flat = scaled(graph, flat, hidden**-0.5, f"{at}.gate.input")
    router = graph.weight(f"{at}.gate.weight", hidden, count)
    logits = graph.add("MatMul", flat, router, out=f"{at}.gate")
    if experts.router_bias:
        bias = graph.weight(f"{at}.gate.bias", count)
        logits = graph.add("Add", logits, bias, out=f"{at}.gate.biased")
    logits = capped(graph, logits, experts.softcap, f"{at}.gate")
    axis = {"axis": -1} if experts.score == "Softmax" else {}
    shares = (
        graph.add(experts.score, logits, out=f"{at}.gate.shares", **axis)
        if experts.jitter is None
        else _near_best(graph, experts.jitter, logits, f"{at}.gate")
    )
    if experts.normalized:
        best, _ = graph.add_many("TopK", shares, graph.integers(each), axis=-1,
                                 out=(f"{at}.gate.best", f"{at}.gate.indices"))  # fmt: skip
        total = graph.add("ReduceSum", best, graph.integers(-1), out=f"{at}.gate.total")
        shares = graph.add("Div", shares, total, out=f"{at}.gate.normalized")
    if experts.scale != 1.0:
        shares = graph.add("Mul", shares, graph.number(experts.scale), out=f"{at}.gate.scaled")
    if experts.expert_scales:
        factor = graph.weight(f"{at}.gate.per_expert_scale", count)
        shares = graph.add("Mul", shares, factor, out=f"{at}.gate.by_expert")
    all_choices = graph.add("Range", graph.integer(0), limit, graph.integer(1),
                            out=f"{at}.gate.choices")  # fmt: skip
    chosen = graph.add("Mod", all_choices, graph.integer(count), out=f"{at}.gate.experts")
    chosen = graph.add("Reshape", chosen, graph.integers(-1, each), out=f"{at}.gate.chosen")
    picked = graph.add("GatherElements", shares, chosen, out=f"{at}.gate.picked", axis=1)
    return graph.add("Unsqueeze", picked, graph.integers(-1), out=f"{at}.gate.weights")


def _near_best(graph: Graph, jitter: float, logits: str, at: str) -> str:
    """Shares of the best two experts, each among those with results near its own; 0 for others."""
    none, last = graph.number(-np.inf), graph.integers(-1)
    sizes = graph.add("Abs", logits, out=f"{at}.sizes")
    left, shares = logits, graph.number(0.0)
    for turn in ("first", "second"):
        place = f"{at}.{turn}"
        best = graph.add("ReduceMax", left, last, out=f"{place}.best")
        size = graph.add("Max", sizes, best, out=f"{place}.size")
        distance = graph.add("Sub", best, logits, out=f"{place}.distance")
        distance = graph.add("Div", distance, size, out=f"{place}.relative")
        far = graph.add("Greater", distance, graph.number(2 * jitter), out=f"{place}.far")
        near = graph.add("Where", far, none, left, out=f"{place}.near")
        near = graph.add("Softmax", near, out=f"{place}.among", axis=-1)
        is_best = graph.add("Equal", left, best, out=f"{place}.chosen")
        shares = graph.add("Where", is_best, near, shares, out=f"{place}.shares")
        left = graph.add("Where", is_best, none, left, out=f"{place}.left")
    return shares
