"""Figures of models in a scenario, in sentences and rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dlbricks_core.report.tables import ms
from dlbricks_core.scenarios import PATTERNS, Scenario, ScenarioAnswer, queries_needed
from dlbricks_core.wording import argument
from dlbricks_core.workflows.scenarios.run import Asked, ModelUnderLoad, Row, UnderLoad

PERCENTILES = (0.50, 0.90, 0.99)
"""Displayed percentiles of the latency, as shares."""


@dataclass(frozen=True)
class Line:
    """A line of a table of one model.

    Attributes:
        placement: Instances and threads; empty if they equal those of the previous line.
        source: Origin of the figures.
        throughput: Samples or queries per second.
        latencies: Percentiles of the latency in milliseconds.
        bound: Whether the bound is kept.
    """

    placement: str
    source: str
    throughput: str
    latencies: Sequence[str]
    bound: str

    @property
    def cells(self) -> list[str]:
        """All cells."""
        return [self.placement, self.source, self.throughput, *self.latencies, self.bound]


def columns(asked: Asked) -> list[str]:
    """Headings of a table."""
    unit = PATTERNS[asked.scenario].unit.capitalize()
    return ["n x m", "From", f"{unit}/s", "p50 ms", "p90 ms", "p99 ms", "Bound"]


def lines(model: ModelUnderLoad, scenario: Scenario) -> list[Line]:
    """Lines of the table of one model."""
    return [line for row in model.rows for line in _row(row, scenario)]


def _row(row: Row, scenario: Scenario) -> Iterator[Line]:
    name = str(row.placement)
    if row.composed is not None:
        yield _figures(name, "bricks", row.composed)
        name = ""
    loaded = row.measured
    if loaded is not None and loaded.answer is not None:
        yield _figures(name, "stored" if loaded.stored else "measured", loaded.answer)
        name = ""
        tail = PATTERNS[scenario].percentile or PERCENTILES[-1]
        if row.composed is not None:
            errors = [percent(row.tail_error) if p == tail else "" for p in PERCENTILES]
            yield Line(name, "error", percent(row.throughput_error), errors, "")
    elif row.composed is None:
        yield Line(name, "-", "-", ["-"] * len(PERCENTILES), "")


def _figures(name: str, source: str, answer: ScenarioAnswer) -> Line:
    latencies = [ms(each) for each in (answer.p50, answer.p90, answer.p99)]
    bound = "-" if answer.holds is None else "kept" if answer.holds else "broken"
    return Line(name, source, ms(answer.throughput), latencies, bound)


def percent(error: float | None) -> str:
    """An error: ``+1.2%``."""
    return "-" if error is None else f"{error:+.1%}"


def best(model: ModelUnderLoad, asked: Asked) -> str:
    """A sentence on the best n x m for a model, without a full stop."""
    row = model.best
    where = "" if asked.bound_ms is None else f" within {asked.bound_ms:g} ms"
    if row is None or row.answer is None:
        reason = "nothing was timed" if all(each.answer is None for each in model.rows) else (
            f"no n x m keeps {asked.bound_ms:g} ms"
        )  # fmt: skip
        return f"{model.model.name}: {reason}"
    answer, pattern = row.answer, PATTERNS[asked.scenario]
    source = "measured" if row.measured and row.measured.answer else "composed"
    if pattern.by_latency:
        figure = f"{_ordinal(pattern.percentile)} percentile of {ms(answer.tail_ms)} ms"
        return f"{model.model.name}: {row.placement} is fastest{where}: {figure} ({source})"
    figure = f"{ms(answer.throughput)} {pattern.unit}/s"
    return f"{model.model.name}: {row.placement} serves most{where}: {figure} ({source})"


def _ordinal(share: float | None) -> str:
    return f"{100 * (share or 0.99):.0f}th"


def explained(result: UnderLoad) -> list[str]:
    """Sentences on the meaning of columns, and on the overhead of the load generator."""
    asked = result.asked
    pattern = PATTERNS[asked.scenario]
    found = [f"n x m: n instances with m threads, and m cores, each. {_MEANINGS[asked.scenario]}"]
    if any(each.composed and each.measured for each in _rows(result)):
        rate = "measured rate" if asked.scenario is Scenario.SERVER else "same load"
        found.append(
            f"Errors are those of bricks: of the throughput, and of the "
            f"{_ordinal(pattern.percentile)} percentile at the {rate}."
        )
    overheads = [
        row.measured.overhead for row in _rows(result) if row.measured and row.measured.overhead
    ]
    if overheads:
        median = max(each.median_us for each in overheads)
        most = max(each.p99_us for each in overheads)
        cores = max(each.cores for each in overheads)
        found.append(
            f"The load generator added up to {median:.0f} us to an inference (median; 99th "
            f"percentile {most:.0f} us), and kept {cores:.3f} cores busy."
        )
    return [*found, *_too_few(result)]


_MEANINGS = {
    Scenario.OFFLINE: "All samples are there at the start; latencies are those of one inference.",
    Scenario.SERVER: "Queries arrive by a Poisson process, at the highest rate whose 99th "
    "percentile is within the bound.",
    Scenario.SINGLE_STREAM: "One query of one sample after another: one instance is busy.",
    Scenario.MULTI_STREAM: "One query of eight samples after another; the last sample counts.",
}


def _too_few(result: UnderLoad) -> Iterator[str]:
    share = PATTERNS[result.asked.scenario].percentile
    measured = [row.measured.answer for row in _rows(result) if row.measured]
    if share is not None and any(each and each.early_stopping_ms is None for each in measured):
        yield (
            f"Some runs had fewer than the {queries_needed(1, share)} queries that MLPerf's rule "
            f"of early stopping needs; {argument('duration_s')} makes them longer."
        )


def warnings(result: UnderLoad) -> list[str]:
    """Distinct disturbances of the machine."""
    return list(dict.fromkeys(text for row in _rows(result) for text in row.warnings))


def _rows(result: UnderLoad) -> list[Row]:
    return [row for model in result.models for row in model.rows]
