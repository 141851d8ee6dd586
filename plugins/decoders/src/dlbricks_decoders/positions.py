"""Positions of tokens, and the tensors derived from them that all blocks share.

Layers compute these tensors from sizes, so the decoder is valid for every length. Once the sizes
are known, normalization turns these layers into constants with one row for each new token.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import copy

import numpy as np

from dlbricks_core.ir import Array
from dlbricks_decoders.block_parts import Distances, Rotary, Temperature
from dlbricks_decoders.graph import Graph

_END = 2**63 - 1
"""End of an axis of any size, for slices."""


class Positions:
    """Positions of the tokens that a decoder reads, after the tokens in its cache.

    Args:
        graph: Graph of the decoder.
        tokens: The tokens, ``[batch, sequence]``.
        cache: Keys or values of a block, ``[batch, heads, past, head_dim]``; ``None`` where no
            block has any.
        prefix: Beginning of the names of all tensors.

    Attributes:
        new: Positions of the tokens, ``[sequence]``.
        batch: Number of texts, as a list of one integer.
        sequence: Number of new tokens of each text, as a list of one integer.
        tokens: Number of the tokens, batches included, as a list of one integer.
        total: Number of earlier and new tokens of each text, as a list of one integer.
        chosen: Mask of the tokens that the last indexer has chosen, ``[batch, 1, sequence, keys]``.
        carried: Result of experts that is added after the next block.
        kept: Keys and values of the last block that has its own, by its window.
    """

    def __init__(self, graph: Graph, tokens: str, cache: str | None, prefix: str = "") -> None:
        self._graph = graph
        self._made: dict[object, tuple[str, ...]] = {}
        self._prefix = prefix
        self.chosen: str | None = None
        self.carried: str | None = None
        self.kept: dict[int | None, tuple[str, str]] = {}
        self.batch = self._size(tokens, 0, f"{prefix}sizes.batch")
        self.sequence = self._size(tokens, 1, f"{prefix}sizes.sequence")
        past = self._size(cache, 2, f"{prefix}sizes.past") if cache else graph.integers(0)
        self.total = graph.add("Add", past, self.sequence, out=f"{prefix}sizes.total")
        self.tokens = graph.add("Mul", self.batch, self.sequence, out=f"{prefix}sizes.tokens")
        one, total = graph.integer(1), self._scalar(self.total)
        self.new = graph.add("Range", self._scalar(past), total, one, out=f"{prefix}positions")
        self._keys = graph.add("Range", graph.integer(0), total, one, out=f"{prefix}positions.keys")

    def last(self) -> Positions:
        """Positions of the last token alone."""
        found = copy(self)
        found._made, found._prefix = {}, "last."
        found.sequence, found.tokens = self._graph.integers(1), self.batch
        found.new = self._graph.add("Slice", self.new, self._graph.integers(-1),
                                    self._graph.integers(_END), out="last.positions")  # fmt: skip
        return found

    @property
    def is_begun(self) -> str:
        """Whether the cache holds any tokens."""
        return self._compared("Greater", self.total, self.sequence, "is_begun")

    @property
    def is_one(self) -> str:
        """Whether each text has one new token."""
        return self._compared("Equal", self.sequence, self._graph.integers(1), "is_one")

    def _compared(self, op: str, one: str, other: str, name: str) -> str:
        out = f"{self._prefix}sizes.{name}"
        return self._once(name, lambda: (self._graph.add(op, one, other, out=out),))[0]

    def _size(self, of: str, axis: int, out: str) -> str:
        return self._graph.add("Shape", of, out=out, start=axis, end=axis + 1)

    def missing(self, chunk: int) -> str:
        """Number of tokens that the last chunk lacks, as a list of one integer."""

        def make() -> tuple[str]:
            graph, at = self._graph, f"{self._prefix}sizes.missing{chunk}"
            rest = graph.add("Neg", self.sequence, out=f"{at}.negative")
            return (graph.add("Mod", rest, graph.integers(chunk), out=at),)

        return self._once(("missing", chunk), make)[0]

    def _scalar(self, of: str) -> str:
        return self._graph.add("Squeeze", of, self._graph.integers(0), out=f"{of}.scalar")

    def _once(self, key: object, make: Callable[[], tuple[str, ...]]) -> tuple[str, ...]:
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    def _causal(self) -> tuple[str, str]:
        """Distance of each token from each key, and whether it attends to the key."""
        graph = self._graph
        rows = graph.add(
            "Unsqueeze", self.new, graph.integers(1), out=f"{self._prefix}positions.rows"
        )
        columns = graph.add(
            "Unsqueeze", self._keys, graph.integers(0), out=f"{self._prefix}positions.columns"
        )
        distance = graph.add("Sub", rows, columns, out=f"{self._prefix}positions.distance")
        seen = graph.add(
            "GreaterOrEqual", distance, graph.integer(0), out=f"{self._prefix}mask.causal"
        )
        return distance, seen

    def window(self, size: int) -> tuple[str, str]:
        """Mask of a window (``[sequence, keys]``), and whether it hides any earlier key."""

        def make() -> tuple[str, str]:
            graph, at = self._graph, f"{self._prefix}mask.window{size}"
            distance, causal = self._once("causal", self._causal)
            near = graph.add("Less", distance, graph.integer(size), out=f"{at}.near")
            mask = graph.add("And", causal, near, out=at)
            hides = graph.add("Greater", self.total, graph.integers(size), out=f"{at}.hides")
            return mask, hides

        mask, hides = self._once(("window", size), make)
        return mask, hides

    def chunk(self, size: int) -> tuple[str, str]:
        """Mask of chunks (``[sequence, keys]``), and whether it hides any earlier key."""

        def make() -> tuple[str, str]:
            graph, at = self._graph, f"{self._prefix}mask.chunk{size}"
            _, causal = self._once("causal", self._causal)
            rows, columns = (
                graph.add("Div", places, graph.integer(size), out=f"{at}.{name}")
                for places, name in (
                    (f"{self._prefix}positions.rows", "rows"),
                    (f"{self._prefix}positions.columns", "columns"),
                )
            )
            near = graph.add("Equal", rows, columns, out=f"{at}.near")
            mask = graph.add("And", causal, near, out=at)
            hides = graph.add("Greater", self.total, graph.integers(size), out=f"{at}.hides")
            return mask, hides

        mask, hides = self._once(("chunk", size), make)
        return mask, hides

    def mask(self, window: int | None) -> tuple[str, str]:
        """Mask (``[sequence, keys]``), and whether attention to all earlier keys needs it."""

        def make() -> tuple[str, str]:
            graph, at = self._graph, f"{self._prefix}mask.of{window}"
            several = graph.add("Not", self.is_one, out=f"{at}.several")
            hides = graph.add("And", several, self.is_begun, out=f"{at}.after")
            if window is None:
                return self._once("causal", self._causal)[1], hides
            mask, near = self.window(window)
            return mask, graph.add("Or", hides, near, out=f"{at}.hides")

        mask, hides = self._once(("mask", window), make)
        return mask, hides

    def added_mask(self, window: int | None = None) -> str:
        """Mask to be added to scores, ``[sequence, keys]``: causal, and within a window."""

        def make() -> tuple[str]:
            graph = self._graph
            _, seen = self._once("causal", self._causal)
            at = f"{self._prefix}mask.added{'' if window is None else window}"
            if window is not None:
                seen, _ = self.window(window)
            hidden = graph.number(float(np.finfo(np.float32).min))
            return (graph.add("Where", seen, graph.number(0.0), hidden, out=at),)

        return self._once(("added", window), make)[0]

    def temperature(self, temperature: Temperature) -> str:
        """Scale of queries, ``[sequence, 1]``."""

        def make() -> tuple[str]:
            graph, at = self._graph, f"{self._prefix}temperature"
            places = self.new
            if temperature.first:
                first = graph.integer(temperature.first)
                places = graph.add("Add", places, first, out=f"{at}.places")
            times = graph.add("Div", places, graph.integer(temperature.after), out=f"{at}.times")
            times = graph.cast(times, "float32", out=f"{at}.numbers")
            y = graph.add("Add", times, graph.number(1.0), out=f"{at}.raised")
            y = graph.add("Log", y, out=f"{at}.log")
            y = graph.add("Mul", y, graph.number(temperature.rate), out=f"{at}.growth")
            y = graph.add("Add", y, graph.number(1.0), out=f"{at}.row")
            return (graph.add("Unsqueeze", y, graph.integers(1), out=at),)

        return self._once(temperature, make)[0]

    def distances(self, part: Distances, heads: int, at: str) -> str:
        """Learned bias of the scores by distance, with the mask, ``[1, heads, sequence, keys]``.

        Args:
            part: Ranges of distances.
            heads: Number of heads.
            at: Name of the block's attention.
        """
        at = f"{at}." if part.by_block else self._prefix

        def make() -> tuple[str]:
            graph = self._graph
            (ranges,) = self._once(("ranges", part), lambda: (self._ranges(part),))
            table = graph.weight(f"{at}embed_distances.weight", part.buckets, heads)
            bias = graph.add("Gather", table, ranges, out=f"{at}distances.rows")
            bias = graph.add("Transpose", bias, out=f"{at}distances.by_head", perm=(2, 0, 1))
            bias = graph.add("Unsqueeze", bias, graph.integers(0), out=f"{at}distances")
            if part.both_ways:
                return (bias,)
            mask = self.added_mask()
            out = (f"{at}distances.of_tokens",)
            seen = graph.apart(lambda: (graph.add("Add", bias, mask, out=f"{at}distances.masked"),))
            alone = graph.apart(lambda: (graph.add("Identity", bias, out=f"{at}distances.one"),))
            return graph.either(self.is_one, alone, seen, out)  # type: ignore[return-value]

        return self._once(("distances", part, at), make)[0]

    def _ranges(self, part: Distances) -> str:
        """Range of the distance between each token and each key, ``[sequence, keys]``."""
        graph, at = self._graph, f"{self._prefix}ranges"
        distance, _ = self._once("causal", self._causal)
        count = part.buckets // 2 if part.both_ways else part.buckets
        exact = count // 2
        far = (
            graph.add("Abs", distance, out=f"{at}.lengths")
            if part.both_ways
            else graph.add("Max", distance, graph.integer(0), out=f"{at}.lengths")
        )
        near = graph.add("Less", far, graph.integer(exact), out=f"{at}.near")
        y = graph.add("Max", far, graph.integer(1), out=f"{at}.positive")
        y = graph.cast(y, "float32", out=f"{at}.numbers")
        y = graph.add("Div", y, graph.number(exact), out=f"{at}.relative")
        y = graph.add("Log", y, out=f"{at}.log")
        y = graph.add("Div", y, graph.number(math.log(part.furthest / exact)), out=f"{at}.share")
        y = graph.add("Mul", y, graph.number(count - exact), out=f"{at}.place")
        y = graph.cast(y, "int64", out=f"{at}.whole")
        y = graph.add("Add", y, graph.integer(exact), out=f"{at}.behind")
        y = graph.add("Min", y, graph.integer(count - 1), out=f"{at}.limited")
        y = graph.add("Where", near, far, y, out=f"{at}.of_length")
        if not part.both_ways:
            return y
        after = graph.add("Less", distance, graph.integer(0), out=f"{at}.after")
        first = graph.add("Where", after, graph.integer(count), graph.integer(0), out=f"{at}.first")
        return graph.add("Add", y, first, out=at)

    def alibi(self, heads: int) -> str:
        """Bias of the scores of each head by the position of the key, ``[1, heads, 1, keys]``."""

        def make() -> tuple[str]:
            graph = self._graph
            slopes = graph.constant(_slopes(heads).reshape(1, heads, 1, 1))
            keys = graph.cast(self._keys, "float32", out=f"{self._prefix}alibi.keys")
            return (graph.add("Mul", slopes, keys, out=f"{self._prefix}alibi{heads}"),)

        return self._once(("alibi", heads), make)[0]

    def angles(self, rotary: Rotary) -> tuple[str, str]:
        """Cosines and sines of the positions, ``[batch, sequence, pairs]``."""

        def make() -> tuple[str, str]:
            at = f"{self._prefix}rotary{sum(isinstance(key, Rotary) for key in self._made)}"
            turns = self._turns(rotary, at)
            return self._wave("Cos", turns, rotary, at), self._wave("Sin", turns, rotary, at)

        cos, sin = self._once(rotary, make)
        return cos, sin

    def _turns(self, rotary: Rotary, at: str) -> str:
        """Angles in radians, ``[sequence, pairs]``."""
        graph = self._graph
        frequencies = graph.numbers(rotary.frequencies)
        if rotary.long_frequencies:
            after = graph.integers(rotary.long_after)
            beyond = graph.add("Greater", self.total, after, out=f"{at}.beyond")
            longer = graph.numbers(rotary.long_frequencies)
            frequencies = graph.add("Where", beyond, longer, frequencies, out=f"{at}.frequencies")
        places = graph.cast(self.new, "float32", out=f"{at}.places")
        rows = graph.add("Unsqueeze", places, graph.integers(1), out=f"{at}.rows")
        return graph.add("Mul", rows, frequencies, out=f"{at}.angles")

    def _wave(self, op: str, turns: str, rotary: Rotary, at: str) -> str:
        graph, out = self._graph, f"{at}.{op.lower()}"
        y = graph.add(op, turns, out=f"{out}.plain")
        if rotary.scale != 1.0:
            y = graph.add("Mul", y, graph.number(rotary.scale), out=f"{out}.scaled")
        shape = graph.add("Concat", self.batch, graph.integers(1, 1), out=f"{out}.shape", axis=0)
        return graph.add("Expand", y, shape, out=out)


def _slopes(heads: int) -> Array:
    """Slopes of ALiBi's heads: a geometric series, and every other value of a denser one."""
    power = 2 ** int(math.log2(heads))
    slopes = [2.0 ** (-8.0 * (i + 1) / power) for i in range(power)]
    slopes += [2.0 ** (-4.0 * (2 * i + 1) / power) for i in range(heads - power)]
    return np.array(slopes, np.float32)
