"""Repeated modules: runs of layers that occur several times in a row, wired alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np
import numpy.typing as npt

from dlbricks_core.bricks import CutModel
from dlbricks_core.ir import Model


@dataclass(frozen=True)
class Module:
    """A run of layers in topological order that consists of equal copies.

    Layer ``start + i`` is the same, and reads the same, as ``start + period + i`` and so on.

    Attributes:
        start: First layer of the first copy.
        period: Layers of one copy.
        copies: How many there are, two or more.
        entries: Tensors that the first copy reads of the rest of the model.
        in_a_row: Whether a copy reads what the one before it makes; copies that do not are
            side by side.
    """

    start: int
    period: int
    copies: int
    entries: int
    in_a_row: bool

    @property
    def end(self) -> int:
        """The layer after the last copy."""
        return self.start + self.period * self.copies

    def __contains__(self, layer: int) -> bool:
        return self.start <= layer < self.end


def repeated_modules(cut: CutModel) -> list[Module]:
    """The runs of equal copies that leave the fewest layers when each copy counts once.

    Copies are equal when their layers have the same signatures one by one and each reads
    the corresponding tensors: of its own copy, of the copy before, or the same tensor from
    outside. What copies read of the copy before, the first one reads from outside. Runs do
    not overlap. Of runs that leave equally many layers, the one with fewer tensors that enter
    it is taken, and of those the last.
    """
    candidates = _candidates(cut)
    size = len(cut.model.layers)
    # From the back: layers that are left, tensors that enter modules, and starts (negative).
    best: list[tuple[int, int, int]] = [(0, 0, 0)] * (size + 1)
    chosen: list[Module | None] = [None] * size
    for start in reversed(range(size)):
        left, entries, starts = best[start + 1]
        best[start] = (left + 1, entries, starts)
        for each in candidates.get(start, ()):
            left, entries, starts = best[each.end]
            value = (left + each.period, entries + each.entries, starts - each.start)
            if value < best[start]:
                best[start], chosen[start] = value, each
    return list(_taken(chosen))


def _taken(chosen: Sequence[Module | None]) -> Iterator[Module]:
    start = 0
    while start < len(chosen):
        module = chosen[start]
        if module is not None:
            yield module
        start = module.end if module is not None else start + 1


def _candidates(cut: CutModel) -> dict[int, list[Module]]:
    """By start, the longest run for every period; none whose copies are runs themselves."""
    signatures = cut.layer_signatures
    numbers = {signature: i for i, signature in enumerate(dict.fromkeys(signatures))}
    kinds = np.array([numbers[signature] for signature in signatures], dtype=np.int64)
    links = _links(cut.model)
    found: dict[int, list[Module]] = {}
    for period in range(1, len(kinds) // 2 + 1):
        # A run of two copies has as many pairs of equal layers as a copy has layers.
        alike = np.concatenate(([0], np.cumsum(kinds[:-period] == kinds[period:])))
        for start in np.flatnonzero(alike[period:] - alike[:-period] == period):
            shorter = found.get(int(start), [])
            inside = start + 2 * period
            if any(period % each.period == 0 and each.end >= inside for each in shorter):
                continue
            module = _module(int(start), period, kinds, links)
            if module is not None:
                found.setdefault(module.start, []).append(module)
    return found


def _links(model: Model) -> list[tuple[int, ...]]:
    """For each layer, the producers of what it reads; below zero for the model's inputs."""
    inputs = {name: -1 - i for i, name in enumerate(model.inputs)}
    places = {**inputs, **model.producers}
    return [
        tuple(places[name] for name in model.activations(layer) if name in places)
        for layer in model.layers
    ]


def _module(
    start: int, period: int, kinds: npt.NDArray[np.int64], links: Sequence[tuple[int, ...]]
) -> Module | None:
    """The longest run of equal copies from a layer on."""
    entered: dict[int, int] = {}
    for i in range(start, start + period):
        if not _follows(links[i], links[i + period], start, period, entered):
            return None
    if len(set(entered.values())) < len(entered):
        return None
    outside = {a for i in range(start, start + period) for a in links[i] if a < start}
    in_a_row = any(a != b for a, b in entered.items())
    for copies in count(2):
        first = start + (copies - 1) * period
        last = first + 2 * period > len(kinds)
        if last or not all(
            kinds[i] == kinds[i + period] and _continues(links[i], links[i + period], start, period)
            for i in range(first, first + period)
        ):
            return Module(start, period, copies, len(outside), in_a_row)
    raise AssertionError


def _follows(
    one: Sequence[int], two: Sequence[int], start: int, period: int, entered: dict[int, int]
) -> bool:
    """Whether a layer of the second copy reads what corresponds to the first copy's."""
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
