"""Parts around the blocks of Gemma 3n and 4: embeddings by layer, and several states of a token."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dlbricks_decoders.activations import activated
from dlbricks_decoders.architecture import AltUp, LayerEmbedding
from dlbricks_decoders.block_parts import Norm
from dlbricks_decoders.graph import Graph
from dlbricks_decoders.layers import linear, normalized, scaled

_LEAST = 1e-5
"""Least mean square of a state, which its length is derived from."""


def embedded_by_layer(graph: Graph, part: LayerEmbedding, tokens: str, x: str, hidden: int) -> str:
    """Embeddings of the tokens for all blocks, ``[batch, sequence, layers, size]``."""
    width, at = part.layers * part.size, "per_layer"
    shape = graph.integers(0, 0, part.layers, part.size)
    table = graph.weight("embed_tokens_per_layer.weight", part.vocabulary, width)
    own = graph.add("Gather", table, tokens, out=f"{at}.own.rows")
    own = scaled(graph, own, math.sqrt(part.size), f"{at}.own.scaled")
    own = graph.add("Reshape", own, shape, out=f"{at}.own")
    y = linear(graph, x, hidden, width, "per_layer_model_projection")
    y = scaled(graph, y, hidden**-0.5, f"{at}.projected.scaled")
    y = graph.add("Reshape", y, shape, out=f"{at}.projected")
    y = normalized(graph, part.norm, y, part.size, "per_layer_projection_norm")
    y = graph.add("Add", y, own, out=f"{at}.sum")
    return scaled(graph, y, 2.0**-0.5, at)


def gated_by_layer(
    graph: Graph, part: LayerEmbedding, embeddings: str, x: str, hidden: int, index: int
) -> str:
    """Part of the tokens' embedding that a block adds, ``[batch, sequence, hidden]``."""
    at = f"layers.{index}"
    mine = graph.add("Gather", embeddings, graph.integer(index), out=f"{at}.per_layer", axis=2)
    y = linear(graph, x, hidden, part.size, f"{at}.per_layer_input_gate")
    y = activated(graph, part.activation, y, f"{at}.per_layer_input_gate.act")
    y = graph.add("Mul", y, mine, out=f"{at}.per_layer.gated")
    y = linear(graph, y, part.size, hidden, f"{at}.per_layer_projection")
    return normalized(graph, part.norm, y, hidden, f"{at}.post_per_layer_input_norm")


def low_rank(graph: Graph, x: str, hidden: int, rank: int, norm: Norm | None, at: str) -> str:
    """A state and its projection to few elements and back."""
    y = linear(graph, x, hidden, rank, f"{at}.linear_left")
    y = linear(graph, y, rank, hidden, f"{at}.linear_right")
    y = normalized(graph, norm, y, hidden, f"{at}.post_laurel_norm")
    return graph.add("Add", x, y, out=at)


@dataclass(frozen=True)
class AltUpWriter:
    """Writer of all states of tokens, ``[states, batch, sequence, hidden]``.

    Attributes:
        graph: Graph of the decoder.
        part: Description of the states.
        hidden: Elements of a state.
    """

    graph: Graph
    part: AltUp
    hidden: int

    def begin(self, x: str) -> str:
        """All states, of which the first is the embedding."""
        rows = [x, *(self._alike(x, x, f"altup_projections.{i}")
                     for i in range(self.part.states - 1))]  # fmt: skip
        return self._stacked(rows, "altup.states")

    def end(self, states: str) -> str:
        """The mean of all states."""
        graph, count = self.graph, self.part.states
        rows = [graph.add("Gather", states, graph.integer(i), out=f"altup.last{i}", axis=0)
                for i in range(count)]  # fmt: skip
        rows[1:] = [self._alike(row, rows[0], f"altup_unembed_projections.{i}")
                    for i, row in enumerate(rows[1:])]  # fmt: skip
        stacked = self._stacked(rows, "altup.ends")
        return graph.add("ReduceMean", stacked, graph.integers(0), out="altup.mean", keepdims=0)

    def predicted(self, states: str, at: str) -> str:
        """The states that a block begins with."""
        graph, count = self.graph, self.part.states
        modes = self._modes(self.active(states, f"{at}.before"), at, "predict")
        coefficients = linear(graph, modes, count, count * count, f"{at}.prediction_coefs")
        coefficients = graph.add("Reshape", coefficients, graph.integers(0, 0, count, count),
                                 out=f"{at}.coefs")  # fmt: skip
        coefficients = graph.add("Transpose", coefficients, out=f"{at}.coefs.turned",
                                 perm=(0, 1, 3, 2))  # fmt: skip
        last = graph.add("Transpose", states, out=f"{at}.last", perm=(1, 2, 3, 0))
        y = graph.add("MatMul", last, coefficients, out=f"{at}.predicted")
        y = graph.add("Transpose", y, out=f"{at}.predicted.first", perm=(3, 0, 1, 2))
        return graph.add("Add", y, states, out=f"{at}.predictions")

    def corrected(self, predictions: str, computed: str, at: str) -> str:
        """The states after a block."""
        graph, count = self.graph, self.part.states
        modes = self._modes(computed, at, "correct")
        factors = linear(graph, modes, count, count, f"{at}.correction_coefs")
        factors = graph.add("Add", factors, graph.number(1.0), out=f"{at}.factors")
        factors = graph.add("Transpose", factors, out=f"{at}.factors.first", perm=(2, 0, 1))
        factors = graph.add("Unsqueeze", factors, graph.integers(-1), out=f"{at}.factors.columns")
        news = graph.add("Sub", computed, self.active(predictions, f"{at}.of_predictions"),
                         out=f"{at}.news")  # fmt: skip
        news = graph.add("Mul", news, factors, out=f"{at}.corrections")
        return graph.add("Add", news, predictions, out=f"{at}.corrected")

    def active(self, states: str, at: str) -> str:
        """The state that blocks compute."""
        number = self.graph.integer(self.part.active)
        return self.graph.add("Gather", states, number, out=f"{at}.active", axis=0)

    def output(self, states: str, at: str) -> str:
        """The computed state, times its factor."""
        graph, x = self.graph, self.active(states, f"{at}.after")
        if not self.part.scaled:
            return x
        factor = graph.weight(f"{at}.correct_output_scale", self.hidden)
        return graph.add("Mul", x, factor, out=f"{at}.output")

    def added(self, states: str, x: str, at: str) -> str:
        """The states with something added to all but the first."""
        graph, count = self.graph, self.part.states
        first, others = graph.add_many("Split", states, graph.integers(1, count - 1), axis=0,
                                       out=(f"{at}.first", f"{at}.others"))  # fmt: skip
        others = graph.add("Add", others, x, out=f"{at}.others.sum")
        return graph.add("Concat", first, others, out=f"{at}.states", axis=0)

    def _modes(self, x: str, at: str, name: str) -> str:
        """Numbers between -1 and 1 that coefficients are projected from."""
        graph = self.graph
        x = normalized(graph, self.part.norm, x, self.hidden, f"{at}.router_norm", name)
        x = scaled(graph, x, 1.0 / self.hidden, f"{at}.{name}.router.scaled")
        weight = graph.weight(f"{at}.modality_router.weight", self.hidden, self.part.states)
        y = graph.add("MatMul", x, weight, out=f"{at}.{name}.routed")
        return graph.add("Tanh", y, out=f"{at}.{name}.modes")

    def _alike(self, x: str, like: str, at: str) -> str:
        """A projection with the length of another state."""
        graph = self.graph
        y = linear(graph, x, self.hidden, self.hidden, at)
        length = self._length(like, f"{at}.like", 0.0)
        y = graph.add("Mul", y, length, out=f"{at}.longer")
        return graph.add("Div", y, self._length(at, f"{at}.own", _LEAST), out=f"{at}.alike")

    def _length(self, x: str, at: str, least: float) -> str:
        """Root of the mean square of each state."""
        graph = self.graph
        y = graph.add("Mul", x, x, out=f"{at}.square")
        y = graph.add("ReduceMean", y, graph.integers(-1), out=f"{at}.mean", keepdims=1)
        if least:
            y = graph.add("Max", y, graph.number(least), out=f"{at}.limited")
        return graph.add("Sqrt", y, out=f"{at}.length")

    def _stacked(self, rows: list[str], at: str) -> str:
        graph, axis = self.graph, self.graph.integers(0)
        rows = [graph.add("Unsqueeze", row, axis, out=f"{at}.{i}") for i, row in enumerate(rows)]
        return graph.add("Concat", *rows, out=at, axis=0)
