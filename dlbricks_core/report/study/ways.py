"""The ways of cutting and composing that a study compares, and what they lack."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from dlbricks_core.facts import Failure
from dlbricks_core.workflows import Benchmarking, Evaluation, Study
from dlbricks_core.workflows.composing import PAPER_COMPOSER


def ways(study: Study) -> list[Evaluation]:
    """The paper's chains and sums by granularity, then DLBricks' own composers."""
    return [*study.by_granularity.values(), *study.by_composer.values()]


def label(way: Evaluation) -> str:
    """What a way is called in tables: ``G=3``, or the composer's name."""
    options = way.result.cut_options
    return named(options.composer, options.granularity)[0]


def named(composer: str, granularity: int) -> tuple[str, bool]:
    """A way's label, and whether it is a composer of DLBricks' own."""
    own = composer != PAPER_COMPOSER
    return (composer if own else f"G={granularity}"), own


def definitions(way: Evaluation) -> dict[str, Benchmarking | None]:
    """Benchmarking speedups of a way; ``None`` where one is not known."""
    found = {"paper": way.speedups.paper, "wall_clock": way.speedups.wall_clock}
    return {name: each if each and each.bricks_s else None for name, each in found.items()}


@dataclass(frozen=True)
class Absent:
    """A model that is not in the figures of some ways.

    Attributes:
        name: Of the model.
        ways: The ways' labels.
        reason: Why, in the first of them.
    """

    name: str
    ways: Sequence[str]
    reason: str


def absent(study: Study) -> list[Absent]:
    """Models that figures are without, each once."""
    found: dict[str, list[tuple[str, str]]] = {}
    for way in ways(study):
        for each in way.left_out:
            found.setdefault(each.subject, []).append((label(way), each.reason))
    return [
        Absent(name, list(dict.fromkeys(where for where, _ in places)), places[0][1])
        for name, places in found.items()
    ]


def failures(study: Study) -> list[Failure]:
    """Everything that has no measurement, in whichever way it was wanted."""
    found = [f for way in ways(study) for f in way.result.failures]
    return list(dict.fromkeys([*study.unread, *found]))


def complete(study: Study) -> bool:
    """Whether every model is in the figures of every way."""
    return not (absent(study) or failures(study))


def remarks(study: Study) -> list[str]:
    """What to keep in mind when reading the figures."""
    result = study.default.result
    doubtful = {b.brick.signature for w in ways(study) for b in w.result.bricks if b.warnings}
    every = {b.brick.signature for w in ways(study) for b in w.result.bricks}
    found = [f"{text} while measuring" for text in result.outcome.warnings]
    if doubtful:
        found.append(
            f"samples of {len(doubtful)} of {len(every)} bricks scatter widely or are very short"
        )
    return [*found, *result.outcome.notes, *_apart(study)]


def _apart(study: Study) -> list[str]:
    """Says so where drift of the machine may be part of errors."""
    every = {each.name for way in ways(study) for each in way.models}
    names = {each.name for way in ways(study) for each in way.models if not each.same_rounds}
    if not names:
        return []
    return [
        f"{len(names)} of {len(every)} models have bricks that were not timed in the same "
        "rounds as the whole model: drift of the machine is part of their errors"
    ]


@dataclass(frozen=True)
class Span:
    """When the samples of a study were taken.

    Attributes:
        begin: Of the first, with time zone.
        end: Of the last.
        sessions: In how many goes.
    """

    begin: datetime
    end: datetime
    sessions: int

    @classmethod
    def of(cls, study: Study) -> Span | None:
        """``None`` where there are no samples."""
        taken = [
            samples
            for way in ways(study)
            for measurement in way.result.outcome.measurements.values()
            for samples in measurement.observations
        ]
        if not taken:
            return None
        times = [each.taken_at.astimezone(UTC) for each in taken]
        return cls(min(times), max(times), len({each.session for each in taken}))

    def __str__(self) -> str:
        begin, end = (f"{time:%Y-%m-%d %H:%M} UTC" for time in (self.begin, self.end))
        return f"{begin} to {end}" if begin != end else begin
