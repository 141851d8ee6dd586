"""Repeated modules: runs of layers that occur several times in a row, wired alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dlbricks_core.bricks import CutModel
from dlbricks_core.ir import CanonicalModel

# Kinds and connections of layers, and runs of layers that are repeated with the same wiring.
#
# All starts of one period are compared at once. A condition on one layer, or on one of the
# tensors that it reads, excludes an interval of starts; a start that no condition excludes begins
# a run.

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


_MOST_PERIODS = 8
"""Maximum number of periods that are tried from one layer on. Networks have one or two, but a
recurrence that looks back several steps has one for every number of steps."""

MOST_COMPARISONS = 2**25
"""Comparisons of tensors that layers read, after which no longer periods are tried: some
seconds."""

_LAYERS = 128
"""Number of layers whose kinds are compared in the time of one such comparison."""

_STARTS = 8
"""Number of starts that are compared with a shorter run in the time of one such comparison."""

MOST_VISITS = 2**17
"""Layers that are visited to find modules within others: some seconds. Copies that are tried later
count as copies without inner modules."""


# Compared by identity: a hash would visit all modules inside.
@dataclass(frozen=True, eq=False)
class Module:
    """A run of layers in topological order that consists of equal copies.

    Layer ``start + i`` is the same, and reads the same, as ``start + period + i`` and so on.

    Attributes:
        start: First layer of the first copy.
        period: Number of layers in one copy.
        copies: Number of copies, at least two.
        entries: Number of tensors that the first copy reads from the rest of the model.
        in_a_row: Whether each copy reads results of the copy before it. Otherwise the copies
            are side by side.
        inside: Modules within the first copy, and so within each copy.
    """

    start: int
    period: int
    copies: int
    entries: int
    in_a_row: bool
    inside: tuple[Module, ...] = ()

    @property
    def end(self) -> int:
        """Index of the layer after the last copy."""
        return self.start + self.period * self.copies

    @property
    def drawn(self) -> int:
        """Number of layers in one copy, if modules inside it count once."""
        return self.period - sum(each.end - each.start - each.drawn for each in self.inside)


@dataclass(frozen=True)
class Modules:
    """Modules of a model.

    Attributes:
        found: The modules, in the order of their layers.
        complete: Whether the search went to its end, not to :data:`MOST_COMPARISONS` or
            :data:`MOST_VISITS`.
    """

    found: tuple[Module, ...]
    complete: bool


def repeated_modules(cut: CutModel) -> Modules:
    """Modules that leave the fewest layers to draw if one copy represents all.

    Copies are equal if their layers have the same signatures one by one, and if each layer reads
    corresponding tensors: of its own copy, of the copy before, or the same tensor from outside.
    Where later copies read the copy before, the first copy reads from outside. Of copies in a
    row, only the last is read by other layers. Modules do not overlap. Among modules that leave
    equally many layers, the module with fewer input tensors is chosen, then the last module.
    Modules within a copy are found in the same way.
    """
    candidates, all_periods = _candidates(ModuleWiring.of(cut))
    search = _Search(candidates)
    found = tuple(search.best(0, len(cut.model.layers)).modules())
    return Modules(found, all_periods and search.complete)


def _candidates(wiring: ModuleWiring) -> tuple[dict[int, list[Module]], bool]:
    """Longest run of each of the shortest periods, by their first layer.

    Runs whose copies are runs themselves are left out.

    Returns:
        The runs, and whether all periods were tried.
    """
    size = len(wiring.kinds)
    found: dict[int, list[Module]] = {}
    counts = np.zeros(size, dtype=np.int64)
    # Period and end of each run by its first layer, as many as are tried.
    periods = np.ones((_MOST_PERIODS, size), dtype=np.int64)
    ends = np.zeros((_MOST_PERIODS, size), dtype=np.int64)
    comparisons = 0
    for period in range(1, size // 2 + 1):
        comparisons += -(-size // _LAYERS)
        if comparisons > MOST_COMPARISONS:
            return found, False
        alike = wiring.alike(period)
        if alike is None:
            continue
        starts = np.flatnonzero(alike.starts & (counts < _MOST_PERIODS))
        for shorter, end in zip(periods, ends, strict=True):
            comparisons += -(-len(starts) // _STARTS)
            itself_runs = (period % shorter[starts] == 0) & (end[starts] >= starts + 2 * period)
            starts = starts[~itself_runs]
        if not len(starts):
            continue
        wanted = np.zeros(size, dtype=bool)
        wanted[starts] = True
        runs = wiring.runs(alike)
        comparisons += runs.comparisons
        kept = wanted[runs.starts]
        starts, copies = runs.starts[kept], runs.copies[kept]
        periods[counts[starts], starts] = period
        ends[counts[starts], starts] = starts + period * copies
        counts[starts] += 1
        for start, number, entries, in_a_row in zip(
            starts.tolist(),
            copies.tolist(),
            runs.entries[kept].tolist(),
            runs.in_a_row[kept].tolist(),
            strict=True,
        ):
            module = Module(start, period, number, entries, in_a_row)
            found.setdefault(start, []).append(module)
    return found, True


@dataclass(frozen=True, order=True, slots=True)
class _Choice:
    """A choice of modules in a range of layers; the smallest choice is the best.

    Attributes:
        left: Number of layers that are left to draw.
        entries: Number of tensors that enter modules.
        starts: Sum of the modules' starts, negated.
        first: The first of the modules, without inner modules; ``None`` without modules.
        inside: Choice within its last copy.
        others: Choice of the other modules.
    """

    left: int = 0
    entries: int = 0
    starts: int = 0
    first: Module | None = field(default=None, compare=False)
    inside: _Choice | None = field(default=None, compare=False)
    others: _Choice | None = field(default=None, compare=False)

    def modules(self, by: int = 0) -> Iterator[Module]:
        """The modules in the order of their layers, with their starts moved by some layers."""
        choice: _Choice | None = self
        while choice is not None and choice.first is not None and choice.inside is not None:
            module = choice.first
            ahead = (module.copies - 1) * module.period
            inside = tuple(choice.inside.modules(by - ahead))
            yield replace(module, start=module.start + by, inside=inside)
            choice = choice.others


class _Search:
    """Finds the best modules of ranges.

    Args:
        candidates: Longest runs of the whole model, by their first layer.
    """

    def __init__(self, candidates: Mapping[int, Sequence[Module]]) -> None:
        self._candidates = candidates
        #: By end, the best modules of the ranges to there, by their start.
        self._best: dict[int, dict[int, _Choice]] = {}
        self._visits = 0
        self.complete = True

    def best(self, begin: int, end: int) -> _Choice:
        """The best modules within a range, from the back of it."""
        best = self._best.setdefault(end, {end: _Choice()})
        for start in range(end - len(best), begin - 1, -1):
            after = best[start + 1]
            found = _Choice(
                after.left + 1, after.entries, after.starts, after.first, after.inside, after.others
            )
            for each in self._candidates.get(start, ()):
                copies = min(each.copies, (end - start) // each.period)
                if copies > 1:
                    stop = start + copies * each.period
                    # Others may read more of the last copy than of those before.
                    inside = self._inside(stop - each.period, stop)
                    after = best[stop]
                    choice = _Choice(
                        after.left + inside.left,
                        after.entries + each.entries,
                        after.starts - start,
                        replace(each, copies=copies),
                        inside,
                        after,
                    )
                    found = min(found, choice)
            best[start] = found
        return best[begin]

    def _inside(self, begin: int, end: int) -> _Choice:
        """The best modules within a copy; empty at the limit."""
        new = end - begin + 1 - len(self._best.get(end, ()))
        self._visits += max(new, 0)
        if new > 0 and self._visits > MOST_VISITS:
            self.complete = False
            return _Choice(end - begin)
        return self.best(begin, end)
