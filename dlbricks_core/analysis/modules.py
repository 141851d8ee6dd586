"""Repeated modules: runs of layers that occur several times in a row, wired alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from dlbricks_core.bricks import CutModel
from dlbricks_core.ir import CanonicalModel

_MOST_PERIODS = 8
"""Maximum number of periods that are tried from one layer on. Networks have one or two, but a
recurrence that looks back several steps has one for every number of steps."""


@dataclass(frozen=True)
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


def repeated_modules(cut: CutModel) -> list[Module]:
    """Modules that leave the fewest layers to draw when one copy stands for all.

    Copies are equal if their layers have the same signatures one by one, and if each layer reads
    corresponding tensors: of its own copy, of the copy before, or the same tensor from outside.
    Where later copies read the copy before, the first copy reads from outside. Of copies in a
    row, only the last is read by other layers. Modules do not overlap. Of modules that leave
    equally many layers, the one that fewer tensors enter wins, and of those the last. Modules
    within a copy are found in the same way.
    """
    candidates = _Wiring.of(cut).candidates()
    return list(_Search(candidates).best(0, len(cut.model.layers)).modules)


@dataclass(frozen=True, order=True)
class _Choice:
    """A choice of modules in a range of layers; the smallest choice is the best.

    Attributes:
        left: Number of layers that are left to draw.
        entries: Number of tensors that enter modules.
        starts: Sum of the modules' starts, negated.
        modules: The modules, in the order of their layers.
    """

    left: int = 0
    entries: int = 0
    starts: int = 0
    modules: tuple[Module, ...] = field(default=(), compare=False)


class _Search:
    """Finds the best modules of ranges.

    Args:
        candidates: Longest runs of the whole model, by their first layer.
    """

    def __init__(self, candidates: Mapping[int, Sequence[Module]]) -> None:
        self._candidates = candidates
        #: By end, the best modules of the ranges to there, by their start.
        self._best: dict[int, dict[int, _Choice]] = {}

    def best(self, begin: int, end: int) -> _Choice:
        """The best modules within a range, from the back of it."""
        best = self._best.setdefault(end, {end: _Choice()})
        for start in range(end - len(best), begin - 1, -1):
            after = best[start + 1]
            best[start] = replace(after, left=after.left + 1)
            for each in self._candidates.get(start, ()):
                copies = min(each.copies, (end - start) // each.period)
                if copies > 1:
                    # Others may read more of the last copy than of those before.
                    ahead = (copies - 1) * each.period
                    inside = self.best(start + ahead, start + ahead + each.period)
                    modules = tuple(_moved(m, -ahead) for m in inside.modules)
                    module = replace(each, copies=copies, inside=modules)
                    after = best[module.end]
                    choice = _Choice(
                        after.left + inside.left,
                        after.entries + each.entries,
                        after.starts - start,
                        (module, *after.modules),
                    )
                    best[start] = min(best[start], choice)
        return best[begin]


def _moved(module: Module, by: int) -> Module:
    inside = tuple(_moved(each, by) for each in module.inside)
    return replace(module, start=module.start + by, inside=inside)


@dataclass(frozen=True)
class _Wiring:
    """Signatures and connections of all layers, by position.

    Attributes:
        kinds: Number of each layer's signature.
        links: Producers of the tensors that each layer reads; negative for the model's inputs.
        last_readers: Position of the last layer that reads a result of each layer; the number
            of layers for outputs of the model.
    """

    kinds: npt.NDArray[np.int64]
    links: Sequence[tuple[int, ...]]
    last_readers: Sequence[int]

    @classmethod
    def of(cls, cut: CutModel) -> _Wiring:
        model = cut.model
        numbers = {signature: i for i, signature in enumerate(dict.fromkeys(cut.layer_signatures))}
        places = {name: -1 - i for i, name in enumerate(model.inputs)} | dict(model.producers)
        return cls(
            kinds=np.array([numbers[s] for s in cut.layer_signatures], dtype=np.int64),
            links=[
                tuple(places[name] for name in model.activations(layer) if name in places)
                for layer in model.layers
            ],
            last_readers=[_last_reader(model, i) for i in range(len(model.layers))],
        )

    def candidates(self) -> dict[int, list[Module]]:
        """Longest run of each of the shortest periods, by their first layer.

        Runs whose copies are runs themselves are left out.
        """
        kinds = self.kinds
        found: dict[int, list[Module]] = {}
        counts = np.zeros(len(kinds), dtype=np.int64)
        ends: dict[int, npt.NDArray[np.int64]] = {}
        for period in range(1, len(kinds) // 2 + 1):
            # Two equal copies have as many pairs of equal layers as a copy has layers.
            alike = np.concatenate(([0], np.cumsum(kinds[:-period] == kinds[period:])))
            starts = np.flatnonzero(alike[period:] - alike[:-period] == period)
            starts = starts[counts[starts] < _MOST_PERIODS]
            for shorter, last in ends.items():
                if period % shorter == 0:
                    starts = starts[last[starts] < starts + 2 * period]
            runs: dict[int, Module] = {}
            for start in map(int, starts):
                module = self.module(start, period, runs.get(start - period))
                if module is not None:
                    runs[start] = module
                    found.setdefault(start, []).append(module)
            if runs:
                counts[list(runs)] += 1
                ends[period] = np.zeros(len(kinds), dtype=np.int64)
                ends[period][list(runs)] = [module.end for module in runs.values()]
        return found

    def module(self, start: int, period: int, before: Module | None = None) -> Module | None:
        """Longest run of equal copies from a layer on.

        Args:
            start: First layer.
            period: Number of layers in a copy.
            before: Run that begins one copy earlier, if there is one. Its copies from the second
                on are equal, too.
        """
        first = range(start, start + period)
        entered: dict[int, int] = {}
        for i in first:
            if not _follows(self.links[i], self.links[i + period], start, period, entered):
                return None
        if len(set(entered.values())) < len(entered):
            return None
        entries = len({a for i in first for a in self.links[i] if a < start})
        in_a_row = any(a != b for a, b in entered.items())
        copies = before.copies - 1 if before else 1
        while self.goes_on(start, period, copies, closed=in_a_row):
            copies += 1
        return Module(start, period, copies, entries, in_a_row) if copies > 1 else None

    def goes_on(self, start: int, period: int, copies: int, *, closed: bool) -> bool:
        """Whether another equal copy follows a number of copies.

        Args:
            start: Of the first copy.
            period: Layers of a copy.
            copies: That are known to be equal; of a single one, also the next is.
            closed: Whether nothing but the next copy may read of the last of them.
        """
        last = range(start + (copies - 1) * period, start + copies * period)
        after = last.stop + period
        if after > len(self.kinds) or (closed and any(self.last_readers[i] >= after for i in last)):
            return False
        return copies == 1 or all(
            self.kinds[i] == self.kinds[i + period]
            and _continues(self.links[i], self.links[i + period], start, period)
            for i in last
        )


def _last_reader(model: CanonicalModel, layer: int) -> int:
    names = [name for name in model.layers[layer].outputs if name]
    if not model.output_names.isdisjoint(names):
        return len(model.layers)
    return max((i for name in names for i in model.consumers.get(name, ())), default=layer)


def _follows(
    one: Sequence[int], two: Sequence[int], start: int, period: int, entered: dict[int, int]
) -> bool:
    """Whether a layer of the second copy reads what corresponds to the first copy's.

    Args:
        one: Producers of what a layer of the first copy reads.
        two: Those of its counterpart.
        start: Of the first copy.
        period: Layers of a copy.
        entered: For producers before the first copy, their counterparts for the second;
            filled here.
    """
    if len(one) != len(two):
        return False
    for a, b in zip(one, two, strict=True):
        if a >= start:
            if b != a + period:
                return False
        elif (b != a and not start <= b < start + period) or entered.setdefault(a, b) != b:
            return False
    return True


def _continues(one: Sequence[int], two: Sequence[int], start: int, period: int) -> bool:
    """Whether a layer of a later copy reads what corresponds to the copy's before it."""
    return len(one) == len(two) and all(
        b == a + period if a >= start else b == a for a, b in zip(one, two, strict=True)
    )
