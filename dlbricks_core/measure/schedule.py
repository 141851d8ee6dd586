"""Schedules: decide which networks run in the next round, until figures of models are precise."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from dlbricks_core.bricks import CutModel
from dlbricks_core.compose import Plan
from dlbricks_core.facts import Kind, Measurement, Note, Observation, Question
from dlbricks_core.facts.note import JSON
from dlbricks_core.figures.figure import Measured
from dlbricks_core.figures.precision import FEWEST, MOST, STEP_MS, PrecisionTarget, Spread
from dlbricks_core.figures.protocols import PROTOCOLS
from dlbricks_core.measure.cutting import Cutting
from dlbricks_core.measure.ledger import Ledger
from dlbricks_core.measure.request import Request

FEWEST_LONG = 3
"""Minimum number of runs of a network with long runs, which scatter less than short ones."""

_REVIEW_ROUNDS = 5
"""Rounds between two reviews of all samples. With many bricks, a review takes as long as a few
runs.
"""

PASSES = 4
"""Number of runs of a cheap network in a round."""

_EXTRA = 0.25
"""Maximum cost of the passes after the first, as a share of the round's cost."""

_GOLDEN = (math.sqrt(5) - 1) / 2
"""Golden ratio less 1. Any number of its multiples, modulo 1, fill the unit interval evenly."""

_NAMED = 6
"""Maximum number of figures that a note names; the widest come first."""

_NAMES: dict[Kind, str] = {
    "brick": "{}",
    "model": "{} end to end",
    "native": "{} in its framework's own form",
}

_NOTHING = Ledger()

_IN_ROUNDS = PROTOCOLS["interleaved"]
"""Protocol with the statistic of samples that are taken in rounds."""

Keys = set[Question]


class Schedule(ABC):
    """Decides which networks run, from round to round."""

    @abstractmethod
    def due(self, keys: Iterable[Question], *, late: bool = False) -> Keys:
        """Networks that run in the next round.

        Args:
            keys: Networks that are loaded and work.
            late: Whether the budget is used up. Then only indispensable networks run, and networks
                that cost almost nothing in comparison.
        """

    @abstractmethod
    def take(self, key: Question, taken: Observation) -> None:
        """Records new samples of a network."""

    def cheap(self, due: Keys) -> Keys:
        """Due networks that may run :data:`PASSES` times in the round."""
        return set()


class FixedRuns(Schedule):
    """A fixed number of runs of each network, or fewer if they take long.

    A network with fewer runs than others skips rounds. The rounds in which it runs are spread
    evenly, and differ from network to network, so that changes from round to round affect all
    networks alike.

    Args:
        missing: Number of samples that each network lacks.
        enough_s: Total seconds of a network's runs after which :data:`FEWEST_LONG` runs suffice;
            ``None`` for no such limit.
    """

    def __init__(self, missing: Mapping[Question, int], enough_s: float | None = None) -> None:
        self._missing = dict(missing)
        self._enough_s = enough_s
        self._most = max(missing.values(), default=0)
        self._phases = {key: place * _GOLDEN % 1 for place, key in enumerate(missing)}
        self._rounds: Counter[Question] = Counter()
        self._taken: dict[Question, tuple[float, ...]] = {}

    def due(self, keys: Iterable[Question], *, late: bool = False) -> Keys:
        """Networks that lack samples and are due in this round; all in the first round."""
        lacking = [key for key in keys if self._missing.get(key, 0) > 0]
        found: Keys = set()
        while lacking and not found:
            found = {key for key in lacking if self._in_turn(key)}
            self._rounds.update(lacking)
        return found

    def take(self, key: Question, taken: Observation) -> None:
        """Counts the samples."""
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
    """Whether the samples took long enough in total to suffice, regardless of their number."""
    total_s = sum(samples_ms) / 1e3
    return enough_s is not None and len(samples_ms) >= FEWEST_LONG and total_s >= enough_s


@dataclass
class _Tally:
    """Counts of a network's samples.

    Attributes:
        runs: Number of samples.
        quiet: Number of samples that count for the precision.
        seen: Number of samples at the last review.
    """

    runs: int = 0
    quiet: int = 0
    seen: int = 0

    def add(self, taken: Observation, *, counts: bool) -> None:
        """Counts new samples.

        Args:
            taken: The samples.
            counts: Whether they count for the precision.
        """
        count = len(taken.values)
        self.runs += count
        self.quiet += count if counts else 0

    def lacks(self, wanted: int) -> bool:
        """Whether the network needs more samples to reach the required number.

        Disturbed samples do not count: they may scatter little and still be wrong.
        """
        return self.quiet < wanted and self.runs < MOST


ComparedTogether = Sequence[PrecisionTarget]
"""Targets that are compared with each other: the sum of a model's bricks, and the whole model."""


class UntilPrecise(Schedule):
    """Runs of each network until the figures that it is part of are precise.

    A network runs while one of its targets lacks precision. Compared targets form a family. While
    one target of a family lacks precision, the networks of all its targets run: compared figures
    are then timed in the same rounds, and drift of the machine affects both sides.

    Args:
        families: Targets that are compared with each other. A network without a target needs
            :data:`FEWEST` samples.
        precision: Relative half-width of 90% intervals to reach.
        known: Measurements from before, with their figures.
        disturbed: Whether disturbed samples count for the precision, too.
    """

    def __init__(
        self,
        families: Sequence[ComparedTogether],
        precision: float,
        known: Ledger = _NOTHING,
        *,
        disturbed: bool = False,
    ) -> None:
        self._disturbed = disturbed
        self._families = families
        self._precision = precision
        self._sets: dict[Question, list[Observation]] = {}
        self._tallies: defaultdict[Question, _Tally] = defaultdict(_Tally)
        self._spreads: dict[Question, Spread] = {}
        for measurement in known.measurements.values():
            for taken in measurement.observations:
                self.take(measurement.question, taken)
        for key, figure in known.figures.items():
            self._sum_up(key, figure)
        self._rounds = 0
        self._review()

    def take(self, key: Question, taken: Observation) -> None:
        """Records new samples of a network."""
        self._sets.setdefault(key, []).append(taken)
        self._tallies[key].add(taken, counts=self._disturbed or not taken.flags)

    def due(self, keys: Iterable[Question], *, late: bool = False) -> Keys:
        """Networks of all families in which a target lacks precision."""
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
        """The cheapest families, as many as cost almost nothing in comparison with the others.

        With many models, a round takes seconds, and the budget ends after few rounds. A small model
        would then be as imprecise as a large one, although a hundred runs of the small model cost
        less than one run of all others.
        """
        return self._cheapest(due, due)

    def lacking(self, keys: Iterable[Question]) -> Keys:
        """Networks that have too few samples themselves."""
        among = set(keys)
        asked = [self._open(demand, among) for family in self._families for demand in family]
        return {key for key in among if self._tallies[key].runs < FEWEST}.union(*asked)

    def shortfalls(self) -> list[tuple[PrecisionTarget, float]]:
        """Targets that are not precise enough, each with its present precision."""
        self._look()
        reached = [(d, d.half_width(self._spreads)) for family in self._families for d in family]
        return [(demand, half) for demand, half in reached if half > self._precision]

    def _cheapest(self, among: Keys, beside: Keys) -> Keys:
        """The cheapest families, whose additional passes cost little beside the others."""
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
        """Networks of each family."""
        return [
            among.intersection(chain.from_iterable(demand.counts for demand in family))
            for family in self._families
        ]

    def _cost_ms(self, keys: Keys) -> float:
        """Total cost in milliseconds of one run of each network, by its last run."""
        return sum(self._sets[key][-1].values[-1] + STEP_MS for key in keys)

    def _open(self, demand: PrecisionTarget, among: Keys) -> Keys:
        """Networks that a target needs and that lack samples."""
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
        """Updates the spread of each network that has new samples, and enough of them."""
        for key, tally in self._tallies.items():
            if tally.runs >= FEWEST and tally.seen < tally.runs:
                taken = Measurement(key, observations=tuple(self._sets[key]))
                self._sum_up(key, Measured.of(taken, _IN_ROUNDS))

    def _sum_up(self, key: Question, figure: Measured) -> None:
        tally = self._tallies[key]
        if tally.runs >= FEWEST:
            self._spreads[key] = Spread.of(figure)
            tally.seen = tally.runs

    def _review(self) -> None:
        """Recomputes the number of samples that each target needs."""
        self._look()
        self._targets = {
            id(demand): demand.needs(self._spreads, self._precision)
            for family in self._families
            for demand in family
        }


# Figures of models that must be precise, and the figures that are not precise yet.


def families(
    request: Request, cutting: Cutting | None, keys: Iterable[Question]
) -> list[ComparedTogether]:
    """Figures of each model: the sum of its bricks, and the latency of the whole model.

    Args:
        request: Request whose keys identify measurements.
        cutting: The models, cut; ``None`` if each key is a figure of its own.
        keys: Keys of the networks that can be measured. A sum with further bricks is partial.
    """
    if cutting is None:
        return [[PrecisionTarget(key.subject.signature[:8], {key: 1})] for key in keys]
    able = set(keys)
    return [_family(request, cut, cutting.plan, able) for cut in cutting.brickset.models]


def _family(
    request: Request, cut: CutModel, plan: Plan, able: set[Question]
) -> list[PrecisionTarget]:
    whole = cut.whole.signature
    counts: dict[Kind, Mapping[str, float]] = {
        "brick": plan.weights(cut.counts),
        "model": {whole: 1},
        "native": {whole: 1},
    }
    demands = []
    for kind, numbers in counts.items():
        keyed = {request.key(signature, kind): n for signature, n in numbers.items()}
        wanted = {key: n for key, n in keyed.items() if key in able}
        if wanted:
            demands.append(PrecisionTarget(_NAMES[kind].format(cut.model.name), wanted))
    return demands


def shortfalls(
    request: Request,
    cutting: Cutting | None,
    ledger: Ledger,
    reason: Note,
) -> tuple[Note, ...]:
    """A note that names the figures that miss the requested precision, if there are any."""
    if request.precision is None:
        return ()
    figures = families(request, cutting, ledger.measurements)
    rest = UntilPrecise(figures, request.precision, ledger).shortfalls()
    return not_within(request.precision, reason, [(half, demand.name) for demand, half in rest])


def not_within(
    precision: float, reason: Note, reached: Iterable[tuple[float, str]]
) -> tuple[Note, ...]:
    """A note that names figures that miss the requested precision; empty if there are none.

    Args:
        precision: Requested half-width, relative to the figure.
        reason: The note with the reason, without the figures.
        reached: Half-width of each figure that lacks precision, and its name.
    """
    widest = sorted(dict.fromkeys(reached), reverse=True)
    if not widest:
        return ()
    figures: JSON = [
        # An incomplete figure has no width.
        {"name": name, "half_width": float(half) if math.isfinite(half) else None}
        for half, name in widest[:_NAMED]
    ]
    return (reason.also(precision=precision, figures=figures, more=max(len(widest) - _NAMED, 0)),)
