"""Ways of cutting and composing that a study compares, and models that they lack."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from dlbricks_core.facts import Failure
from dlbricks_core.figures.statistics import is_short, scatters
from dlbricks_core.workflows import Benchmarking, Evaluation, Study
from dlbricks_core.workflows.composing import PAPER_COMPOSER


def ways(study: Study) -> list[Evaluation]:
    """Evaluations of all ways: the paper's by granularity, then DLBricks' own composers."""
    return [*study.by_granularity.values(), *study.by_composer.values()]


def label(way: Evaluation) -> str:
    """Name of a way in tables: ``G=3``, or the composer's name."""
    options = way.result.cut_options
    return named(options.composer, options.granularity)[0]


def named(composer: str, granularity: int) -> tuple[str, bool]:
    """A way's label, and whether it is a composer of DLBricks' own."""
    own = composer != PAPER_COMPOSER
    return (composer if own else f"G={granularity}"), own


def definitions(way: Evaluation) -> dict[str, Benchmarking | None]:
    """Benchmarking speedups of a way by definition; ``None`` if one is not known."""
    found = {"paper": way.speedups.paper, "wall_clock": way.speedups.wall_clock}
    return {name: each if each and each.bricks_s else None for name, each in found.items()}


@dataclass(frozen=True)
class Absent:
    """A model that is not in the figures of some ways.

    Attributes:
        name: Name of the model.
        ways: Labels of the ways.
        reason: Why the first of the ways lacks the model.
    """

    name: str
    ways: Sequence[str]
    reason: str


def absent(study: Study) -> list[Absent]:
    """Distinct models that the figures of some ways lack."""
    found: dict[str, list[tuple[str, str]]] = {}
    for way in ways(study):
        for each in way.left_out:
            found.setdefault(each.subject, []).append((label(way), each.reason))
    return [
        Absent(name, list(dict.fromkeys(where for where, _ in places)), places[0][1])
        for name, places in found.items()
    ]


def failures(study: Study) -> list[Failure]:
    """Distinct failures of all ways."""
    found = [f for way in ways(study) for f in way.result.failures]
    return list(dict.fromkeys([*study.unread, *found]))


def complete(study: Study) -> bool:
    """Whether every model is in the figures of every way."""
    return not (absent(study) or failures(study))


def remarks(study: Study) -> list[str]:
    """Remarks on the figures, the worst first."""
    outcome = study.default.result.outcome
    disturbed = [f"{text} while measuring" for text in outcome.warnings]
    return [*disturbed, *_apart(study), *_of_samples(study), *outcome.notes]


def _of_samples(study: Study) -> list[str]:
    """Numbers of bricks whose samples scatter or are short, in sentences."""
    samples = {
        each.brick.signature: each.latency.samples
        for way in ways(study)
        for each in way.result.bricks
        if each.latency and each.latency.samples and not each.derived_from
    }
    scattered = sum(map(scatters, samples.values()))
    short = sum(map(is_short, samples.values()))
    found = []
    if scattered:
        found.append(f"samples of {scattered:,} of {len(samples):,} bricks scatter widely")
    if short:
        found.append(f"{short:,} of {len(samples):,} bricks take less than 1 ms a run")
    return found


def _apart(study: Study) -> list[str]:
    """Sentences on models whose errors may include drift of the machine."""
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
    """Time in which the samples of a study were taken.

    Attributes:
        begin: Time of the first sample, with time zone.
        end: Time of the last sample, with time zone.
        sessions: Number of sessions that took samples.
    """

    begin: datetime
    end: datetime
    sessions: int

    @classmethod
    def of(cls, study: Study) -> Span | None:
        """Time span of a study; ``None`` if it has no samples."""
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
