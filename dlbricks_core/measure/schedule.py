"""Which networks run in the next round: a fixed number of times, or until it suffices."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from dlbricks_core.facts import Measurement, Observation, Question
from dlbricks_core.figures.precision import FEWEST, MOST, STEP_MS, PrecisionTarget, Spread

FEWEST_LONG = 3
"""Runs of a network that takes long: the longer a run, the less it scatters."""

_REVIEW_ROUNDS = 5
"""Rounds between two looks at all samples: with many bricks a look takes as long as some
of their runs."""

PASSES = 4
"""How often what is cheap runs in a round."""

_EXTRA = 0.25
"""Of a round's cost: what all these passes but the first may cost together."""

_GOLDEN = (math.sqrt(5) - 1) / 2
"""Multiples of it fill the unit interval evenly, however many there are."""

Keys = set[Question]


class Schedule(ABC):
    """Decides from round to round."""

    @abstractmethod
    def due(self, keys: Iterable[Question], *, late: bool = False) -> Keys:
        """Which of the networks run in the next round.

        Args:
            keys: Those that are loaded and work.
            late: Whether the time is used up: then only what is indispensable, and what
                costs next to nothing beside it.
        """

    @abstractmethod
    def take(self, key: Question, taken: Observation) -> None:
        """Hears of samples."""

    def cheap(self, due: Keys) -> Keys:
        """Which of those due may run :data:`PASSES` times in the round."""
        return set()


class FixedRuns(Schedule):
    """Every network so often, or until its runs have taken so long.

    What runs less often than others does so in rounds that are spread over theirs, each
    network in others: whatever changes from round to round meets all of them.

    Args:
        missing: Samples that each lacks.
        enough_s: Seconds of a network's runs after which it needs no more than
            :data:`FEWEST_LONG` of them; ``None`` for no such end.
    """

    def __init__(self, missing: Mapping[Question, int], enough_s: float | None = None) -> None:
        self._missing = dict(missing)
        self._enough_s = enough_s
        self._most = max(missing.values(), default=0)
        self._phases = {key: place * _GOLDEN % 1 for place, key in enumerate(missing)}
        self._rounds: Counter[Question] = Counter()
        self._taken: dict[Question, tuple[float, ...]] = {}

    def due(self, keys: Iterable[Question], *, late: bool = False) -> Keys:
        """Those that lack samples and whose turn it is, late or not; all in a first round."""
        lacking = [key for key in keys if self._missing.get(key, 0) > 0]
        found: Keys = set()
        while lacking and not found:
            found = {key for key in lacking if self._in_turn(key)}
            self._rounds.update(lacking)
        return found

    def take(self, key: Question, taken: Observation) -> None:
        """Counts them."""
        self._missing[key] -= len(taken.values)
        self._taken[key] = (*self._taken.get(key, ()), *taken.values)
        if long_enough(self._taken[key], self._enough_s):
            self._missing[key] = 0

    def _in_turn(self, key: Question) -> bool:
        taken = self._taken.get(key, ())
        wanted = len(taken) + self._missing[key]
        if self._enough_s is not None and sum(taken) > 0:
            until_enough = math.ceil(self._enough_s * 1e3 * len(taken) / sum(taken))
            wanted = min(wanted, max(until_enough, FEWEST_LONG))
        passed = self._rounds[key] * wanted / self._most
        return passed + self._phases[key] >= len(taken)


def long_enough(samples_ms: Sequence[float], enough_s: float | None) -> bool:
    """Whether samples that take long are enough, however few they are."""
    total_s = sum(samples_ms) / 1e3
    return enough_s is not None and len(samples_ms) >= FEWEST_LONG and total_s >= enough_s


@dataclass
class _Tally:
    """Of a network's samples.

    Attributes:
        runs: All of them.
        quiet: Those that nothing disturbed.
        seen: How many there were at the last look at them.
    """

    runs: int = 0
    quiet: int = 0
    seen: int = 0

    def add(self, taken: Observation) -> None:
        """Counts some more."""
        count = len(taken.values)
        self.runs += count
        self.quiet += 0 if taken.flags else count

    def lacks(self, wanted: int) -> bool:
        """Whether there should be more, when so many are wanted.

        Samples that something disturbed may be as precise as any, and wrong: they are never
        enough.
        """
        return self.quiet < wanted and self.runs < MOST


ComparedTogether = Sequence[PrecisionTarget]
"""Figures that are compared with each other: a model's sum of bricks, the whole model."""


class UntilPrecise(Schedule):
    """Every network until the figures that it is part of are precise.

    A network runs while one of its demands asks for it. While one demand of a family is
    open, the others of the family run along as a whole, precise or not: what is compared
    is timed in the same rounds, so that drift of the machine meets both sides.

    Args:
        families: Of demands; a network without any needs :data:`FEWEST` samples.
        precision: Relative half-width of 90% intervals to reach.
        known: Measurements from before.
    """

    def __init__(
        self,
        families: Sequence[ComparedTogether],
        precision: float,
        known: Iterable[Measurement] = (),
    ) -> None:
        self._families = families
        self._precision = precision
        self._sets: dict[Question, list[Observation]] = {}
        self._tallies: defaultdict[Question, _Tally] = defaultdict(_Tally)
        self._spreads: dict[Question, Spread] = {}
        for measurement in known:
            for taken in measurement.observations:
                self.take(measurement.question, taken)
        self._rounds = 0
        self._review()

    def take(self, key: Question, taken: Observation) -> None:
        """Keeps them."""
        self._sets.setdefault(key, []).append(taken)
        self._tallies[key].add(taken)

    def due(self, keys: Iterable[Question], *, late: bool = False) -> Keys:
        """Those that an open demand needs, and those that run along with it."""
        among = set(keys)
        few = {key for key in among if self._tallies[key].runs < FEWEST}
        if late:
            return few | self._cheapest(self._along(among), few)
        self._rounds += 1
        found = self._along(among) | few
        unseen = any(key not in self._spreads for key in among - few)
        if not found or unseen or self._rounds % _REVIEW_ROUNDS == 0:
            self._review()
            found = self._along(among) | few
        return found

    def cheap(self, due: Keys) -> Keys:
        """The cheapest families, as many as cost next to nothing beside the others.

        Where many models are timed, a round takes seconds, and the budget ends after few of
        them. A small model is then as imprecise as a large one, although a hundred of its
        runs would cost less than one of the others.
        """
        return self._cheapest(due, due)

    def lacking(self, keys: Iterable[Question]) -> Keys:
        """Those that have too few samples themselves; nothing that would run along."""
        among = set(keys)
        asked = [self._open(demand, among) for family in self._families for demand in family]
        return {key for key in among if self._tallies[key].runs < FEWEST}.union(*asked)

    def shortfalls(self) -> list[tuple[PrecisionTarget, float]]:
        """Demands that are not precise enough, and how far they got."""
        self._look()
        reached = [(d, d.half_width(self._spreads)) for family in self._families for d in family]
        return [(demand, half) for demand, half in reached if half > self._precision]

    def _cheapest(self, among: Keys, beside: Keys) -> Keys:
        """The cheapest families, for whose further passes beside others there is time."""
        if not beside.issubset(self._sets):
            return set()
        affordable_ms = _EXTRA * self._cost_ms(beside) / (PASSES - 1)
        found: Keys = set()
        for family in sorted(self._members(among), key=self._cost_ms):
            if self._cost_ms(found | family) > affordable_ms:
                break
            found |= family
        return found

    def _members(self, among: Keys) -> list[Keys]:
        """Of each family."""
        return [
            among.intersection(chain.from_iterable(demand.counts for demand in family))
            for family in self._families
        ]

    def _cost_ms(self, keys: Keys) -> float:
        """Of a run of each, by what the last one took."""
        return sum(self._sets[key][-1].values[-1] + STEP_MS for key in keys)

    def _open(self, demand: PrecisionTarget, among: Keys) -> Keys:
        """What the demand itself lacks."""
        targets = self._targets[id(demand)]
        return {
            key
            for key in demand.counts
            if key in among and self._tallies[key].lacks(targets.get(key, FEWEST))
        }

    def _along(self, among: Keys) -> Keys:
        found: Keys = set()
        for family in self._families:
            asked = [self._open(demand, among) for demand in family]
            for demand, own in zip(family, asked, strict=True):
                company = any(other for other in asked if other is not own)
                found |= among.intersection(demand.counts) if company else own
        return found

    def _look(self) -> None:
        """At new samples, of every network that has enough of them to tell."""
        for key, tally in self._tallies.items():
            if tally.runs >= FEWEST and tally.seen < tally.runs:
                self._spreads[key] = Spread.of(
                    Measurement(key, observations=tuple(self._sets[key]))
                )
                tally.seen = tally.runs

    def _review(self) -> None:
        """Computes anew how many samples each demand asks for."""
        self._look()
        self._targets = {
            id(demand): demand.needs(self._spreads, self._precision)
            for family in self._families
            for demand in family
        }
