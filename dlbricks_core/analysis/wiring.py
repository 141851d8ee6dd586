"""Kinds and connections of layers, and runs of layers that are repeated with the same wiring.

All starts of one period are compared at once. A condition on one layer, or on one of the tensors
that it reads, excludes an interval of starts; a start that no condition excludes begins a run.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dlbricks_core.bricks import CutModel
from dlbricks_core.ir import CanonicalModel

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Runs:
    """Runs of equal copies with one period, each with as many copies as there are.

    Attributes:
        period: Number of layers in one copy.
        starts: First layers of the runs.
        copies: Number of copies of each run, at least two.
        entries: Number of tensors that the first copy of each run reads from before it.
        in_a_row: Whether each copy reads results of the copy before it.
        comparisons: Number of links that were compared.
    """

    period: int
    starts: Integers
    copies: Integers
    entries: Integers
    in_a_row: npt.NDArray[np.bool_]
    comparisons: int


@dataclass(frozen=True)
class Alike:
    """Layers that are of the same kinds as the layers one period later.

    Attributes:
        period: The period, in layers.
        starts: Whether two copies of equal kinds begin at each layer.
        layers: For each layer, whether it belongs to the first of two such copies.
    """

    period: int
    starts: npt.NDArray[np.bool_]
    layers: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class ModuleWiring:
    """Kinds and connections of a model's layers, by position.

    A link is a tensor that a layer reads; links are in the order of their readers.

    Attributes:
        kinds: Number for each layer's signature and number of links.
        sources: Producer of each link's tensor; negative for inputs of the model.
        readers: Layer that reads each link.
        offsets: First link of each layer.
        last_readers: Last layer that reads a result of each layer; the number of layers for
            outputs of the model.
    """

    kinds: npt.NDArray[np.int32]
    sources: Integers
    readers: Integers
    offsets: Integers
    last_readers: Integers

    @classmethod
    def of(cls, cut: CutModel) -> ModuleWiring:
        """Wiring of a model."""
        model = cut.model
        places = {name: -1 - i for i, name in enumerate(model.inputs)} | dict(model.producers)
        links = [
            [places[name] for name in model.activations(layer) if name in places]
            for layer in model.layers
        ]
        counts = np.array([len(each) for each in links], dtype=np.int64)
        alike = list(zip(cut.layer_signatures, counts.tolist(), strict=True))
        numbers = {kind: i for i, kind in enumerate(dict.fromkeys(alike))}
        return cls(
            kinds=np.array([numbers[kind] for kind in alike], dtype=np.int32),
            sources=np.array([place for each in links for place in each], dtype=np.int64),
            readers=np.repeat(np.arange(len(links)), counts),
            offsets=np.cumsum(counts) - counts,
            last_readers=np.array(
                [_last_reader(model, i) for i in range(len(links))], dtype=np.int64
            ),
        )

    @cached_property
    def earlier(self) -> Integers:
        """For each link, the link before it that reads the same tensor; -1 if it is the first."""
        order = np.argsort(self.sources, kind="stable")
        found = np.full(len(order), -1, dtype=np.int64)
        again = self.sources[order[1:]] == self.sources[order[:-1]]
        found[order[1:][again]] = order[:-1][again]
        return found

    def alike(self, period: int) -> Alike | None:
        """Layers that equal the layers one period later, if two copies of them exist anywhere."""
        unequal = np.flatnonzero(self.kinds[:-period] != self.kinds[period:])
        bounds = np.concatenate(([-1], unequal, [len(self.kinds) - period]))
        long = np.flatnonzero(np.diff(bounds) > period)
        if not len(long):
            return None
        size = len(self.kinds)
        before, after = bounds[long], bounds[long + 1]
        starts = _counts(before, after - period, size) > 0
        return Alike(period, starts, _counts(before, after - 1, size) > 0)

    def runs(self, alike: Alike) -> Runs:
        """Longest run from each layer on from which there is one."""
        p, size = alike.period, len(self.kinds)
        links = np.flatnonzero(alike.layers[self.readers])
        shift = np.zeros(size, dtype=np.int64)
        shift[:-p] = self.offsets[p:] - self.offsets[:-p]
        i, a = self.readers[links], self.sources[links]
        twins = links + shift[i]
        b = self.sources[twins]
        same, moved = b == a, b == a + p
        # A tensor from within the copy has its counterpart one period later. One from before it
        # is the same for both copies, or its counterpart is in the copy before.
        low = np.where(moved, -1, np.where(same, a, np.maximum(a, b - p)))
        high = np.where(moved, a + p, np.where(same, i, b))
        wrong = _counts(i - p, np.minimum(low, i), size)
        wrong += _counts(np.maximum(high, i - p), i, size)
        equal = alike.starts & (wrong == 0)
        if not equal.any():
            none = np.zeros(0, dtype=np.int64)
            return Runs(p, none, none, none, none > 0, len(links))
        equal &= self._ambiguous(alike, links, twins, shift) == 0
        crossing = b != a
        in_a_row = _counts(np.maximum(a, i - p)[crossing], i[crossing], size) > 0
        late = self._read_after(alike, 1) & in_a_row
        starts = np.flatnonzero(equal & ~late)

        # In later copies, only tensors from before the whole run are the same.
        low = np.where(same & ~moved, a, -1)
        high = np.where(moved, a, np.where(same, i, -1))
        wrong = _counts(i - 2 * p, np.minimum(low, i - p), size)
        wrong += _counts(np.maximum(high, i - 2 * p), i - p, size)
        goes_on = (wrong == 0) & ~(self._read_after(alike, 2) & in_a_row)
        goes_on[:-p] &= alike.starts[p:]
        goes_on[-p:] = False

        earlier = self.earlier[links]
        read = np.where(earlier >= 0, self.readers[earlier], -1)
        entries = _counts(np.maximum(np.maximum(a, read), i - p), i, size)
        copies = 2 + _repeats(goes_on, p)[starts]
        return Runs(p, starts, copies, entries[starts], in_a_row[starts], len(links))

    def _ambiguous(
        self, alike: Alike, links: Integers, twins: Integers, shift: Integers
    ) -> Integers:
        """Number of tensors from before a copy whose counterparts are not one to one."""
        p, size = alike.period, len(self.kinds)
        i, a, b = self.readers[links], self.sources[links], self.sources[twins]

        # The links before these that read the same tensor.
        before = self.earlier[links]
        reader = np.where(before >= 0, self.readers[before], -1)
        known = np.flatnonzero((before >= 0) & alike.layers[reader])
        other = self.sources[before[known] + shift[reader[known]]]
        clash = known[other != b[known]]
        found = _counts(np.maximum(a, i - p)[clash], reader[clash], size)

        # The links before these whose counterparts read the same tensor.
        before = self.earlier[twins]
        reader = np.where(before >= 0, self.readers[before] - p, -1)
        known = np.flatnonzero((reader >= 0) & alike.layers[reader])
        other = self.sources[before[known] - shift[reader[known]]]
        differs = other != a[known]
        clash = known[differs]
        low = np.maximum(np.maximum(a, i - p)[clash], other[differs])
        return found + _counts(low, reader[clash], size)

    def _read_after(self, alike: Alike, copies: int) -> npt.NDArray[np.bool_]:
        """Whether layers after the next copy read the last of some copies, by the start."""
        p = alike.period
        i = np.flatnonzero(alike.layers)
        last = i - (copies - 1) * p
        first_free = self.last_readers[i] - (copies + 1) * p
        return _counts(last - p, np.minimum(first_free, last), len(self.kinds)) > 0


def _counts(low: Integers, high: Integers, size: int) -> Integers:
    """Number of the intervals that each of the numbers below a size is in.

    Args:
        low: Numbers just before the intervals.
        high: Last numbers of the intervals, below the size; an interval may be empty.
        size: Number of numbers.
    """
    low = np.maximum(low, -1)
    some = low < high
    changes = np.bincount(low[some] + 1, minlength=size + 1)
    changes -= np.bincount(high[some] + 1, minlength=size + 1)
    return np.cumsum(changes[:-1])


def _repeats(holds: npt.NDArray[np.bool_], period: int) -> Integers:
    """Number of times that something holds in a row, from each place on in steps of a period."""
    rows = -(-len(holds) // period)
    ends = np.ones(rows * period, dtype=bool)
    ends[: len(holds)] = ~holds
    row = np.arange(rows)[:, np.newaxis]
    first = np.where(ends.reshape(rows, period), row, rows)
    nearest = np.minimum.accumulate(first[::-1], axis=0)[::-1]
    times: Integers = (nearest - row).reshape(-1)[: len(holds)]
    return times


def _last_reader(model: CanonicalModel, layer: int) -> int:
    names = [name for name in model.layers[layer].outputs if name]
    if not model.output_names.isdisjoint(names):
        return len(model.layers)
    return max((i for name in names for i in model.consumers.get(name, ())), default=layer)
