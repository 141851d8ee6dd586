"""Repeated modules: runs of layers that occur several times in a row, wired alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from dlbricks_core.analysis.wiring import ModuleWiring
from dlbricks_core.bricks import CutModel

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
