"""Sequences that fit in one position of a model, made of pieces of other models."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from dlbricks_core.bricks import LayerSequence
from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec
from dlbricks_private.bulk import Bulk
from dlbricks_private.grafting import ends_of, grafted, in_a_row, joined
from dlbricks_private.transplant import transplant

PAIRS = 5
"""Number of pairs of sequences to try for each required sequence."""

_BETWEEN = (0.25, 0.5, 0.5, 1.0, 1.0, 2.0)
"""Factors of the width between two sequences in a row; each is equally likely."""

LONGEST = 1.5
"""Maximum number of layers of a pair, relative to the sequence that it replaces."""


@dataclass(frozen=True)
class Piece:
    """A layer sequence that may become a decoy."""

    donor: str  #: Name of the model that it is from.
    model: CanonicalModel  #: The sequence, with one input and one output.


@dataclass(frozen=True)
class Fitting:
    """Makes sequences that fit in one position."""

    read: TensorSpec  #: Tensor that the sequences read.
    written: TensorSpec  #: Tensor that the sequences compute.
    #: Maximum bulk of a resized sequence. Several in a row or side by side may exceed it.
    limit: Bulk
    random: np.random.Generator  #: Generator that draws widths and combinations.
    steps: Sequence[int]  #: Divisors of widths, each equally likely.

    def of(
        self,
        candidates: Iterable[Piece],
        read: TensorSpec | None = None,
        written: TensorSpec | None = None,
    ) -> Iterator[CanonicalModel]:
        """The resizable sequences, resized to the ends of the position or to given ends."""
        for piece in candidates:
            step = self.steps[int(self.random.integers(len(self.steps)))]
            ends = read or self.read, written or self.written
            found = transplant(piece.model, *ends, self.random, step)
            if found is not None and self.limit.holds(found):
                yield found

    def in_a_row(self, donors: Sequence[Piece], number: int) -> Iterator[CanonicalModel]:
        """Two sequences in a row, one of which preserves the shape of its input."""
        read, written = self.read, self.written
        steps = {
            ends: list(islice(self.of(donors, *ends), number))
            for ends in ((read, read), (read, written), (written, written))
        }
        for _ in range(PAIRS * number):
            middle = read if self.random.random() < 0.5 else written
            halves = steps[read, middle], steps[middle, written]
            if all(halves):
                yield in_a_row(*map(self._one, halves))

    def partly(
        self, whole: CanonicalModel, donors: Sequence[Piece], number: int
    ) -> Iterator[CanonicalModel]:
        """Variants of a sequence, each with some layers of another variant replaced.

        Which variant is made of which is drawn as a tree, in which the sequence itself has a drawn
        position. So it is no more alike to its variants than they are to each other.
        """
        tree = drawn_tree(number + 1, self.random)
        variants = {0: whole}
        pool = iter(donors)
        for parent, child in tree:
            made = self._partly(variants[parent], pool, LONGEST * len(whole.layers) + 2)
            if made is None:
                return
            variants[child] = made
            yield made

    def _partly(
        self, whole: CanonicalModel, donors: Iterator[Piece], longest: float
    ) -> CanonicalModel | None:
        """A sequence with some of its layers, but not all, replaced by a donor's."""
        parts = {
            part: ends
            for part in _parts_of(len(whole.layers))
            if (ends := ends_of(whole, part)) is not None
        }
        drawn = list(parts)
        for piece in donors if drawn else ():
            part = drawn[int(self.random.integers(len(drawn)))]
            read, written = (whole.tensors[name] for name in parts[part])
            for found in self.of([piece], read, written):
                made = grafted(whole, [(part, found)])
                if len(made.layers) <= longest and self.limit.holds(made):
                    return made
        return None

    def through(self, donors: Sequence[Piece], number: int) -> Iterator[CanonicalModel]:
        """Two sequences in a row, with a drawn width between them."""
        axis = 1 if len(self.written.sizes) == 4 else -1
        for _ in range(PAIRS * number):
            near = (self.read, self.written)[int(self.random.integers(2))]
            step = self.steps[int(self.random.integers(len(self.steps)))]
            shape = list(near.sizes)
            shape[axis] = max(round(shape[axis] * self.random.choice(_BETWEEN) / step), 1) * step
            middle = replace(near, shape=tuple(shape))
            halves = [
                list(islice(self.of(donors, *ends), number))
                for ends in ((self.read, middle), (middle, self.written))
            ]
            if all(halves):
                yield in_a_row(*map(self._one, halves))

    def side_by_side(
        self, donors: Sequence[Piece], joins: Iterable[Layer | None], number: int
    ) -> Iterator[CanonicalModel]:
        """Two sequences that read the same tensor, joined as a model joins branches.

        The input itself replaces the second sequence where it fits.
        """
        read, written = self.read, self.written
        if len(read.sizes) != len(written.sizes) or len(written.sizes) < 2:
            return
        for join in {each.op: each for each in joins if each is not None}.values():
            width = written.sizes[1]
            parts = _parts(width, read.sizes[1]) if join.op == "Concat" else [(width, width)]
            for part, rest in parts:
                first, second = (
                    list(islice(self.of(donors, written=_wide(written, each)), number))
                    for each in (part, rest)
                )
                if read == _wide(written, rest):
                    yield from (joined(each, None, join, written) for each in first)
                elif first and second:
                    for _ in range(number):
                        one, other = self._one(first), self._one(second)
                        yield joined(one, other, join, written)

    def _one(self, models: Sequence[CanonicalModel]) -> CanonicalModel:
        return models[int(self.random.integers(len(models)))]


def drawn_tree(nodes: int, random: np.random.Generator) -> list[tuple[int, int]]:
    """Edges of a drawn tree, away from its node 0, whose position is drawn as well."""
    beside: dict[int, list[int]] = {node: [] for node in range(nodes)}
    labels = random.permutation(nodes).tolist()
    for position in range(1, nodes):
        ends = labels[position], labels[int(random.integers(position))]
        for one, other in (ends, ends[::-1]):
            beside[one].append(other)
    edges, reached = [], [0]
    for node in reached:
        for each in beside[node]:
            if each not in reached:
                edges.append((node, each))
                reached.append(each)
    return edges


def _parts_of(layers: int) -> Iterator[LayerSequence]:
    """Runs of layers that are shorter than the whole."""
    for first in range(layers):
        for after in range(first + 1, layers + 1):
            if after - first < layers:
                yield tuple(range(first, after))


def _parts(width: int, read: int) -> list[tuple[int, int]]:
    """Pairs of branch widths with a given total."""
    parts = [width - read, width // 2, width // 4]
    return [(each, width - each) for each in dict.fromkeys(parts) if 0 < each < width]


def _wide(spec: TensorSpec, width: int) -> TensorSpec:
    return replace(spec, shape=(spec.sizes[0], width, *spec.sizes[2:]))
