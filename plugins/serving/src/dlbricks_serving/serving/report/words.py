"""Figures of models in a scenario, in sentences and rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from dlbricks_core.facts import Failure, Note
from dlbricks_core.measure.request import Request
from dlbricks_core.report import heading
from dlbricks_core.report.tables import interval_text, ms
from dlbricks_core.wording import argument
from dlbricks_serving.scenarios import PATTERNS, Scenario, ScenarioAnswer, queries_needed
from dlbricks_serving.scenarios.records import Interval
from dlbricks_serving.serving.comparing import ComparedLoads, ranked
from dlbricks_serving.serving.run import LoadRequest, ModelUnderLoad, Row, UnderLoad

PERCENTILES = (0.50, 0.90, 0.99)
"""Displayed percentiles of the latency, as shares."""


@dataclass(frozen=True)
class TableLine:
    """A line of a table of one model."""

    placement: str  #: Instances and threads; empty if they equal those of the previous line.
    source: str  #: Origin of the figures.
    throughput: str  #: Samples or queries per second.
    latencies: Sequence[str]  #: Percentiles of the latency in milliseconds.
    #: 90% interval of the scenario's figure: of the throughput, or of the percentile.
    interval: str
    bound: str  #: Whether the bound is kept.

    @property
    def cells(self) -> list[str]:
        """All cells."""
        return [
            self.placement,
            self.source,
            self.throughput,
            *self.latencies,
            self.interval,
            self.bound,
        ]


@dataclass(frozen=True)
class LoadReport:
    """Figures of models under load in words of a report."""

    asked: LoadRequest  #: The request for the load.
    requests: Sequence[Request]  #: How networks ran, one request for each backend.
    answers: Sequence[str]  #: A sentence on the best n x m of each model, without a full stop.
    warnings: Sequence[Note]  #: Distinct disturbances of the machine.
    columns: Sequence[str]  #: Headings of all tables.
    #: Name of each model, and the rows of its table.
    tables: Sequence[tuple[str, Sequence[Sequence[str]]]]
    #: Sentences on what columns mean, and on the overhead of the load generator.
    explained: Sequence[str]
    failures: Sequence[Failure]  #: All failures.
    notes: Sequence[Note] = ()  #: Basis of the predictions, and reasons to doubt them.

    @property
    def backends(self) -> str:
        """Names, versions and options of the backends."""
        return "; ".join(
            f"{each.backend.name} {each.setup.version}{heading.options(each)}"
            for each in self.requests
        )


def load_report(result: UnderLoad) -> LoadReport:
    """Figures on one backend."""
    asked = result.asked
    return LoadReport(
        asked,
        [result.request],
        [best(model, asked) for model in result.models],
        _strongest(warnings(result)),
        _columns(asked),
        [
            (each.model.name, [line.cells for line in lines(each, asked.scenario)])
            for each in result.models
        ],
        _explained(asked, _rows(result)),
        result.failures,
        result.notes,
    )


def compared_load_report(result: ComparedLoads) -> LoadReport:
    """Figures on several backends, which are a column of all tables."""
    asked, runs = result.asked, result.runs.values()
    return LoadReport(
        asked,
        [each.request for each in runs],
        [_compared(found, asked) for found in result.models],
        _strongest(
            note.about(name) for name, each in result.runs.items() for note in warnings(each)
        ),
        ["Backend", *_columns(asked)],
        [(_name(found), list(_rows_of_backends(found, asked))) for found in result.models],
        _explained(asked, [row for each in runs for row in _rows(each)]),
        result.failures,
    )


def _name(found: Mapping[str, ModelUnderLoad]) -> str:
    return next(iter(found.values())).model.name


def _rows_of_backends(
    found: Mapping[str, ModelUnderLoad], asked: LoadRequest
) -> Iterator[Sequence[str]]:
    for name, model in found.items():
        for number, line in enumerate(lines(model, asked.scenario)):
            yield ["" if number else name, *line.cells]


def _columns(asked: LoadRequest) -> list[str]:
    unit = PATTERNS[asked.scenario].unit.capitalize()
    return ["n x m", "From", f"{unit}/s", "p50 ms", "p90 ms", "p99 ms", "90%", "Bound"]


def lines(model: ModelUnderLoad, scenario: Scenario) -> list[TableLine]:
    """Lines of the table of one model."""
    return [line for row in model.rows for line in _row(row, scenario)]


def _row(row: Row, scenario: Scenario) -> Iterator[TableLine]:
    name = str(row.placement)
    if row.composed is not None:
        yield _figures(name, "predicted" if row.predicted else "bricks", row.composed)
        name = ""
    loaded = row.measured
    if loaded is not None and loaded.answer is not None:
        yield _figures(name, "stored" if loaded.stored else "measured", loaded.answer)
        name = ""
        tail = PATTERNS[scenario].percentile or PERCENTILES[-1]
        if row.composed is not None:
            errors = [percent(row.tail_error) if p == tail else "" for p in PERCENTILES]
            yield TableLine(name, "error", percent(row.throughput_error), errors, "", "")
    elif row.composed is None:
        yield TableLine(name, "-", "-", ["-"] * len(PERCENTILES), "-", "")


def _figures(name: str, source: str, answer: ScenarioAnswer) -> TableLine:
    latencies = [ms(each) for each in (answer.p50, answer.p90, answer.p99)]
    bound = "-" if answer.holds is None else "kept" if answer.holds else "broken"
    by_latency = answer.pattern.by_latency
    ends = answer.tail_interval if by_latency else answer.throughput_interval
    return TableLine(name, source, ms(answer.throughput), latencies, interval_text(ends), bound)


def percent(error: float | None) -> str:
    """An error: ``+1.2%``."""
    return "-" if error is None else f"{error:+.1%}"


def best(model: ModelUnderLoad, asked: LoadRequest) -> str:
    """A sentence on the best n x m for a model, without a full stop."""
    row = model.best
    if row is None:
        return f"{model.model.name}: {_none(model.rows, asked)}"
    return f"{model.model.name}: {row.placement} {_claim(row, asked)}"


def _compared(found: Mapping[str, ModelUnderLoad], asked: LoadRequest) -> str:
    """A sentence on the best backend and n x m for a model, and how much better they are."""
    able = ranked(found)
    if not able:
        every = [row for each in found.values() for row in each.rows]
        return f"{_name(found)}: {_none(every, asked)}"
    (name, row), *others = able
    sentence = f"{_name(found)}: {name} with {row.placement} {_claim(row, asked)}"
    if not others:
        return sentence
    other, second = others[0]
    lead, intervals = _lead(row, second, asked)
    doubt = "; their intervals overlap" if _overlap(*intervals) else ""
    return f"{sentence}, {lead} {other} with {second.placement}{doubt}"


def _none(rows: Sequence[Row], asked: LoadRequest) -> str:
    """Why there is no best n x m."""
    if all(each.answer is None for each in rows):
        return "no figure is known"
    least = min(each.answer.tail_ms for each in rows if each.answer is not None)
    percentile = _ordinal(PATTERNS[asked.scenario].percentile)
    return (
        f"no n x m keeps {asked.bound_ms:g} ms; the least {percentile} percentile is {ms(least)} ms"
    )


def _claim(row: Row, asked: LoadRequest) -> str:
    """Predicate of the sentence on the best n x m, with its figure."""
    answer, pattern = row.answer, PATTERNS[asked.scenario]
    assert answer is not None
    where = "" if asked.bound_ms is None else f" within {asked.bound_ms:g} ms"
    composed = "predicted" if row.predicted else "composed"
    source = "measured" if row.measured and row.measured.answer else composed
    if pattern.by_latency:
        figure = f"{_ordinal(pattern.percentile)} percentile of {ms(answer.tail_ms)} ms"
        return f"is fastest{where}: {figure} ({source})"
    return f"serves most{where}: {ms(answer.throughput)} {pattern.unit}/s ({source})"


def _lead(
    first: Row, second: Row, asked: LoadRequest
) -> tuple[str, tuple[Interval | None, Interval | None]]:
    """How much better the first is in words, and the intervals of both figures."""
    one, other = first.answer, second.answer
    assert one is not None
    assert other is not None
    if PATTERNS[asked.scenario].by_latency:
        words = f"{other.tail_ms / one.tail_ms:.2f} times as fast as"
        return words, (one.tail_interval, other.tail_interval)
    words = f"{one.throughput / other.throughput:.2f} times as many as"
    return words, (one.throughput_interval, other.throughput_interval)


def _overlap(one: Interval | None, other: Interval | None) -> bool:
    return bool(one and other and one[0] <= other[1] and other[0] <= one[1])


def _ordinal(share: float | None) -> str:
    return f"{100 * (share or 0.99):.0f}th"


def _explained(asked: LoadRequest, rows: Sequence[Row]) -> list[str]:
    pattern = PATTERNS[asked.scenario]
    figure = f"{_ordinal(pattern.percentile)} percentile" if pattern.by_latency else "throughput"
    found = [
        f"n x m: n instances with m threads, and m cores, each. {_MEANINGS[asked.scenario]} 90%: "
        f"interval of the {figure}."
    ]
    if any(each.composed and each.measured for each in rows):
        rate = "measured rate" if asked.scenario is Scenario.SERVER else "same load"
        found.append(
            f"Errors are those of {_composed_rows(rows)}: of the throughput, and of the "
            f"{_ordinal(pattern.percentile)} percentile at the {rate}."
        )
    overheads = [row.measured.overhead for row in rows if row.measured and row.measured.overhead]
    if overheads:
        median = max(each.median_us for each in overheads)
        most = max(each.p99_us for each in overheads)
        cores = max(each.cores for each in overheads)
        found.append(
            f"The load generator added up to {median:.0f} us to an inference (median; 99th "
            f"percentile {most:.0f} us), and kept {cores:.3f} cores busy."
        )
    return [*found, *_too_few(asked, rows)]


def _composed_rows(rows: Sequence[Row]) -> str:
    """The rows beside which whole models were measured, in words."""
    sources = {each.predicted for each in rows if each.composed and each.measured}
    names = {False: "bricks", True: "predictions"}
    return " and ".join(names[each] for each in sorted(sources))


_MEANINGS = {
    Scenario.OFFLINE: "All samples are there at the start; latencies are for one inference.",
    Scenario.SERVER: "Queries arrive by a Poisson process, at the highest rate whose 99th "
    "percentile is within the bound.",
    Scenario.SINGLE_STREAM: "One query of one sample after another: one instance is busy.",
    Scenario.MULTI_STREAM: "One query of eight samples after another; the last sample counts.",
}


def _too_few(asked: LoadRequest, rows: Sequence[Row]) -> Iterator[str]:
    share = PATTERNS[asked.scenario].percentile
    measured = [row.measured.answer for row in rows if row.measured]
    if share is not None and any(each and each.early_stopping_ms is None for each in measured):
        yield (
            f"Some runs had fewer than the {queries_needed(1, share)} queries that MLPerf's rule "
            f"of early stopping needs; {argument('duration_s')} makes them longer."
        )


_AMOUNTS: Mapping[str, str] = {
    "hypervisor-took-time": "share",
    "others-used-cpus": "used",
    "quota-stopped-container": "seconds",
}
"""Value that says how strong a disturbance was, by the code of its note."""


def warnings(result: UnderLoad) -> list[Note]:
    """Distinct disturbances of the machine, each with its n x m."""
    found = (note.about(str(row.placement)) for row in _rows(result) for note in row.warnings)
    return list(dict.fromkeys(found))


def _strongest(notes: Iterable[Note]) -> list[Note]:
    """Distinct notes; of those that differ in an amount alone, the one with the largest."""
    alike: dict[object, list[Note]] = {}
    for each in dict.fromkeys(notes):
        kind = (each.code, each.severity) if each.code in _AMOUNTS else each
        alike.setdefault(kind, []).append(each)
    found = []
    for same in alike.values():
        worst = max(same, key=_amount)
        more = f", and as much or less in {len(same) - 1} more" if len(same) > 1 else ""
        found.append(replace(worst, subject=f"{worst.subject}{more}"))
    return found


def _amount(note: Note) -> float:
    """How strong a disturbance was; 0 where its kind has no amount."""
    amount = note.values.get(_AMOUNTS.get(note.code, ""), 0)
    return amount if isinstance(amount, int | float) else 0


def _rows(result: UnderLoad) -> list[Row]:
    return [row for model in result.models for row in model.rows]
