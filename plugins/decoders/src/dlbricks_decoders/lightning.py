"""Lightning attention (Qin et al., 2024), as in MiniMax 01: a state that decays at a fixed rate.

A single token updates the state directly. Several tokens are computed in blocks, as in
transformers: products of matrices within a block, and a loop that carries the state over them.
"""

from __future__ import annotations

from dlbricks_decoders.block_parts import Lightning
from dlbricks_decoders.layers import linear, normalized
from dlbricks_decoders.recurrent import PartWriter

_BY_BLOCK = (2, 0, 1, 3, 4)
"""Order that puts blocks before texts and heads."""

_BY_HEAD = (1, 2, 0, 3, 4)
"""Its inverse."""


class LightningWriter(PartWriter):
    """Writer of the lightning attention of one block.

    Decays are weights: transformers keeps them as buffers, and reads them in each run.
    """

    def write(self, part: Lightning, x: str) -> str:
        """The layers of the part, from normalized states to the projected result."""
        graph, at = self.graph, self.at
        inner, size = part.heads * part.head_dim, part.head_dim
        y = linear(graph, x, self.hidden, 3 * inner, f"{at}.qkv_proj")
        y = graph.add("Swish", y, out=f"{at}.act")
        shape = graph.integers(0, 0, part.heads, 3 * size)
        y = graph.add("Reshape", y, shape, out=f"{at}.heads")
        y = graph.add("Transpose", y, out=f"{at}.by_head", perm=(0, 2, 1, 3))
        query, key, value = graph.add_many(
            "Split", y, graph.integers(size, size, size), axis=-1,
            out=(f"{at}.q", f"{at}.k", f"{at}.v"),
        )  # fmt: skip
        y, _ = graph.either(
            self.positions.is_one,
            graph.apart(lambda: self._step(part, query, key, value)),
            graph.apart(lambda: self._scan(part, query, key, value)),
            (f"{at}.result", f"present_state.{self.index}"),
        )
        y = graph.add("Transpose", y, out=f"{at}.by_token", perm=(0, 2, 1, 3))
        y = graph.add("Reshape", y, graph.integers(0, 0, inner), out=f"{at}.together")
        y = normalized(graph, part.norm, y, inner, f"{at}.norm")
        gate = linear(graph, x, self.hidden, inner, f"{at}.output_gate")
        gate = graph.add("Sigmoid", gate, out=f"{at}.gate")
        y = graph.add("Mul", gate, y, out=f"{at}.gated")
        return linear(graph, y, inner, self.hidden, f"{at}.o_proj")

    def _slope(self, part: Lightning) -> str:
        slope = self.graph.weight(f"{self.at}.slope_rate", part.heads, 1, 1)
        return self.graph.add("Neg", slope, out=f"{self.at}.slope.negative")

    def _step(self, part: Lightning, query: str, key: str, value: str) -> tuple[str, str]:
        """The result for one token, ``[batch, heads, 1, head_dim]``, and the new state."""
        graph, at = self.graph, f"{self.at}.one"
        ratio = graph.add("Exp", self._slope(part), out=f"{at}.ratio")
        turned = graph.add("Transpose", key, out=f"{at}.k", perm=(0, 1, 3, 2))
        added = graph.add("MatMul", turned, value, out=f"{at}.added")
        kept = graph.add("Mul", ratio, f"past_state.{self.index}", out=f"{at}.kept")
        new = graph.add("Add", kept, added, out=f"{at}.state")
        return graph.add("MatMul", query, new, out=f"{at}.result"), new

    def _scan(self, part: Lightning, query: str, key: str, value: str) -> tuple[str, str]:
        """The result for several tokens, ``[batch, heads, sequence, head_dim]``, and the state.

        Parts of blocks are ``[blocks, batch, heads, position in the block, ...]``. A block has the
        length of the prompt, or that of the configuration where the prompt is longer.
        """
        graph, at, heads, most = self.graph, f"{self.at}.scan", part.heads, part.block

        def add(op: str, *inputs: str, out: str, **attributes: object) -> str:
            return graph.add(op, *inputs, out=f"{at}.{out}", **attributes)  # type: ignore[arg-type]

        def first(x: str, axis: int, out: str) -> str:
            return add("Slice", x, graph.integers(0), size, graph.integers(axis), out=out)

        sequence, zero = self.positions.sequence, graph.integers(0)
        size = add("Min", sequence, graph.integers(most), out="size")
        missing = add("Mod", add("Neg", sequence, out="negative"), size, out="missing")
        pads = add("Concat", graph.integers(*[0] * 6), missing, zero, out="pads", axis=0)
        shape = add("Concat", graph.integers(0, heads, -1), size,
                    graph.integers(part.head_dim), out="shape", axis=0)  # fmt: skip

        def blocks(x: str, name: str) -> str:
            x = add("Pad", x, pads, graph.number(0.0), out=f"{name}.filled")
            x = add("Reshape", x, shape, out=f"{name}.blocks")
            return add("Transpose", x, out=f"{name}.by_block", perm=_BY_BLOCK)

        query, key, value = blocks(query, "q"), blocks(key, "k"), blocks(value, "v")
        end, step = (add("Squeeze", each, zero, out=f"{name}.scalar")
                     for each, name in ((sequence, "end"), (size, "size")))  # fmt: skip
        begins = add("Range", graph.integer(0), end, step, out="begins")
        counts = add("Min", add("Sub", sequence, begins, out="left"), size, out="counts")
        # Within a block.
        decay = graph.weight(f"{self.at}.diagonal_decay", 1, heads, most, most)
        decay = first(first(decay, 2, "diagonal.rows"), 3, "diagonal")
        turned = add("Transpose", key, out="k.turned", perm=(0, 1, 2, 4, 3))
        near = add("Mul", add("MatMul", query, turned, out="q.k"), decay, out="near")
        near = add("MatMul", near, value, out="near.result")
        # What the state of earlier blocks adds, and what a block leaves.
        decay = first(graph.weight(f"{self.at}.query_decay", heads, most, 1), 1, "q.decay")
        query = add("Mul", query, decay, out="q.decayed")
        key = add("Mul", key, self._leaving(part, counts, size), out="k.decayed")
        turned = add("Transpose", key, out="k.decayed.turned", perm=(0, 1, 2, 4, 3))
        added = add("MatMul", turned, value, out="added")
        lengths = graph.cast(counts, "float32", out=f"{at}.lengths")
        lengths = add("Reshape", lengths, graph.integers(-1, 1, 1, 1, 1), out="lengths.columns")
        factor = add("Exp", add("Mul", self._slope(part), lengths, out="decay"), out="factor")
        new, far = graph.scan(
            self._block, (f"past_state.{self.index}",), (query, added, factor),
            (f"{at}.state", f"{at}.far"),
        )  # fmt: skip
        y = add("Transpose", add("Add", far, near, out="sum"), out="sum.by_head", perm=_BY_HEAD)
        y = add("Reshape", y, graph.integers(0, heads, -1, part.head_dim), out="padded")
        return add("Slice", y, zero, sequence, graph.integers(2), out="result"), new

    def _leaving(self, part: Lightning, counts: str, size: str) -> str:
        """Factors of keys in what a block leaves, ``[blocks, 1, heads, position, 1]``.

        Keys of a shorter last block are the last ones of a full block.
        """
        graph, at = self.graph, f"{self.at}.scan.leaving"
        decay = graph.weight(f"{self.at}.key_decay", part.heads, part.block, 1)
        decay = graph.add("Squeeze", decay, graph.integers(2), out=f"{at}.rows")
        decay = graph.add("Pad", decay, graph.integers(0, 0, 0, part.block), graph.number(0.0),
                          out=f"{at}.filled")  # fmt: skip
        begins = graph.add("Sub", graph.integers(part.block), counts, out=f"{at}.begins")
        begins = graph.add("Unsqueeze", begins, graph.integers(1), out=f"{at}.begins.columns")
        end = graph.add("Squeeze", size, graph.integers(0), out=f"{at}.size")
        places = graph.add("Range", graph.integer(0), end, graph.integer(1), out=f"{at}.places")
        places = graph.add("Add", begins, places, out=f"{at}.chosen")
        decay = graph.add("Gather", decay, places, out=f"{at}.by_head", axis=1)
        decay = graph.add("Transpose", decay, out=f"{at}.by_block", perm=(1, 0, 2))
        return graph.add("Unsqueeze", decay, graph.integers(1, 4), out=f"{at}.columns")

    def _block(self, state: str, query: str, added: str, factor: str) -> tuple[str, str]:
        """The state after a block, and what the state before it adds to the block's result."""
        graph, at = self.graph, f"{self.at}.block"
        far = graph.add("MatMul", query, state, out=f"{at}.far")
        kept = graph.add("Mul", state, factor, out=f"{at}.kept")
        return graph.add("Add", kept, added, out=f"{at}.state"), far
