"""Several states of each token that parts read and write together (Hyper-Connections, 2024)."""

from __future__ import annotations

from dataclasses import dataclass

from dlbricks_decoders.architecture import Streams
from dlbricks_decoders.graph import Graph
from dlbricks_decoders.layers import scaled


@dataclass(frozen=True)
class StreamsWriter:
    """Writer of all states of tokens, ``[batch, sequence, states, hidden]``.

    Attributes:
        graph: Graph of the decoder.
        part: Description of the states.
        hidden: Elements of a state.
    """

    graph: Graph
    part: Streams
    hidden: int

    def begin(self, x: str) -> str:
        """All states, each the embedding."""
        x = self.graph.add("Unsqueeze", x, self.graph.integers(2), out="streams.first")
        shape = self.graph.integers(1, 1, self.part.count, 1)
        return self.graph.add("Expand", x, shape, out="streams")

    def end(self, states: str) -> str:
        """The sum that the last normalization reads."""
        graph, count, at = self.graph, self.part.count, "hc_head"
        mixed = self._mixed(states, count, f"{at}.hc_fn", at)
        mixed = graph.add("Mul", mixed, graph.weight(f"{at}.hc_scale", 1), out=f"{at}.scaled")
        mixed = graph.add("Add", mixed, graph.weight(f"{at}.hc_base", count), out=f"{at}.moved")
        return self._summed(states, self._weights(mixed, at), at)

    def read(self, states: str, at: str) -> tuple[str, str]:
        """The sum that a part reads, and the factors of its result."""
        graph, count = self.graph, self.part.count
        mixed = self._mixed(states, 2 * count, f"{at}.fn", at)
        halves, ends = graph.integers(count, count), (f"{at}.pre", f"{at}.post")
        bases = graph.add_many("Split", graph.weight(f"{at}.base", 2 * count), halves, axis=-1,
                               out=tuple(f"{end}.base" for end in ends))  # fmt: skip
        scales = graph.add_many("Split", graph.weight(f"{at}.scale", 2), graph.integers(1, 1),
                                out=tuple(f"{end}.scale" for end in ends), axis=-1)  # fmt: skip
        parts = graph.add_many("Split", mixed, halves, axis=-1,
                               out=tuple(f"{end}.logits" for end in ends))  # fmt: skip
        moved = []
        for part, scale, base, end in zip(parts, scales, bases, ends, strict=True):
            part = graph.add("Mul", part, scale, out=f"{end}.scaled")
            moved.append(graph.add("Add", part, base, out=f"{end}.moved"))
        factors = self._weights(moved[1], ends[1], self.part.most)
        return self._summed(states, self._weights(moved[0], ends[0]), at), factors

    def added(self, states: str, y: str, factors: str, at: str) -> str:
        """The states with a part's result in each."""
        graph = self.graph
        y = graph.add("Unsqueeze", y, graph.integers(-2), out=f"{at}.result")
        factors = graph.add("Unsqueeze", factors, graph.integers(-1), out=f"{at}.factors")
        y = graph.add("Mul", factors, y, out=f"{at}.results")
        return graph.add("Add", y, states, out=f"{at}.states")

    def _mixed(self, states: str, outer: int, name: str, at: str) -> str:
        """A projection of all states, over the root of their mean square."""
        graph, inner = self.graph, self.part.count * self.hidden
        flat = graph.add("Reshape", states, graph.integers(0, 0, inner), out=f"{at}.flat")
        y = graph.add("MatMul", flat, graph.weight(name, inner, outer), out=f"{at}.projected")
        square = graph.add("Mul", flat, flat, out=f"{at}.square")
        square = graph.add("ReduceMean", square, graph.integers(-1), out=f"{at}.mean", keepdims=1)
        square = graph.add("Add", square, graph.number(self.part.epsilon), out=f"{at}.variance")
        length = graph.add("Sqrt", square, out=f"{at}.length")
        length = graph.add("Reciprocal", length, out=f"{at}.inverse")
        return graph.add("Mul", y, length, out=f"{at}.mixed")

    def _weights(self, x: str, at: str, most: float = 1.0) -> str:
        y = self.graph.add("Sigmoid", x, out=f"{at}.share")
        y = scaled(self.graph, y, most, f"{at}.share.scaled")
        return self.graph.add("Add", y, self.graph.number(self.part.least), out=f"{at}.weights")

    def _summed(self, states: str, weights: str, at: str) -> str:
        """The weighted sum of the states."""
        graph = self.graph
        weights = graph.add("Unsqueeze", weights, graph.integers(-1), out=f"{at}.columns")
        y = graph.add("Mul", weights, states, out=f"{at}.weighted")
        return graph.add("ReduceSum", y, graph.integers(2), out=f"{at}.read", keepdims=0)
