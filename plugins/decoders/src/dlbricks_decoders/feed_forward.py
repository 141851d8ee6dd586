"""Feed-forward parts of blocks: one, or a mixture of experts."""

from __future__ import annotations

from statistics import NormalDist

from dlbricks_decoders.activations import activated, product
from dlbricks_decoders.block_parts import Experts, FeedForward
from dlbricks_decoders.graph import Graph
from dlbricks_decoders.layers import linear, normalized, scaled
from dlbricks_decoders.mixture import mixture

_END = 2**63 - 1
"""End of an axis of any size, for slices."""


def feed_forward(
    graph: Graph,
    part: FeedForward,
    x: str,
    hidden: int,
    tokens: str,
    at: str,
    routed_by: str | None = None,
) -> str:
    """A feed-forward part with all of its experts.

    Args:
        graph: Graph of the decoder.
        part: Description of the part.
        x: States of the tokens, ``[batch, sequence, hidden]``.
        hidden: Elements of a state.
        tokens: Number of tokens, as a list of one integer.
        at: Name of the part.
        routed_by: States that the router reads, where those are not ``x``.
    """
    experts = part.experts
    if experts is None:
        return _expert(graph, part, x, hidden, at)
    y = mixture(
        graph, experts, x, routed_by or x, hidden, tokens, at,
        lambda rows, place: _expert(graph, part, rows, hidden, place),
    )  # fmt: skip
    if experts.shared is None:
        return y
    z = _shared(graph, experts, experts.shared, x, hidden, at)
    return graph.add("Add", y, z, out=f"{at}.with_shared")


def _shared(graph: Graph, experts: Experts, part: FeedForward, x: str, hidden: int, at: str) -> str:
    """The result of the expert that works on every token."""
    y = _expert(graph, part, x, hidden, f"{at}.shared_expert")
    if not experts.shared_gate:
        return y
    gate = linear(graph, x, hidden, 1, f"{at}.shared_expert_gate")
    gate = graph.add("Sigmoid", gate, out=f"{at}.shared_expert_gate.share")
    return graph.add("Mul", gate, y, out=f"{at}.shared_expert.weighted")


def _expert(graph: Graph, part: FeedForward, x: str, hidden: int, at: str) -> str:
    """One expert, or the whole part; its input has the shape ``[..., hidden]``."""
    width, bias = part.width, part.bias
    if part.gated:
        write = _joined if part.joined else _apart
        gate, up = write(graph, part, x, hidden, at)
        gate = scaled(graph, gate, part.gate_scale, f"{at}.gate.scaled")
        gate = _sparse(graph, gate, part.sparsity, f"{at}.gate")
        y = product(graph, part.activation, gate, up, at)
    else:
        y = linear(graph, x, hidden, width, f"{at}.up_proj", bias=bias)
        y = activated(graph, part.activation, y, f"{at}.act")
    y = normalized(graph, part.inner_norm, y, width, f"{at}.inner_norm")
    y = linear(graph, y, width, hidden, f"{at}.down_proj", bias=bias)
    return scaled(graph, y, part.output_scale, f"{at}.down_proj.scaled")


def _sparse(graph: Graph, x: str, sparsity: float, at: str) -> str:
    """Numbers above a cutoff, as if normally distributed; all where no share is 0."""
    if not sparsity:
        return x
    last = graph.integers(-1)
    mean = graph.add("ReduceMean", x, last, out=f"{at}.mean", keepdims=1)
    distance = graph.add("Sub", x, mean, out=f"{at}.distance")
    square = graph.add("Mul", distance, distance, out=f"{at}.square")
    deviation = graph.add("ReduceMean", square, last, out=f"{at}.variance", keepdims=1)
    deviation = graph.add("Sqrt", deviation, out=f"{at}.deviation")
    times = graph.number(NormalDist().inv_cdf(sparsity))
    cutoff = graph.add("Mul", deviation, times, out=f"{at}.cutoff")
    above = graph.add("Sub", distance, cutoff, out=f"{at}.above")
    return graph.add("Relu", above, out=f"{at}.sparse")


def _apart(graph: Graph, part: FeedForward, x: str, hidden: int, at: str) -> tuple[str, ...]:
    """Gate and other projection from two weights."""
    return tuple(
        linear(graph, x, hidden, part.width, f"{at}.{name}_proj", bias=part.bias)
        for name in ("gate", "up")
    )


def _joined(graph: Graph, part: FeedForward, x: str, hidden: int, at: str) -> tuple[str, ...]:
    """Gate and other projection from one weight, one after the other or in turn."""
    width, out = part.width, (f"{at}.gate", f"{at}.up")
    both = linear(graph, x, hidden, 2 * width, f"{at}.gate_up_proj", bias=part.bias)
    if not part.interleaved:
        return graph.add_many("Split", both, graph.integers(width, width), out=out, axis=-1)
    end, last, step = graph.integers(_END), graph.integers(-1), graph.integers(2)
    return tuple(
        graph.add("Slice", both, graph.integers(first), end, last, step, out=name)
        for first, name in enumerate(out)
    )
