"""Parts that remember earlier tokens in a state of fixed size: convolutions and state spaces.

A single token updates the state directly. Several tokens are computed in chunks, as in the
publication of Mamba 2 (Dao and Gu, 2024) and in transformers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dlbricks_decoders.architecture import Block
from dlbricks_decoders.block_parts import Norm, ShortConvolution, StateSpace
from dlbricks_decoders.graph import Graph
from dlbricks_decoders.layers import linear, scaled
from dlbricks_decoders.positions import Positions

_END = 2**63 - 1
"""End of an axis of any size, for slices."""


def remembered(block: Block, hidden: int) -> Mapping[str, tuple[int, ...]]:
    """Shape of each state of a block without the batch, by name.

    ``hidden`` is the number of elements of a token's state between blocks.
    """
    part = block.state_space
    if part is not None:
        return {
            "conv": (_channels(part), part.kernel - 1),
            "state": (part.heads, part.head_dim, part.state),
        }
    if block.selective:
        inner = block.selective.inner
        return {
            "conv": (inner, block.selective.kernel - 1),
            "state": (inner, block.selective.state),
        }
    if block.delta:
        delta = block.delta
        return {
            "conv": (delta.channels, delta.kernel - 1),
            "state": (delta.heads, delta.key, delta.value),
        }
    if block.lightning:
        size = block.lightning.head_dim
        return {"state": (block.lightning.heads, size, size)}
    if block.recurrence:
        width = block.recurrence.width
        return {"conv": (width, block.recurrence.kernel - 1), "state": (width,)}
    return {"conv": (hidden, block.convolution.kernel - 1)} if block.convolution else {}


def _channels(part: StateSpace) -> int:
    return part.heads * part.head_dim + 2 * part.groups * part.state


def convolved(
    graph: Graph, x: str, channels: int, kernel: int, index: int, at: str, *, bias: bool
) -> str:
    """A convolution of each channel over the last tokens, ``[batch, channels, sequence]``."""
    x = graph.add("Concat", f"past_conv.{index}", x, out=f"{at}.tokens", axis=2)
    start, end, axis = graph.integers(1 - kernel), graph.integers(_END), graph.integers(2)
    graph.add("Slice", x, start, end, axis, out=f"present_conv.{index}")
    weights = [graph.weight(f"{at}.weight", channels, 1, kernel)]
    weights += [graph.weight(f"{at}.bias", channels)] if bias else []
    return graph.add("Conv", x, *weights, out=at, group=channels, kernel_shape=(kernel,))


def short_convolution(
    graph: Graph, part: ShortConvolution, x: str, hidden: int, index: int, at: str
) -> str:
    """A convolution between two gates, which are projections of the same states."""
    x = linear(graph, x, hidden, 3 * hidden, f"{at}.in_proj", bias=part.bias)
    x = graph.add("Transpose", x, out=f"{at}.by_channel", perm=(0, 2, 1))
    before, after, x = graph.add_many(
        "Split", x, graph.integers(hidden, hidden, hidden),
        out=(f"{at}.before", f"{at}.after", f"{at}.x"), axis=1,
    )  # fmt: skip
    x = graph.add("Mul", before, x, out=f"{at}.gated")
    x = convolved(graph, x, hidden, part.kernel, index, f"{at}.conv", bias=part.bias)
    x = graph.add("Mul", after, x, out=f"{at}.gated_again")
    x = graph.add("Transpose", x, out=f"{at}.by_token", perm=(0, 2, 1))
    return linear(graph, x, hidden, hidden, f"{at}.out_proj", bias=part.bias)


def spread(graph: Graph, x: str, heads: int, groups: int, size: int, at: str) -> str:
    """Parts of groups by head, ``[batch, sequence, heads, size]``."""
    x = graph.add("Reshape", x, graph.integers(0, 0, groups, 1, size), out=f"{at}.groups")
    shape = graph.integers(1, 1, groups, heads // groups, size)
    x = graph.add("Expand", x, shape, out=f"{at}.spread")
    return graph.add("Reshape", x, graph.integers(0, 0, heads, size), out=f"{at}.heads")


def chunked(graph: Graph, positions: Positions, size: int, x: str, at: str, *inner: int) -> str:
    """Tokens in chunks, the last one filled with zeros, ``[batch, chunks, size, *inner]``."""
    zeros = (0,) * len(inner)
    pads = graph.add("Concat", graph.integers(0, 0, *zeros, 0), positions.missing(size),
                     graph.integers(*zeros), out=f"{at}.pads", axis=0)  # fmt: skip
    x = graph.add("Pad", x, pads, graph.number(0.0), out=f"{at}.filled")
    return graph.add("Reshape", x, graph.integers(0, -1, size, *inner), out=f"{at}.chunks")


@dataclass(frozen=True)
class PartWriter:
    """Writer of a part that carries a state from token to token, in one block.

    Attributes:
        graph: Graph of the decoder.
        positions: Positions of the decoder's tokens.
        index: Number of the block.
        hidden: Elements of a token's state between blocks.
        at: Name of the part.
    """

    graph: Graph
    positions: Positions
    index: int
    hidden: int
    at: str


class StateSpaceWriter(PartWriter):
    """Writer of the state space of one block."""

    def write(self, part: StateSpace, x: str) -> str:
        """The layers of the part, from normalized states to the projected result."""
        graph, at = self.graph, self.at
        inner, channels = part.heads * part.head_dim, _channels(part)
        outer = inner + channels + part.heads
        x = scaled(graph, x, part.input_scale, f"{at}.input")
        x = linear(graph, x, self.hidden, outer, f"{at}.in_proj", bias=part.bias)
        if part.scales:
            x = graph.add("Mul", x, graph.weight(f"{at}.mup_vector", outer), out=f"{at}.scaled")
        gate, x, step = graph.add_many(
            "Split", x, graph.integers(inner, channels, part.heads),
            out=(f"{at}.gate", f"{at}.x", f"{at}.dt"), axis=-1,
        )  # fmt: skip
        x = graph.add("Transpose", x, out=f"{at}.by_channel", perm=(0, 2, 1))
        x = convolved(graph, x, channels, part.kernel, self.index, f"{at}.conv1d",
                       bias=part.convolution_bias)  # fmt: skip
        x = graph.add("Swish", x, out=f"{at}.conv1d.act")
        x = graph.add("Transpose", x, out=f"{at}.by_token", perm=(0, 2, 1))
        shared = part.groups * part.state
        x, entry, view = graph.add_many(
            "Split", x, graph.integers(inner, shared, shared),
            out=(f"{at}.values", f"{at}.entry", f"{at}.view"), axis=-1,
        )  # fmt: skip
        # The step has the sign, since drawn weights that multiply are positive.
        decay = graph.add("Exp", graph.weight(f"{at}.A_log", part.heads), out=f"{at}.decay")
        # All blocks share it, so it may not belong to a branch.
        self.positions.missing(part.chunk)
        out = (f"{at}.scan", f"present_state.{self.index}")
        y, _ = graph.either(
            self.positions.is_one,
            graph.apart(lambda: self._step(part, x, entry, view, step, decay)),
            graph.apart(lambda: self._scan(part, x, entry, view, step, decay)),
            out,
        )
        return linear(graph, self._gated(part, y, gate), inner, self.hidden, f"{at}.out_proj",
                      bias=part.output_bias)  # fmt: skip

    def _gated(self, part: StateSpace, y: str, gate: str) -> str:
        """The result times its gate, normalized before or after it where there is a norm."""
        graph, at = self.graph, self.at
        gate = graph.add("Swish", gate, out=f"{at}.gate.act")
        if part.norm is None:
            return graph.add("Mul", y, gate, out=f"{at}.gated")
        if part.norm_first:
            return graph.add("Mul", self._by_group(part, part.norm, y), gate, out=f"{at}.gated")
        return self._by_group(part, part.norm, graph.add("Mul", y, gate, out=f"{at}.gated"))

    def _by_group(self, part: StateSpace, norm: Norm, y: str) -> str:
        """The normalization of each group of heads."""
        graph, at, inner = self.graph, self.at, part.heads * part.head_dim
        weight, size = graph.weight(f"{at}.norm.weight", inner), inner // part.groups
        if part.groups == 1:
            return graph.add("RMSNormalization", y, weight, out=f"{at}.norm", axis=-1,
                             epsilon=norm.epsilon)  # fmt: skip
        y = graph.add("Reshape", y, graph.integers(0, 0, part.groups, size), out=f"{at}.groups")
        ones = graph.constant(np.ones(size, np.float32))
        y = graph.add("RMSNormalization", y, ones, out=f"{at}.normalized", axis=-1,
                      epsilon=norm.epsilon)  # fmt: skip
        y = graph.add("Reshape", y, graph.integers(0, 0, inner), out=f"{at}.together")
        return graph.add("Mul", y, weight, out=f"{at}.norm")

    def _step(
        self, part: StateSpace, x: str, entry: str, view: str, step: str, decay: str
    ) -> tuple[str, str]:
        """The result for one token, ``[batch, 1, inner]``, and the new state."""
        graph, at = self.graph, f"{self.at}.step"
        heads, size, state = part.heads, part.head_dim, part.state
        x = graph.add("Reshape", x, graph.integers(0, heads, size), out=f"{at}.values")
        step = graph.add("Transpose", step, out=f"{at}.dt", perm=(0, 2, 1))
        step = graph.add("Expand", step, graph.integers(1, heads, size), out=f"{at}.dt.rows")
        bias = graph.weight(f"{self.at}.dt_bias", heads)
        bias = graph.add("Unsqueeze", bias, graph.integers(1), out=f"{at}.bias")
        step = graph.add("Add", step, bias, out=f"{at}.dt.biased")
        step = graph.add("Softplus", step, out=f"{at}.dt.positive")
        step = graph.add("Unsqueeze", step, graph.integers(3), out=f"{at}.dt.columns")
        decay = graph.add("Reshape", decay, graph.integers(heads, 1, 1), out=f"{at}.decay")
        decay = graph.add("Expand", decay, graph.integers(heads, size, state),
                          out=f"{at}.decay.all")  # fmt: skip
        negative = graph.add("Neg", step, out=f"{at}.dt.negative")
        decay = graph.add("Mul", negative, decay, out=f"{at}.decay.scaled")
        decay = graph.add("Exp", decay, out=f"{at}.decay.factor")
        entry = self._spread(part, entry, graph.integers(0, heads, 1, state), f"{at}.entry")
        entry = graph.add("Mul", step, entry, out=f"{at}.entry.scaled")
        values = graph.add("Unsqueeze", x, graph.integers(3), out=f"{at}.values.columns")
        entry = graph.add("Mul", entry, values, out=f"{at}.added")
        kept = graph.add("Mul", f"past_state.{self.index}", decay, out=f"{at}.kept")
        new = graph.add("Add", kept, entry, out=f"{at}.state")
        view = self._spread(part, view, graph.integers(0, heads, state, 1), f"{at}.view")
        y = graph.add("MatMul", new, view, out=f"{at}.seen")
        y = graph.add("Squeeze", y, graph.integers(3), out=f"{at}.rows")
        y = graph.add("Add", y, self._skipped(part, x, at), out=f"{at}.sum")
        y = graph.add("Reshape", y, graph.integers(0, 1, heads * size), out=f"{at}.together")
        return y, new

    def _skipped(self, part: StateSpace, x: str, at: str) -> str:
        """Values that pass by the state, ``[..., heads, head_dim]``."""
        skip = self.graph.weight(f"{self.at}.D", part.heads)
        skip = self.graph.add("Unsqueeze", skip, self.graph.integers(1), out=f"{at}.D")
        return self.graph.add("Mul", x, skip, out=f"{at}.skipped")

    def _spread(self, part: StateSpace, x: str, shape: str, at: str) -> str:
        """Parts of a group, once for each head of it."""
        graph, times = self.graph, part.heads // part.groups
        x = graph.add("Reshape", x, graph.integers(0, part.groups, 1, part.state),
                      out=f"{at}.groups")  # fmt: skip
        x = graph.add("Expand", x, graph.integers(1, part.groups, times, part.state),
                      out=f"{at}.spread")  # fmt: skip
        return graph.add("Reshape", x, shape, out=f"{at}.heads")

    def _scan(
        self, part: StateSpace, x: str, entry: str, view: str, step: str, decay: str
    ) -> tuple[str, str]:
        """The result for several tokens, ``[batch, sequence, inner]``, and the new state.

        Letters of equations: b batch, c chunk, z earlier chunk, l and s positions in a chunk,
        h head, p element of a head, n element of its state.
        """
        graph, at = self.graph, f"{self.at}.scan"
        heads, size, state = part.heads, part.head_dim, part.state

        def sums(equation: str, one: str, other: str, out: str) -> str:
            return graph.add("Einsum", one, other, out=f"{at}.{out}", equation=equation)

        def exp(y: str, out: str) -> str:
            return graph.add("Exp", y, out=f"{at}.{out}")

        x = graph.add("Reshape", x, graph.integers(0, 0, heads, size), out=f"{at}.values")
        step = graph.add("Add", step, graph.weight(f"{self.at}.dt_bias", heads),
                         out=f"{at}.dt.biased")  # fmt: skip
        step = graph.add("Softplus", step, out=f"{at}.dt.positive")
        if part.limits:
            low, high = map(graph.number, part.limits)
            step = graph.add("Clip", step, low, high, out=f"{at}.dt.limited")
        skipped = self._skipped(part, x, at)
        columns = graph.add("Unsqueeze", step, graph.integers(3), out=f"{at}.dt.columns")
        x = graph.add("Mul", x, columns, out=f"{at}.values.scaled")
        negative = graph.add("Neg", step, out=f"{at}.dt.negative")
        decay = graph.add("Mul", decay, negative, out=f"{at}.decay")
        x = chunked(graph, self.positions, part.chunk, x, f"{at}.values", heads, size)
        decay = chunked(graph, self.positions, part.chunk, decay, f"{at}.decay", heads)
        entry, view = (
            chunked(
                graph, self.positions, part.chunk,
                spread(graph, y, heads, part.groups, state, f"{at}.{name}"),
                f"{at}.{name}", heads, state,
            )
            for y, name in ((entry, "entry"), (view, "view"))
        )  # fmt: skip
        decay = graph.add("Transpose", decay, out=f"{at}.decay.by_head", perm=(0, 3, 1, 2))
        total = graph.add("CumSum", decay, graph.integer(-1), out=f"{at}.decay.total")
        # Tokens of the same chunk.
        within = exp(self._between(decay, part.chunk, f"{at}.within"), "within.factor")
        within = graph.add("Transpose", within, out=f"{at}.within.last", perm=(0, 2, 3, 4, 1))
        scores = sums("bclhn,bcshn->bclsh", view, entry, "scores")
        scores = graph.add("Mul", scores, within, out=f"{at}.scores.decayed")
        near = sums("bclsh,bcshp->bclhp", scores, x, "near")
        # States at the end of each chunk, and what earlier chunks leave of theirs.
        last = graph.add("Slice", total, graph.integers(-1), graph.integers(_END),
                         graph.integers(3), out=f"{at}.decay.last")  # fmt: skip
        rest = exp(graph.add("Sub", last, total, out=f"{at}.rest.log"), "rest")
        entry = graph.add("Mul", entry, self._last(rest, f"{at}.rest"), out=f"{at}.entry.decayed")
        states = sums("bclhn,bclhp->bchpn", entry, x, "states")
        past = graph.add("Unsqueeze", f"past_state.{self.index}", graph.integers(1),
                         out=f"{at}.past")  # fmt: skip
        states = graph.add("Concat", past, states, out=f"{at}.states.all", axis=1)
        ends = graph.add("Squeeze", last, graph.integers(3), out=f"{at}.ends")
        ends = graph.add("Pad", ends, graph.integers(0, 0, 1, 0, 0, 0), graph.number(0.0),
                         out=f"{at}.ends.first")  # fmt: skip
        across = exp(self._between(ends, 0, f"{at}.across"), "across.factor")
        across = graph.add("Transpose", across, out=f"{at}.across.last", perm=(0, 3, 2, 1))
        states = sums("bzch,bzhpn->bchpn", across, states, "states.decayed")
        axis, final = graph.integers(1), graph.integers(-1)
        new = graph.add("Slice", states, final, graph.integers(_END), axis, out=f"{at}.state.last")
        new = graph.add("Squeeze", new, axis, out=f"{at}.state")
        states = graph.add("Slice", states, graph.integers(0), final, axis, out=f"{at}.starts")
        far = sums("bclhn,bchpn->bclhp", view, states, "far")
        far = graph.add("Mul", far, self._last(exp(total, "begun"), f"{at}.begun"),
                        out=f"{at}.far.decayed")  # fmt: skip
        y = graph.add("Add", near, far, out=f"{at}.both")
        y = graph.add("Reshape", y, graph.integers(0, -1, heads, size), out=f"{at}.padded")
        y = graph.add("Slice", y, graph.integers(0), self.positions.sequence, axis,
                      out=f"{at}.tokens")  # fmt: skip
        y = graph.add("Add", y, skipped, out=f"{at}.sum")
        y = graph.add("Reshape", y, graph.integers(0, 0, heads * size), out=f"{at}.together")
        return y, new

    def _last(self, x: str, at: str) -> str:
        """Factors of each token and head as columns, ``[batch, chunks, chunk, heads, 1]``."""
        x = self.graph.add("Transpose", x, out=f"{at}.by_token", perm=(0, 2, 3, 1))
        return self.graph.add("Unsqueeze", x, self.graph.integers(4), out=f"{at}.columns")

    def _between(self, x: str, count: int, at: str) -> str:
        """Sums of the last axis between each pair of positions; minus infinity where there is none.

        The axis has ``count`` positions, or an unknown number where that is 0.
        """
        graph = self.graph
        size = graph.integers(count) if count else graph.add("Shape", x, out=f"{at}.size", start=-1)
        columns = graph.add("Unsqueeze", x, graph.integers(-1), out=f"{at}.columns")
        shape = graph.add("Shape", x, out=f"{at}.shape")
        shape = graph.add("Concat", shape, size, out=f"{at}.square", axis=0)
        columns = graph.add("Expand", columns, shape, out=f"{at}.all")
        ones = graph.add("Concat", size, size, out=f"{at}.ones.shape", axis=0)
        ones = graph.add("Expand", graph.constant(np.array(True)), ones, out=f"{at}.ones")
        below = graph.add("Trilu", ones, graph.integer(-1), out=f"{at}.below", upper=0)
        upto = graph.add("Trilu", ones, graph.integer(0), out=f"{at}.upto", upper=0)
        y = graph.add("Where", below, columns, graph.number(0.0), out=f"{at}.parts")
        y = graph.add("CumSum", y, graph.integer(-2), out=f"{at}.sums")
        return graph.add("Where", upto, y, graph.number(-np.inf), out=at)
