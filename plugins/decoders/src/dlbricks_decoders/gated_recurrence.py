"""Real-gated linear recurrence (De et al., Griffin, 2024)."""

from __future__ import annotations

from dlbricks_decoders.activations import activated
from dlbricks_decoders.block_parts import GatedRecurrence
from dlbricks_decoders.layers import linear
from dlbricks_decoders.recurrent import PartWriter, convolved

_SHARPNESS = 8.0
"""Factor of the logarithm of the decay."""


class GatedRecurrenceWriter(PartWriter):
    """Writer of the recurrence of one block."""

    def write(self, part: GatedRecurrence, x: str) -> str:
        """The layers of the part, from normalized states to the projected result."""
        graph, at, width = self.graph, self.at, part.width
        gate = linear(graph, x, self.hidden, width, f"{at}.linear_y", bias=True)
        gate = activated(graph, part.activation, gate, f"{at}.act")
        x = linear(graph, x, self.hidden, width, f"{at}.linear_x", bias=True)
        x = graph.add("Transpose", x, out=f"{at}.by_channel", perm=(0, 2, 1))
        x = convolved(graph, x, width, part.kernel, self.index, f"{at}.conv_1d", bias=True)
        x = graph.add("Transpose", x, out=f"{at}.by_token", perm=(0, 2, 1))
        decay, added = self._decay_and_input(part, x)
        y, _ = graph.either(
            self.positions.is_one,
            graph.apart(lambda: self._step(decay, added)),
            graph.apart(lambda: self._scan(decay, added)),
            (f"{at}.rg_lru", f"present_state.{self.index}"),
        )
        y = graph.add("Mul", y, gate, out=f"{at}.gated")
        return linear(graph, y, width, self.hidden, f"{at}.linear_out", bias=True)

    def _decay_and_input(self, part: GatedRecurrence, x: str) -> tuple[str, str]:
        """Factor of the state, and what is added to it, ``[batch, sequence, width]``.

        A token at the first position forgets the state, and its input keeps its size.
        """
        graph, at = self.graph, f"{self.at}.rg_lru"
        rows = graph.integers(-1, part.heads, part.width // part.heads)
        by_head = graph.add("Reshape", x, rows, out=f"{at}.heads")
        by_head = graph.add("Transpose", by_head, out=f"{at}.by_head", perm=(1, 0, 2))
        shape = graph.add("Shape", x, out=f"{at}.shape")
        entry = self._gate(part, by_head, shape, "input_gate")
        decay = self._gate(part, by_head, shape, "recurrent_gate")
        rate = graph.add("Softplus", graph.weight(f"{at}.recurrent_param", part.width),
                         out=f"{at}.rate")  # fmt: skip
        decay = graph.add("Mul", decay, graph.number(-_SHARPNESS), out=f"{at}.decay.scaled")
        decay = graph.add("Mul", decay, rate, out=f"{at}.decay.log")
        square = graph.add("Mul", decay, graph.number(2.0), out=f"{at}.square.log")
        square = graph.add("Exp", square, out=f"{at}.square")
        decay = graph.add("Exp", decay, out=f"{at}.decay")
        x = graph.add("Mul", x, entry, out=f"{at}.entry")
        size = graph.add("Sub", graph.number(1.0), square, out=f"{at}.rest")
        size = graph.add("Sqrt", size, out=f"{at}.size")
        places = graph.add("Unsqueeze", self.positions.new, graph.integers(1), out=f"{at}.places")
        first = graph.add("Equal", places, graph.integer(0), out=f"{at}.is_first")
        later = graph.add("Not", first, out=f"{at}.is_later")
        first, later = (graph.cast(each, "float32", out=f"{each}.number")
                        for each in (first, later))  # fmt: skip
        size = graph.add("Mul", later, size, out=f"{at}.size.later")
        size = graph.add("Add", first, size, out=f"{at}.size.all")
        decay = graph.add("Mul", decay, later, out=f"{at}.decay.later")
        return decay, graph.add("Mul", x, size, out=f"{at}.input")

    def _gate(self, part: GatedRecurrence, by_head: str, shape: str, name: str) -> str:
        """Factors between 0 and 1 from a projection of each head."""
        graph, at, size = self.graph, f"{self.at}.rg_lru.{name}", part.width // part.heads
        y = graph.add("MatMul", by_head, graph.weight(f"{at}_weight", part.heads, size, size),
                      out=f"{at}.product")  # fmt: skip
        y = graph.add("Add", y, graph.weight(f"{at}_bias", part.heads, 1, size), out=f"{at}.biased")
        y = graph.add("Transpose", y, out=f"{at}.by_token", perm=(1, 0, 2))
        y = graph.add("Reshape", y, shape, out=f"{at}.together")
        return graph.add("Sigmoid", y, out=at)

    def _step(self, decay: str, added: str) -> tuple[str, str]:
        """The result for one token, ``[batch, 1, width]``, and the new state."""
        graph, at, axis = self.graph, f"{self.at}.one", self.graph.integers(1)
        state = graph.add("Unsqueeze", f"past_state.{self.index}", axis, out=f"{at}.past")
        kept = graph.add("Mul", decay, state, out=f"{at}.kept")
        y = graph.add("Add", kept, added, out=f"{at}.result")
        return y, graph.add("Squeeze", y, axis, out=f"{at}.state")

    def _scan(self, decay: str, added: str) -> tuple[str, str]:
        """The result for several tokens, ``[batch, sequence, width]``, and the new state."""
        out = f"{self.at}.loop.state", f"{self.at}.loop.rows"
        new, y = self.graph.scan(self._next, (f"past_state.{self.index}",), (decay, added), out,
                                 axes=(1, 1), stacked=1)  # fmt: skip
        return y, new

    def _next(self, state: str, decay: str, added: str) -> tuple[str, str]:
        """The state after a token, ``[batch, width]``, which is the token's result, too."""
        graph, at = self.graph, f"{self.at}.token"
        kept = graph.add("Mul", decay, state, out=f"{at}.kept")
        new = graph.add("Add", kept, added, out=f"{at}.state")
        return new, graph.add("Identity", new, out=f"{at}.result")
