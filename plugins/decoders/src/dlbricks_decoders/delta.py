"""Linear attention by the gated delta rule (Yang et al., Gated DeltaNet, 2024).

A single token corrects the state directly. Several tokens are computed in chunks: the corrections
within a chunk follow from a triangular system, and a loop carries the state over the chunks.
"""

from __future__ import annotations

import numpy as np

from dlbricks_decoders.block_parts import DeltaRule
from dlbricks_decoders.layers import linear, normalized, scaled
from dlbricks_decoders.recurrent import PartWriter, chunked, convolved, spread

_CHUNK = 64
"""Tokens of a chunk, as in transformers."""

_BY_CHUNK = (1, 0, 3, 2)
"""Order that puts chunks first and heads before positions; its own inverse."""

_LINEAR_FROM = 20.0
"""Number from which on softplus is the number itself."""

_EPSILON = 1e-6
"""Number that is added to the squared lengths of queries and keys."""


class DeltaRuleWriter(PartWriter):
    """Writer of the delta rule of one block."""

    gate = "Swish"
    """Operator that makes the result's gate."""

    def write(self, part: DeltaRule, x: str) -> str:
        """The layers of the part, from normalized states to the projected result."""
        graph, at = self.graph, self.at
        x, gate, rate, step = self._read(part, x)
        query, key, value = self._convolved(part, x)
        rate = graph.add("Sigmoid", rate, out=f"{at}.rate")
        rate = scaled(graph, rate, part.rate_scale, f"{at}.rate.scaled")
        decay = self._decay(part, step)
        # All blocks share it, so it may not belong to a branch.
        self.positions.missing(_CHUNK)
        y, _ = graph.either(
            self.positions.is_one,
            graph.apart(lambda: self._step(part, query, key, value, rate, decay)),
            graph.apart(lambda: self._scan(part, query, key, value, rate, decay)),
            (f"{at}.result", f"present_state.{self.index}"),
        )
        y = normalized(graph, part.norm, y, part.value, f"{at}.norm")
        gate = graph.add(self.gate, gate, out=f"{at}.gate.act")
        y = graph.add("Mul", y, gate, out=f"{at}.gated")
        inner = part.heads * part.value
        y = graph.add("Reshape", y, graph.integers(0, 0, inner), out=f"{at}.together")
        return linear(graph, y, inner, self.hidden, f"{at}.out_proj")

    def _read(self, part: DeltaRule, x: str) -> tuple[str, str, str, str]:
        """Input of the convolution, gate, rate and step."""
        return self._from_two(part, x) if part.joined else self._from_many(part, x)

    def _decay(self, part: DeltaRule, step: str) -> str:
        """Logarithm of the factor of each head's state."""
        graph, at = self.graph, self.at
        step = graph.add("Add", step, graph.weight(f"{at}.dt_bias", part.heads), out=f"{at}.biased")
        step = graph.add("Softplus", step, out=f"{at}.step")
        decay = graph.add("Exp", graph.weight(f"{at}.A_log", part.heads), out=f"{at}.A")
        decay = graph.add("Mul", step, decay, out=f"{at}.decay.positive")
        return graph.add("Neg", decay, out=f"{at}.decay")

    def _from_many(self, part: DeltaRule, x: str) -> tuple[str, str, str, str]:
        """Input of the convolution, gate, rate and step, from four or six weights."""
        inner, keys = part.heads * part.value, part.key_heads * part.key
        read = {"q": keys, "k": keys, "v": inner} if part.apart else {"qkv": part.channels}
        widths = {**read, "z": inner, "b": part.heads, "a": part.heads}
        *parts, gate, rate, step = (
            linear(self.graph, x, self.hidden, width, f"{self.at}.in_proj_{name}")
            for name, width in widths.items()
        )
        x = (
            self.graph.add("Concat", *parts, out=f"{self.at}.qkv", axis=-1)
            if parts[1:]
            else (parts[0])
        )
        shape = self.graph.integers(0, 0, part.heads, part.value)
        return x, self.graph.add("Reshape", gate, shape, out=f"{self.at}.z"), rate, step

    def _from_two(self, part: DeltaRule, x: str) -> tuple[str, str, str, str]:
        """Results of :func:`_from_many`, from two weights with the parts of each group of heads."""
        graph, at, groups = self.graph, self.at, part.key_heads
        each = part.heads // groups
        sizes = (part.key, part.key, each * part.value, each * part.value)

        def parts(name: str, sizes: tuple[int, ...], names: str) -> tuple[str, ...]:
            both = linear(graph, x, self.hidden, groups * sum(sizes), f"{at}.in_proj_{name}")
            shape = graph.integers(0, 0, groups, sum(sizes))
            both = graph.add("Reshape", both, shape, out=f"{at}.{name}.groups")
            return graph.add_many("Split", both, graph.integers(*sizes), axis=3,
                                  out=tuple(f"{at}.{each}.groups" for each in names))  # fmt: skip

        *read, gate = parts("qkvz", sizes, "qkvz")
        rate, step = parts("ba", (each, each), "ba")
        rows = [
            graph.add("Reshape", y, graph.integers(0, 0, groups * size), out=f"{at}.{name}.rows")
            for y, size, name in zip((*read, rate, step), (*sizes[:3], each, each), "qkvba",
                                     strict=True)
        ]  # fmt: skip
        x = graph.add("Concat", *rows[:3], out=f"{at}.qkv", axis=-1)
        shape = graph.integers(0, 0, part.heads, part.value)
        return x, graph.add("Reshape", gate, shape, out=f"{at}.z"), rows[3], rows[4]

    def _convolved(self, part: DeltaRule, x: str) -> tuple[str, str, str]:
        """Queries, keys and values of all heads, ``[batch, sequence, heads, elements]``."""
        graph, at, width = self.graph, self.at, part.key_heads * part.key
        x = graph.add("Transpose", x, out=f"{at}.by_channel", perm=(0, 2, 1))
        x = convolved(graph, x, part.channels, part.kernel, self.index, f"{at}.conv1d", bias=False)
        x = graph.add("Swish", x, out=f"{at}.conv1d.act")
        x = graph.add("Transpose", x, out=f"{at}.by_token", perm=(0, 2, 1))
        query, key, value = graph.add_many(
            "Split", x, graph.integers(width, width, part.heads * part.value), axis=-1,
            out=(f"{at}.q.part", f"{at}.k.part", f"{at}.v.part"),
        )  # fmt: skip
        query = self._unit(part, query, part.key**-0.5, f"{at}.q")
        key = self._unit(part, key, 1.0, f"{at}.k")
        shape = graph.integers(0, 0, part.heads, part.value)
        return query, key, graph.add("Reshape", value, shape, out=f"{at}.v")

    def _unit(self, part: DeltaRule, x: str, length: float, at: str) -> str:
        """Queries or keys of a length, once for each head of values."""
        graph, size = self.graph, part.key
        x = graph.add("Reshape", x, graph.integers(0, 0, part.key_heads, size), out=f"{at}.heads")
        scale = graph.constant(np.full(size, length * size**-0.5, np.float32))
        x = graph.add("RMSNormalization", x, scale, out=f"{at}.unit", axis=-1,
                      epsilon=_EPSILON / size)  # fmt: skip
        if part.heads == part.key_heads:
            return x
        return spread(graph, x, part.heads, part.key_heads, size, f"{at}.shared")

    def _step(
        self, part: DeltaRule, query: str, key: str, value: str, rate: str, decay: str
    ) -> tuple[str, str]:
        """The result for one token, ``[batch, 1, heads, value]``, and the new state."""
        graph, at, heads = self.graph, f"{self.at}.one", part.heads

        def shaped(x: str, name: str, *shape: int) -> str:
            return graph.add("Reshape", x, graph.integers(0, heads, *shape), out=f"{at}.{name}")

        channels = part.key if part.by_channel else 1
        factor = graph.add("Exp", shaped(decay, "decay", channels, 1), out=f"{at}.factor")
        state = graph.add("Mul", f"past_state.{self.index}", factor, out=f"{at}.kept")
        seen = graph.add("MatMul", shaped(key, "k", 1, part.key), state, out=f"{at}.seen")
        error = graph.add("Sub", shaped(value, "v", 1, part.value), seen, out=f"{at}.error")
        error = graph.add("Mul", error, shaped(rate, "rate", 1, 1), out=f"{at}.correction")
        added = graph.add("MatMul", shaped(key, "k.column", part.key, 1), error, out=f"{at}.added")
        new = graph.add("Add", state, added, out=f"{at}.state")
        y = graph.add("MatMul", shaped(query, "q", 1, part.key), new, out=f"{at}.row")
        shape = graph.integers(0, 1, heads, part.value)
        return graph.add("Reshape", y, shape, out=f"{at}.result"), new

    def _scan(
        self, part: DeltaRule, query: str, key: str, value: str, rate: str, decay: str
    ) -> tuple[str, str]:
        """The result for several tokens, ``[batch, sequence, heads, value]``, and the new state.

        Parts of chunks are ``[chunks, batch, heads, position in the chunk, ...]``.
        """
        graph, at, heads = self.graph, f"{self.at}.scan", part.heads

        def add(op: str, *inputs: str, out: str, **attributes: object) -> str:
            return graph.add(op, *inputs, out=f"{at}.{out}", **attributes)  # type: ignore[arg-type]

        def chunks(x: str, name: str, *inner: int) -> str:
            x = chunked(graph, self.positions, _CHUNK, x, f"{at}.{name}", heads, *inner)
            order = (*_BY_CHUNK, 4) if inner else _BY_CHUNK
            return add("Transpose", x, out=f"{name}.by_head", perm=order)

        def columns(x: str, name: str) -> str:
            return add("Unsqueeze", x, graph.integers(-1), out=f"{name}.columns")

        query, key = chunks(query, "q", part.key), chunks(key, "k", part.key)
        value = chunks(value, "v", part.value)
        rate = columns(chunks(rate, "rate"), "rate")
        total = add("CumSum", chunks(decay, "decay"), graph.integer(-1), out="total")
        begun = columns(add("Exp", total, out="begun"), "begun")
        rows = add("Unsqueeze", total, graph.integers(-2), out="total.rows")
        between = add("Sub", columns(total, "total"), rows, out="between")
        upto = np.tril(np.ones((_CHUNK, _CHUNK), bool))
        between = add("Where", graph.constant(upto), between, graph.number(-np.inf), out="earlier")
        between = add("Exp", between, out="between.factor")
        turned = add("Transpose", key, out="k.turned", perm=(0, 1, 2, 4, 3))
        learned = add("Mul", key, rate, out="k.learned")
        system = add("Mul", add("MatMul", learned, turned, out="k.k"), between, out="system")
        inverse = self._inverse(system, at)
        value = add("MatMul", inverse, add("Mul", value, rate, out="v.learned"), out="new")
        learned = add("Mul", learned, begun, out="k.learned.decayed")
        known = add("MatMul", inverse, learned, out="known")
        near = add("Mul", add("MatMul", query, turned, out="q.k"), between, out="near")
        query = add("Mul", query, begun, out="q.decayed")
        last = add("Slice", total, graph.integers(-1), graph.integers(2**63 - 1),
                   graph.integers(3), out="total.last")  # fmt: skip
        rest = add("Exp", add("Sub", last, total, out="rest.log"), out="rest")
        rest = add("Unsqueeze", rest, graph.integers(-2), out="rest.rows")
        turned = add("Mul", turned, rest, out="k.turned.decayed")
        factor = columns(add("Exp", last, out="last.factor"), "last")
        return self._carried(part, query, turned, value, known, near, factor)

    def _inverse(self, system: str, at: str) -> str:
        """Inverse of the system of corrections, by (I + N)(I + N^2)(I + N^4)... for N^64 = 0."""
        graph = self.graph
        below = graph.constant(np.tril(np.ones((_CHUNK, _CHUNK), bool), -1))
        negative = graph.add("Neg", system, out=f"{at}.system.negative")
        power = graph.add("Where", below, negative, graph.number(0.0), out=f"{at}.power")
        unit = graph.constant(np.eye(_CHUNK, dtype=np.float32))
        inverse = graph.add("Add", power, unit, out=f"{at}.inverse")
        for count in (2, 4, 8, 16, 32):
            power = graph.add("MatMul", power, power, out=f"{at}.power{count}")
            more = graph.add("MatMul", inverse, power, out=f"{at}.inverse{count}.more")
            inverse = graph.add("Add", inverse, more, out=f"{at}.inverse{count}")
        return inverse

    def _carried(self, part: DeltaRule, *chunks: str) -> tuple[str, str]:
        """The result and the new state, from what each chunk gives :meth:`_chunk`."""
        graph, at = self.graph, f"{self.at}.scan"
        new, y = graph.scan(self._chunk, (f"past_state.{self.index}",), chunks,
                            (f"{at}.state", f"{at}.chunks"))  # fmt: skip
        y = graph.add("Transpose", y, out=f"{at}.by_position", perm=(*_BY_CHUNK, 4))
        shape = graph.integers(0, -1, part.heads, part.value)
        y = graph.add("Reshape", y, shape, out=f"{at}.padded")
        start, axis = graph.integers(0), graph.integers(1)
        return graph.add("Slice", y, start, self.positions.sequence, axis, out=f"{at}.result"), new

    def _chunk(
        self, state: str, query: str, turned: str, value: str, known: str, near: str, factor: str
    ) -> tuple[str, str]:
        """The state after a chunk, and the chunk's result."""
        graph, at = self.graph, f"{self.at}.chunk"
        seen = graph.add("MatMul", known, state, out=f"{at}.seen")
        value = graph.add("Sub", value, seen, out=f"{at}.corrections")
        far = graph.add("MatMul", query, state, out=f"{at}.far")
        y = graph.add("MatMul", near, value, out=f"{at}.near")
        y = graph.add("Add", far, y, out=f"{at}.result")
        kept = graph.add("Mul", state, factor, out=f"{at}.kept")
        added = graph.add("MatMul", turned, value, out=f"{at}.added")
        return graph.add("Add", kept, added, out=f"{at}.state"), y


class ChannelDeltaWriter(DeltaRuleWriter):
    """Writer of the delta rule whose decay differs from element to element of a key."""

    gate = "Sigmoid"

    def _read(self, part: DeltaRule, x: str) -> tuple[str, str, str, str]:
        graph, at, inner = self.graph, self.at, part.heads * part.value
        keys = part.key_heads * part.key
        parts = [linear(graph, x, self.hidden, width, f"{at}.in_proj_{name}")
                 for name, width in zip("qkv", (keys, keys, inner), strict=True)]  # fmt: skip
        rate = linear(graph, x, self.hidden, part.heads, f"{at}.in_proj_b")
        step, gate = (
            linear(graph, linear(graph, x, self.hidden, size, f"{at}.{name}_a_proj"), size,
                   part.heads * size, f"{at}.{name}_b_proj")
            for name, size in (("f", part.key), ("g", part.value))
        )  # fmt: skip
        joined = graph.add("Concat", *parts, out=f"{at}.qkv", axis=-1)
        shape = graph.integers(0, 0, part.heads, part.value)
        return joined, graph.add("Reshape", gate, shape, out=f"{at}.z"), rate, step

    def _decay(self, part: DeltaRule, step: str) -> str:
        """Logarithms of factors in transformers' operators, ``[batch, sequence, heads, key]``."""
        graph, at = self.graph, self.at
        bias = graph.weight(f"{at}.dt_bias", part.heads * part.key)
        step = graph.add("Add", step, bias, out=f"{at}.biased")
        shape = graph.integers(0, 0, part.heads, part.key)
        step = graph.add("Reshape", step, shape, out=f"{at}.biased.heads")
        far = graph.add("Greater", step, graph.number(_LINEAR_FROM), out=f"{at}.step.far")
        near = graph.add("Exp", step, out=f"{at}.step.exp")
        near = graph.add("Add", near, graph.number(1.0), out=f"{at}.step.raised")
        near = graph.add("Log", near, out=f"{at}.step.near")
        step = graph.add("Where", far, step, near, out=f"{at}.step")
        rate = graph.add("Exp", graph.weight(f"{at}.A_log", part.heads, 1), out=f"{at}.A")
        rate = graph.add("Neg", rate, out=f"{at}.A.negative")
        return graph.add("Mul", rate, step, out=f"{at}.decay")

    def _scan(
        self, part: DeltaRule, query: str, key: str, value: str, rate: str, decay: str
    ) -> tuple[str, str]:
        """As for one decay of a head; products within a chunk are sums over elements of keys."""
        graph, at, heads = self.graph, f"{self.at}.scan", part.heads

        def add(op: str, *inputs: str, out: str, **attributes: object) -> str:
            return graph.add(op, *inputs, out=f"{at}.{out}", **attributes)  # type: ignore[arg-type]

        def chunks(x: str, name: str, *inner: int) -> str:
            x = chunked(graph, self.positions, _CHUNK, x, f"{at}.{name}", heads, *inner)
            order = (*_BY_CHUNK, 4) if inner else _BY_CHUNK
            return add("Transpose", x, out=f"{name}.by_head", perm=order)

        def products(rows: str, name: str) -> str:
            y = add("Unsqueeze", rows, graph.integers(-2), out=f"{name}.rows")
            y = add("Mul", y, columns, out=f"{name}.products")
            y = add("Mul", y, between, out=f"{name}.decayed")
            return add("ReduceSum", y, graph.integers(-1), out=name, keepdims=0)

        query, key = chunks(query, "q", part.key), chunks(key, "k", part.key)
        value = chunks(value, "v", part.value)
        rate = add("Unsqueeze", chunks(rate, "rate"), graph.integers(-1), out="rate.columns")
        total = add("CumSum", chunks(decay, "decay", part.key), graph.integer(-2), out="total")
        ends, starts = (add("Unsqueeze", total, graph.integers(axis), out=f"total.{name}")
                        for axis, name in ((-2, "ends"), (-3, "starts")))  # fmt: skip
        between = add("Sub", ends, starts, out="between")
        upto = np.tril(np.ones((_CHUNK, _CHUNK), bool))[..., np.newaxis]
        between = add("Where", graph.constant(upto), between, graph.number(-np.inf), out="earlier")
        between = add("Exp", between, out="between.factor")
        columns = add("Unsqueeze", key, graph.integers(-3), out="k.columns")
        learned = add("Mul", key, rate, out="k.learned")
        inverse = self._inverse(products(learned, "system"), at)
        value = add("MatMul", inverse, add("Mul", value, rate, out="v.learned"), out="new")
        begun = add("Exp", total, out="begun")
        known = add("MatMul", inverse, add("Mul", learned, begun, out="k.begun"), out="known")
        near = products(query, "near")
        query = add("Mul", query, begun, out="q.decayed")
        last = add("Slice", total, graph.integers(-1), graph.integers(2**63 - 1),
                   graph.integers(3), out="total.last")  # fmt: skip
        rest = add("Exp", add("Sub", last, total, out="rest.log"), out="rest")
        turned = add("Mul", key, rest, out="k.decayed")
        turned = add("Transpose", turned, out="k.turned", perm=(0, 1, 2, 4, 3))
        factor = add("Exp", last, out="last.factor")
        factor = add("Transpose", factor, out="last.columns", perm=(0, 1, 2, 4, 3))
        return self._carried(part, query, turned, value, known, near, factor)
