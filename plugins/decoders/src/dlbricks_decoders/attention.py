"""Attention of a block, as layers."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dlbricks_core.ir import Layer
from dlbricks_decoders.block_parts import Attention, Gate, Indexer, JoinedProjections, Latent, Norm
from dlbricks_decoders.graph import Branch, Graph
from dlbricks_decoders.layers import linear, normalized, scaled
from dlbricks_decoders.positions import Positions


@dataclass(frozen=True)
class AttentionWriter:
    """Writer of the attention of one block.

    Attributes:
        graph: Graph of the decoder.
        positions: Positions of the decoder's tokens.
        index: Number of the block.
        hidden: Elements of a token's state.
        at: Name of the part.
    """

    graph: Graph
    positions: Positions
    index: int
    hidden: int
    at: str

    def write(self, part: Attention, x: str) -> str:
        """The layers of attention, from normalized states to the projected result."""
        attend = self._with_layers if part.alibi or part.sinks else self._fused
        x = scaled(self.graph, x, part.input_scale, f"{self.at}.input")
        if part.borrowed:
            y = self._borrowed(part, x)
        elif not part.causal or part.distances:
            y = self._biased(part, *self._read(part, x))
        elif part.latent:
            y = self._latent(part, part.latent, x)
        else:
            y = attend(part, *self._read(part, x))
            self.positions.kept[part.window] = self._cache[1]
        width = part.heads * part.value_dim
        y = normalized(self.graph, part.output_norm, y, width, f"{self.at}.output_norm")
        if part.gate:
            y = self._gated(part, part.gate, x, y)
        return linear(
            self.graph, y, width, self.hidden,
            f"{self.at}.o_proj", bias=part.output_bias,
        )  # fmt: skip

    def _gated(self, part: Attention, gate: Gate, x: str, y: str) -> str:
        """The result ``y`` times the gate that ``x`` projects to."""
        graph, at, width = self.graph, self.at, part.heads * part.value_dim
        factors = f"{at}.gate_part"
        if not gate.joined:
            outer = part.heads if gate.by_head else width
            factors = linear(graph, x, self.hidden, outer, f"{at}.gate_proj")
        factors = graph.add(gate.op, factors, out=f"{at}.gate")
        if not gate.by_head:
            return graph.add("Mul", y, factors, out=f"{at}.gated")
        y = graph.add("Reshape", y, graph.integers(0, 0, part.heads, part.value_dim),
                      out=f"{at}.gated.heads")  # fmt: skip
        factors = graph.add("Unsqueeze", factors, graph.integers(3), out=f"{at}.gate.columns")
        y = graph.add("Mul", y, factors, out=f"{at}.gated.by_head")
        return graph.add("Reshape", y, graph.integers(0, 0, width), out=f"{at}.gated")

    def _read(self, part: Attention, x: str) -> tuple[str, str, str]:
        """Queries, keys and values, with the positions of queries and keys."""
        query, key, value = self._projections(part, x)
        key = scaled(self.graph, key, part.key_scale, f"{self.at}.k_scaled")
        query = self._turned(part, query, part.heads, "q")
        key = self._turned(part, key, part.kv_heads, "k")
        if part.value_norm:
            value = self._of_heads(part.value_norm, value, part.kv_heads, part.value_dim, "v")
        if part.temperature:
            scale = self.positions.temperature(part.temperature)
            query = self.graph.add("Mul", query, scale, out=f"{self.at}.q_tempered")
        value = scaled(self.graph, value, part.value_scale, f"{self.at}.v_scaled")
        return query, key, self._clipped(part, value)

    def _projections(self, part: Attention, x: str) -> tuple[str, ...]:
        """Queries, keys and values, each ``[batch, sequence, heads of it * head_dim]``."""
        at, size = self.at, part.head_dim
        counts = (part.heads, part.kv_heads, part.kv_heads)
        widths = [part.heads * size, part.kv_heads * size, part.kv_heads * part.value_dim]
        if part.keys_as_values:
            query, key = (
                linear(self.graph, x, self.hidden, width, f"{at}.{name}_proj", bias=part.bias)
                for name, width in zip("qk", widths, strict=False)
            )
            return query, key, key
        if part.joined is JoinedProjections.APART:
            gated = part.gate is not None and part.gate.joined
            query, *others = (
                linear(
                    self.graph,
                    x,
                    self.hidden,
                    width,
                    f"{at}.{name}_proj",
                    bias=part.bias and (name != "k" or part.key_bias),
                )
                for name, width in zip("qkv", [widths[0] * (1 + gated), *widths[1:]], strict=True)
            )
            return (self._without_gate(part, query) if gated else query, *others)
        joined = linear(self.graph, x, self.hidden, sum(widths), f"{at}.qkv_proj", bias=part.bias)
        names = tuple(f"{at}.{name}" for name in "qkv")
        if part.joined is JoinedProjections.IN_ROW:
            sizes = self.graph.integers(*widths)
            return self.graph.add_many("Split", joined, sizes, out=names, axis=-1)
        if part.joined is JoinedProjections.IN_QUARTERS:
            return self._of_quarters(part, joined, names)
        return self._ungrouped(part, joined, names, counts)

    def _without_gate(self, part: Attention, both: str) -> str:
        """Queries of a weight in which each head's gate follows its query."""
        graph, at, size = self.graph, self.at, part.head_dim
        by_head = graph.integers(0, 0, part.heads, 2 * size)
        both = graph.add("Reshape", both, by_head, out=f"{at}.q_and_gate")
        halves = graph.add_many("Split", both, graph.integers(size, size), axis=3,
                                out=(f"{at}.q_heads", f"{at}.gate_heads"))  # fmt: skip
        query, _ = (
            graph.add("Reshape", half, graph.integers(0, 0, part.heads * size), out=f"{at}.{name}")
            for half, name in zip(halves, ("q", "gate_part"), strict=True)
        )
        return query

    def _of_quarters(
        self, part: Attention, joined: str, names: tuple[str, ...]
    ) -> tuple[str, str, str]:
        """Queries, keys and values of a weight in which those of each quarter are together."""
        graph, width = self.graph, part.heads * part.head_dim
        shape = graph.integers(0, 0, 4, 3 * width // 4)
        grouped = graph.add("Reshape", joined, shape, out=f"{names[0]}kv.quarters")
        query, value, key = graph.add_many(
            "Split", grouped, graph.integers(*[width // 4] * 3), axis=3,
            out=tuple(f"{self.at}.{name}.quarters" for name in "qvk"),
        )  # fmt: skip
        query, key, value = (
            graph.add("Reshape", each, graph.integers(0, 0, width), out=name)
            for each, name in zip((query, key, value), names, strict=True)
        )
        return query, key, value

    def _ungrouped(
        self, part: Attention, joined: str, names: tuple[str, ...], counts: tuple[int, ...]
    ) -> tuple[str, ...]:
        """Queries, keys and values that are interleaved by head or by group of heads."""
        graph, size = self.graph, part.head_dim
        together = part.heads // part.kv_heads
        shape = graph.integers(0, 0, part.kv_heads, together + 2, size)
        grouped = graph.add("Reshape", joined, shape, out=f"{names[0]}kv.grouped")
        parts = graph.add_many(
            "Split", grouped, graph.integers(together, 1, 1),
            out=tuple(f"{name}.grouped" for name in names), axis=3,
        )  # fmt: skip
        return tuple(
            graph.add("Reshape", each, graph.integers(0, 0, count * size), out=name)
            for each, name, count in zip(parts, names, counts, strict=True)
        )

    def _clipped(self, part: Attention, x: str) -> str:
        if part.clip is None:
            return x
        low, high = self.graph.number(-part.clip), self.graph.number(part.clip)
        return self.graph.add("Clip", x, low, high, out=f"{x}.clipped")

    def _turned(self, part: Attention, x: str, heads: int, name: str) -> str:
        """Queries or keys, normalized and rotated if the block does so."""
        steps = [self._normalized, self._rotated]
        for step in reversed(steps) if part.norm_after_rotary else steps:
            x = step(part, x, heads, name)
        return x

    def _normalized(self, part: Attention, x: str, heads: int, name: str) -> str:
        graph, at, width = self.graph, self.at, heads * part.head_dim
        if part.norm and part.norm_by_head:
            x = self._of_heads(part.norm, x, heads, part.head_dim, name)
        elif part.norm:
            x = normalized(graph, part.norm, x, width, f"{at}.{name}_norm")
        return self._clipped(part, x)

    def _of_heads(self, norm: Norm, x: str, heads: int, size: int, name: str) -> str:
        """The normalization of each head."""
        graph, at = self.graph, f"{self.at}.{name}_norm"
        x = graph.add("Reshape", x, graph.integers(0, 0, heads, size), out=f"{at}.heads")
        x = normalized(graph, norm, x, size, at)
        return graph.add("Reshape", x, graph.integers(0, 0, heads * size), out=f"{at}.rows")

    def _rotated(self, part: Attention, x: str, heads: int, name: str) -> str:
        if part.rotary is None:
            return x
        cos, sin = self.positions.angles(part.rotary)
        turned = 2 * len(part.rotary.frequencies)
        return self.graph.add(
            "RotaryEmbedding", x, cos, sin, out=f"{self.at}.{name}_rotary",
            num_heads=heads, interleaved=int(part.rotary.interleaved),
            rotary_embedding_dim=0 if turned == part.head_dim else turned,
        )  # fmt: skip

    @property
    def _cache(self) -> tuple[tuple[str, str], tuple[str, str]]:
        """Names of keys and values before the block and after it."""
        past, present = (
            (f"{name}.{self.index}.key", f"{name}.{self.index}.value")
            for name in ("past_key_values", "present")
        )
        return past, present

    def _fused(self, part: Attention, query: str, key: str, value: str) -> str:
        """Attention as one layer, with a mask only where a window or a chunk hides positions."""
        past, present = self._cache
        out = (self.at, *present)
        attributes = {"q_num_heads": part.heads, "kv_num_heads": part.kv_heads,
                      "scale": part.scale}  # fmt: skip
        if part.softcap:
            attributes["softcap"] = part.softcap
        causal = Layer(
            "Attention", (query, key, value, "", *past), out, {**attributes, "is_causal": 1},
            name=out[0],
        )  # fmt: skip
        if part.chunk is not None:
            mask, hides = self.positions.chunk(part.chunk)
        elif part.window is not None:
            mask, hides = self.positions.window(part.window)
        else:
            return self.graph.append(causal)[0]
        masked = Layer("Attention", (query, key, value, mask, *past), out, attributes, name=out[0])
        then, otherwise = Branch((masked,), out), Branch((causal,), out)
        return self.graph.either(hides, then, otherwise, out)[0]

    def _biased(self, part: Attention, query: str, key: str, value: str) -> str:
        """Attention in an encoder, or with a bias by distance."""
        bias = part.distances and self.positions.distances(part.distances, part.heads, self.at)
        attributes = {"q_num_heads": part.heads, "kv_num_heads": part.kv_heads,
                      "scale": part.scale}  # fmt: skip
        read: tuple[str, ...] = (query, key, value, bias or "")
        made: tuple[str, ...] = (self.at,)
        if part.causal:
            past, present = self._cache
            read, made = (*read, *past), (*made, *present)
        elif not bias:
            read = read[:3]
        return self.graph.append(Layer("Attention", read, made, attributes, name=self.at))[0]

    def cross_states(self, part: Attention, states: str, hidden: int) -> tuple[str, str]:
        """Keys and values of an encoder's results, ``[batch, heads, tokens, size]``.

        Args:
            part: Attention to them.
            states: The results, ``[batch, tokens, hidden]``.
            hidden: Elements of each.
        """
        width = part.kv_heads * part.head_dim
        key, value = (
            self._by_head(linear(self.graph, states, hidden, width, f"{self.at}.{name}_proj",
                                 bias=part.bias and (name != "k" or part.key_bias)),
                          part.kv_heads, part.head_dim, name)
            for name in "kv"
        )  # fmt: skip
        return key, value

    def cross(self, part: Attention, x: str, keys: str, values: str) -> str:
        """Attention to keys and values of an encoder's results."""
        graph, at, width = self.graph, self.at, part.heads * part.head_dim
        query = linear(graph, x, self.hidden, width, f"{at}.q_proj", bias=part.bias)
        query = self._by_head(query, part.heads, part.head_dim, "q")
        layer = Layer("Attention", (query, keys, values), (f"{at}.by_head",),
                      {"scale": part.scale}, name=f"{at}.by_head")  # fmt: skip
        (y,) = graph.append(layer)
        y = graph.add("Transpose", y, out=f"{at}.by_token", perm=(0, 2, 1, 3))
        y = graph.add("Reshape", y, graph.integers(0, 0, width), out=at)
        return linear(graph, y, width, self.hidden, f"{at}.o_proj", bias=part.output_bias)

    def _borrowed(self, part: Attention, x: str) -> str:
        """Attention to keys and values of an earlier block."""
        graph, at, positions = self.graph, self.at, self.positions
        keys, values = positions.kept[part.window]
        width = part.heads * part.head_dim
        query = linear(graph, x, self.hidden, width, f"{at}.q_proj", bias=part.bias)
        query = self._turned(part, query, part.heads, "q")
        query = self._by_head(query, part.heads, part.head_dim, "q")

        def attend(mask: str, **more: int) -> Branch:
            names = (query, keys, values, *([mask] if mask else []))
            layer = Layer("Attention", names, (f"{at}.by_head",), {"scale": part.scale, **more},
                          name=f"{at}.by_head")  # fmt: skip
            return Branch((layer,), layer.outputs)

        out = (f"{at}.by_head",)
        mask, hides = positions.mask(part.window)
        # A single token sees all keys, and tokens after none those up to its own.
        plain = graph.apart(lambda: graph.either(positions.is_one, attend(""),
                                                 attend("", is_causal=1), out))  # fmt: skip
        (y,) = graph.either(hides, attend(mask), plain, out)
        y = graph.add("Transpose", y, out=f"{at}.by_token", perm=(0, 2, 1, 3))
        return graph.add("Reshape", y, graph.integers(0, 0, width), out=at)

    def _by_head(self, x: str, heads: int, size: int, name: str) -> str:
        """A projection with its heads apart, ``[batch, heads, sequence, size]``."""
        at = f"{self.at}.{name}"
        shape = self.graph.integers(0, 0, heads, size)
        y = self.graph.add("Reshape", x, shape, out=f"{at}.heads")
        return self.graph.add("Transpose", y, out=f"{at}.by_head", perm=(0, 2, 1, 3))

    def _with_layers(self, part: Attention, query: str, key: str, value: str) -> str:
        """Attention with biased scores, as the separate layers of transformers."""
        graph, at, width = self.graph, self.at, part.heads * part.value_dim
        past, present = self._cache
        query = self._by_head(query, part.heads, part.head_dim, "q")
        sizes = (part.head_dim, part.value_dim)
        for x, size, before, after in zip((key, value), sizes, past, present, strict=True):
            new = self._by_head(x, part.kv_heads, size, after.rpartition(".")[2])
            graph.add("Concat", before, new, out=after, axis=2)
        keys, values = (self._repeated(part, *each) for each in zip(present, sizes, strict=True))
        y = self._by_scores(part, query, keys, values, self.positions.added_mask(part.window))
        y = graph.add("Transpose", y, out=f"{at}.by_token", perm=(0, 2, 1, 3))
        return graph.add("Reshape", y, graph.integers(0, 0, width), out=at)

    def _by_scores(self, part: Attention, query: str, keys: str, values: str, mask: str) -> str:
        """The result of each head, through scores of all keys."""
        graph, at = self.graph, self.at
        keys = graph.add("Transpose", keys, out=f"{at}.keys.turned", perm=(0, 1, 3, 2))
        scores = graph.add("MatMul", query, keys, out=f"{at}.scores")
        scores = graph.add("Mul", scores, graph.number(part.scale), out=f"{at}.scaled_scores")
        if part.alibi:
            scores = graph.add("Add", scores, self.positions.alibi(part.heads), out=f"{at}.biased")
        scores = graph.add("Add", scores, mask, out=f"{at}.masked")
        return graph.add("MatMul", self._shares(part, scores), values, out=f"{at}.by_head")

    def _repeated(self, part: Attention, x: str, size: int) -> str:
        """Keys or values of the cache, once for each head of queries."""
        times = part.heads // part.kv_heads
        if times == 1:
            return x
        graph, at = self.graph, f"{self.at}.{x.rpartition('.')[2]}"
        y = graph.add("Unsqueeze", x, graph.integers(2), out=f"{at}.groups")
        y = graph.add("Expand", y, graph.integers(1, 1, times, 1, 1), out=f"{at}.repeated")
        shape = graph.integers(0, part.heads, -1, size)
        return graph.add("Reshape", y, shape, out=f"{at}.all_heads")

    def _shares(self, part: Attention, scores: str) -> str:
        """Weight of each key; the learned scores of sinks take a share of their own."""
        graph, at = self.graph, self.at
        if not part.sinks:
            return graph.add("Softmax", scores, out=f"{at}.shares", axis=-1)
        sinks = graph.weight(f"{at}.sinks", part.heads, 1, 1)
        shape = graph.add("Concat", self.positions.batch, graph.integers(part.heads),
                          self.positions.sequence, graph.integers(1), out=f"{at}.sinks.shape",
                          axis=0)  # fmt: skip
        sinks = graph.add("Expand", sinks, shape, out=f"{at}.sinks.rows")
        both = graph.add("Concat", scores, sinks, out=f"{at}.with_sinks", axis=-1)
        best = graph.add("ReduceMax", both, graph.integers(-1), out=f"{at}.best")
        both = graph.add("Sub", both, best, out=f"{at}.lowered")
        shares = graph.add("Softmax", both, out=f"{at}.all_shares", axis=-1)
        end, last = graph.integers(-1), graph.integers(-1)
        return graph.add("Slice", shares, graph.integers(0), end, last, out=f"{at}.shares")

    def _latent(self, part: Attention, latent: Latent, x: str) -> str:
        """Attention to compressed states, which keys and values of all heads are made of."""
        graph, at = self.graph, self.at
        past, present = self._cache
        query = self._latent_query(part, latent, x)
        both = linear(graph, x, self.hidden, latent.state + latent.turned, f"{at}.kv_a_proj",
                      bias=part.bias)  # fmt: skip
        sizes = graph.integers(latent.state, latent.turned)
        state, key = graph.add_many("Split", both, sizes, out=(f"{at}.state", f"{at}.k"), axis=-1)
        state = normalized(graph, latent.norm, state, latent.state, f"{at}.kv_a_layernorm")
        state = scaled(graph, state, latent.state_scale, f"{at}.state.scaled")
        one = replace(part, head_dim=latent.turned, rotary=latent.rotary)
        key = self._rotated(one, key, 1, "k")
        state = graph.add("Unsqueeze", state, graph.integers(1), out=f"{at}.state.head")
        key = graph.add("Unsqueeze", key, graph.integers(1), out=f"{at}.k.head")
        state = graph.add("Concat", past[0], state, out=present[0], axis=2)
        key = graph.add("Concat", past[1], key, out=present[1], axis=2)
        wide = latent.plain + latent.value
        made = graph.add("Squeeze", state, graph.integers(1), out=f"{at}.states")
        made = linear(graph, made, latent.state, part.heads * wide, f"{at}.kv_b_proj")
        made = self._by_head(made, part.heads, wide, "kv")
        sizes = graph.integers(latent.plain, latent.value)
        plain, values = graph.add_many("Split", made, sizes, out=(f"{at}.k_plain", f"{at}.values"),
                                       axis=3)  # fmt: skip
        shape = graph.integers(1, part.heads, 1, 1)
        turned = graph.add("Expand", key, shape, out=f"{at}.k_turned")
        keys = graph.add("Concat", plain, turned, out=f"{at}.keys", axis=3)
        if part.temperature:
            scale = self.positions.temperature(part.temperature)
            query = graph.add("Mul", query, scale, out=f"{at}.q_tempered")
        mask = self.positions.added_mask(None)
        if latent.indexer and not latent.indexer.shared:
            self.positions.chosen = self._chosen(latent, latent.indexer, x, mask)
        if latent.indexer:
            mask = self.positions.chosen or mask
        if part.sinks:
            y = self._by_scores(part, query, keys, values, mask)
        else:
            layer = Layer(
                "Attention", (query, keys, values, mask),
                (f"{at}.by_head",), {"scale": part.scale}, name=f"{at}.by_head",
            )  # fmt: skip
            (y,) = graph.append(layer)
        y = graph.add("Transpose", y, out=f"{at}.by_token", perm=(0, 2, 1, 3))
        return graph.add("Reshape", y, graph.integers(0, 0, part.heads * latent.value), out=at)

    def _chosen(self, latent: Latent, indexer: Indexer, x: str, mask: str) -> str:
        """The mask without tokens of low scores, ``[batch, 1, sequence, keys]``."""
        graph, at, size = self.graph, f"{self.at}.indexer", indexer.size
        heads, total = indexer.heads, self.positions.total
        query = linear(graph, f"{self.at}.q_a_layernorm", latent.query, heads * size, f"{at}.wq_b")
        shape = graph.integers(0, 0, heads, size)
        query = graph.add("Reshape", query, shape, out=f"{at}.q.heads")
        query = graph.add("Transpose", query, out=f"{at}.q.by_head", perm=(0, 2, 1, 3))
        query = self._partly_turned(latent, indexer, query, f"{at}.q")
        query = graph.add("Transpose", query, out=f"{at}.q.by_token", perm=(0, 2, 1, 3))
        key = linear(graph, x, self.hidden, size, f"{at}.wk")
        key = normalized(graph, indexer.norm, key, size, f"{at}.k_norm")
        key = graph.add("Unsqueeze", key, graph.integers(1), out=f"{at}.k.head")
        key = self._partly_turned(latent, indexer, key, f"{at}.k")
        past, present = (f"{name}.{self.index}.indexer" for name in ("past_key_values", "present"))
        keys = graph.add("Concat", past, key, out=present, axis=2)
        keys = graph.add("Transpose", keys, out=f"{at}.keys", perm=(0, 1, 3, 2))
        scores = graph.add("MatMul", query, keys, out=f"{at}.products")
        scores = scaled(graph, scores, size**-0.5, f"{at}.products.scaled")
        scores = graph.add("Relu", scores, out=f"{at}.products.positive")
        weights = linear(graph, x, self.hidden, heads, f"{at}.weights_proj")
        weights = scaled(graph, weights, heads**-0.5, f"{at}.weights")
        weights = graph.add("Unsqueeze", weights, graph.integers(2), out=f"{at}.weights.rows")
        scores = graph.add("MatMul", weights, scores, out=f"{at}.scores.rows")
        scores = graph.add("Squeeze", scores, graph.integers(2), out=f"{at}.scores")
        scores = graph.add("Add", scores, mask, out=f"{at}.scores.masked")
        count = graph.add("Min", total, graph.integers(indexer.most), out=f"{at}.count")
        _, places = graph.add_many("TopK", scores, count, axis=-1,
                                   out=(f"{at}.best", f"{at}.places"))  # fmt: skip
        low = graph.number(float(np.finfo(np.float32).min))
        hidden = graph.add("Expand", low, graph.add("Shape", scores, out=f"{at}.shape"),
                           out=f"{at}.hidden")  # fmt: skip
        seen = graph.add("Expand", graph.number(0.0), graph.add("Shape", places, out=f"{at}.few"),
                         out=f"{at}.seen")  # fmt: skip
        picked = graph.add("ScatterElements", hidden, places, seen, out=f"{at}.picked", axis=-1)
        both = graph.add("Min", picked, mask, out=f"{at}.both")
        return graph.add("Unsqueeze", both, graph.integers(1), out=f"{at}.mask")

    def _partly_turned(self, latent: Latent, indexer: Indexer, x: str, at: str) -> str:
        """Queries or keys, ``[batch, heads, sequence, size]``, of which a part is rotated."""
        assert latent.rotary is not None
        cos, sin = self.positions.angles(latent.rotary)
        graph, turned = self.graph, latent.turned
        if not indexer.last:
            return graph.add("RotaryEmbedding", x, cos, sin, out=f"{at}.turned",
                             interleaved=int(indexer.interleaved),
                             rotary_embedding_dim=turned)  # fmt: skip
        sizes = graph.integers(indexer.size - turned, turned)
        plain, x = graph.add_many("Split", x, sizes, out=(f"{at}.plain", f"{at}.part"), axis=-1)
        x = graph.add("RotaryEmbedding", x, cos, sin, out=f"{at}.part.turned",
                      interleaved=int(indexer.interleaved))  # fmt: skip
        return graph.add("Concat", plain, x, out=f"{at}.turned", axis=-1)

    def _latent_query(self, part: Attention, latent: Latent, x: str) -> str:
        """Queries of all heads, ``[batch, heads, sequence, plain + turned]``."""
        graph, at, inner = self.graph, self.at, self.hidden
        name = "q_proj"
        if latent.query:
            x = linear(graph, x, inner, latent.query, f"{at}.q_a_proj", bias=part.bias)
            x = normalized(graph, latent.norm, x, latent.query, f"{at}.q_a_layernorm")
            inner, name = latent.query, "q_b_proj"
        query = linear(graph, x, inner, part.heads * part.head_dim, f"{at}.{name}")
        query = scaled(graph, query, latent.query_scale, f"{at}.q_scaled")
        query = self._by_head(query, part.heads, part.head_dim, "q")
        if latent.rotary is None:
            return query
        sizes = graph.integers(latent.plain, latent.turned)
        plain, turned = graph.add_many("Split", query, sizes, out=(f"{at}.q_plain", f"{at}.q_part"),
                                       axis=3)  # fmt: skip
        cos, sin = self.positions.angles(latent.rotary)
        turned = graph.add("RotaryEmbedding", turned, cos, sin, out=f"{at}.q_rotary",
                           interleaved=int(latent.rotary.interleaved))  # fmt: skip
        return graph.add("Concat", plain, turned, out=f"{at}.q_whole", axis=3)
