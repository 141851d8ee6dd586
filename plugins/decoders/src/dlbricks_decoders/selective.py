"""Selective scan of Mamba (Gu and Dao, 2023), whose elements each decay at a rate of their own.

Unlike in Mamba 2, no product of matrices computes several tokens: a loop carries the state from
token to token, as in transformers without kernels of its own.
"""

from __future__ import annotations

from dlbricks_decoders.block_parts import SelectiveScan
from dlbricks_decoders.layers import linear, normalized
from dlbricks_decoders.recurrent import PartWriter, convolved


class SelectiveScanWriter(PartWriter):
    """Writer of the selective scan of one block."""

    def write(self, part: SelectiveScan, x: str) -> str:
        """The layers of the part, from normalized states to the projected result."""
        graph, at, inner = self.graph, self.at, part.inner
        x = linear(graph, x, self.hidden, 2 * inner, f"{at}.in_proj", bias=part.bias)
        x = graph.add("Transpose", x, out=f"{at}.by_channel", perm=(0, 2, 1))
        x, gate = graph.add_many("Split", x, graph.integers(inner, inner), axis=1,
                                 out=(f"{at}.x", f"{at}.gate"))  # fmt: skip
        x = convolved(graph, x, inner, part.kernel, self.index, f"{at}.conv1d",
                      bias=part.convolution_bias)  # fmt: skip
        x = graph.add("Swish", x, out=f"{at}.conv1d.act")
        step, entry, view = self._projected(part, x)
        # The step has the sign, since drawn weights that multiply are positive.
        decay = graph.add("Exp", graph.weight(f"{at}.A_log", inner, part.state), out=f"{at}.A")
        decay = graph.add("Unsqueeze", decay, graph.integers(1), out=f"{at}.A.rows")
        negative = graph.add("Neg", step, out=f"{at}.dt.negative")
        decay = self._outer(negative, decay, "kept")
        decay = graph.add("Exp", decay, out=f"{at}.kept.factor")
        entry = graph.add("Unsqueeze", entry, graph.integers(1), out=f"{at}.entry.rows")
        added = self._outer(step, entry, "entered")
        values = graph.add("Unsqueeze", x, graph.integers(3), out=f"{at}.values.columns")
        added = graph.add("Mul", added, values, out=f"{at}.added")
        view = graph.add("Unsqueeze", view, graph.integers(3), out=f"{at}.view.columns")
        y, _ = graph.either(
            self.positions.is_one,
            graph.apart(lambda: self._step(decay, added, view)),
            graph.apart(lambda: self._scan(decay, added, view)),
            (f"{at}.scan", f"present_state.{self.index}"),
        )
        skip = graph.weight(f"{at}.D", inner)
        skip = graph.add("Unsqueeze", skip, graph.integers(1), out=f"{at}.D.column")
        skipped = graph.add("Mul", x, skip, out=f"{at}.skipped")
        y = graph.add("Add", y, skipped, out=f"{at}.sum")
        gate = graph.add("Swish", gate, out=f"{at}.gate.act")
        y = graph.add("Mul", y, gate, out=f"{at}.gated")
        y = graph.add("Transpose", y, out=f"{at}.by_token", perm=(0, 2, 1))
        return linear(graph, y, inner, self.hidden, f"{at}.out_proj", bias=part.bias)

    def _projected(self, part: SelectiveScan, x: str) -> tuple[str, ...]:
        """Steps of time, ``[batch, inner, sequence]``, and what enters and views the state."""
        graph, at, state = self.graph, self.at, part.state
        x = graph.add("Transpose", x, out=f"{at}.values", perm=(0, 2, 1))
        both = linear(graph, x, part.inner, part.rank + 2 * state, f"{at}.x_proj")
        step, entry, view = graph.add_many(
            "Split", both, graph.integers(part.rank, state, state), axis=-1,
            out=(f"{at}.dt", f"{at}.entry", f"{at}.view"),
        )  # fmt: skip
        step = normalized(graph, part.norm, step, part.rank, f"{at}.dt_layernorm")
        entry = normalized(graph, part.norm, entry, state, f"{at}.b_layernorm")
        view = normalized(graph, part.norm, view, state, f"{at}.c_layernorm")
        step = graph.add("Transpose", step, out=f"{at}.dt.by_channel", perm=(0, 2, 1))
        weight = graph.weight(f"{at}.dt_proj.weight", part.inner, part.rank)
        step = graph.add("MatMul", weight, step, out=f"{at}.dt_proj")
        bias = graph.weight(f"{at}.dt_proj.bias", part.inner)
        bias = graph.add("Unsqueeze", bias, graph.integers(1), out=f"{at}.dt.bias")
        step = graph.add("Add", step, bias, out=f"{at}.dt.biased")
        return graph.add("Softplus", step, out=f"{at}.dt.positive"), entry, view

    def _outer(self, step: str, others: str, name: str) -> str:
        """Products of each step and other numbers, ``[batch, inner, sequence, state]``."""
        columns = self.graph.add("Unsqueeze", step, self.graph.integers(3),
                                 out=f"{self.at}.{name}.columns")  # fmt: skip
        return self.graph.add("Mul", columns, others, out=f"{self.at}.{name}")

    def _step(self, decay: str, added: str, view: str) -> tuple[str, str]:
        """The result for one token, ``[batch, inner, 1]``, and the new state."""
        graph, at = self.graph, f"{self.at}.one"
        rows = (graph.add("Squeeze", each, graph.integers(axis), out=f"{at}.{name}")
                for each, axis, name in self._axes(decay, added, view))  # fmt: skip
        new, y = self._next(f"past_state.{self.index}", *rows)
        return graph.add("Unsqueeze", y, graph.integers(2), out=f"{at}.row"), new

    def _scan(self, decay: str, added: str, view: str) -> tuple[str, str]:
        """The result for several tokens, ``[batch, inner, sequence]``, and the new state."""
        out = f"{self.at}.loop.state", f"{self.at}.loop.rows"
        rows, axes, _ = zip(*self._axes(decay, added, view), strict=True)
        # Rows of a token lie apart, as in transformers: a copy in their order is far faster.
        new, y = self.graph.scan(self._next, (f"past_state.{self.index}",), rows, out,
                                 axes=axes, stacked=2)  # fmt: skip
        return y, new

    @staticmethod
    def _axes(decay: str, added: str, view: str) -> tuple[tuple[str, int, str], ...]:
        """Tensors that the loop reads, each with the axis of its tokens and a name."""
        return (decay, 2, "decay"), (added, 2, "added"), (view, 1, "view")

    def _next(self, state: str, decay: str, added: str, view: str) -> tuple[str, str]:
        """The state after a token, and the token's result, ``[batch, inner]``."""
        graph, at = self.graph, f"{self.at}.token"
        kept = graph.add("Mul", state, decay, out=f"{at}.kept")
        new = graph.add("Add", kept, added, out=f"{at}.state")
        seen = graph.add("MatMul", new, view, out=f"{at}.seen")
        return new, graph.add("Squeeze", seen, graph.integers(2), out=f"{at}.result")
