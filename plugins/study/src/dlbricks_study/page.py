"""Studies as a self-contained HTML page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dlbricks_accuracy.report import TOLERANCES, percent
from dlbricks_pages.html.plots import Curve, Point, all_around_one, curves, dots
from dlbricks_pages.html.templating import (
    Cell,
    Fact,
    PageTable,
    page,
    page_table,
    reading_options,
)
from markupsafe import Markup

from dlbricks_core.compose.options import DEFAULT_COMPOSER
from dlbricks_core.report.notes import texts
from dlbricks_core.report.remarks import Effect, Remark
from dlbricks_core.report.tables import interval_text, value_text
from dlbricks_core.wording import count
from dlbricks_study import repeats
from dlbricks_study.record import ModelRecord, StudyRecord, WayRecord
from dlbricks_study.report import TABLES, answer, failures, subject, totals


def within(tolerance: float) -> str:
    """Name in the JSON file of the share of models within a tolerance."""
    return f"within_{100 * tolerance:.0f}_percent"


def all_plots(study: StudyRecord) -> dict[str, Markup | None]:
    """Plots of all sections by name; ``None`` where there is nothing to draw."""
    several = len(study.models) > 1
    return {
        "totals": _totals_plot(study),
        "unique": repeats.unique_plot(study.models),
        "types": repeats.types_plot(study.models, study.repetition),
        "all_types": repeats.all_types_plot(study.repetition) if several else None,
        "similarity": repeats.heat_map(study.similarity),
        "latency": _latency_plot(study.models),
        "normalized": _normalized_plot(study),
        "means": _means_plot(study),
        "errors": _errors_plot(study),
        "shares": _shares_plot(study),
        "speedups": _speedups_plot(study),
    }


def _totals_plot(study: StudyRecord) -> Markup | None:
    way = study.finest
    if not way.models:
        return None
    return all_around_one(
        "totals",
        [each["name"] for each in way.models],
        {
            "sequential total": [Point(each["normalized"]) for each in way.models],
            "parallel total": [
                Point(each["parallel_estimate"] / each["measured"]) for each in way.models
            ],
        },
        "total latency / measured (1: they agree)",
        "Sequential and parallel total latency of every model, over its measured latency",
    )


def _latency_plot(models: Sequence[ModelRecord]) -> Markup | None:
    points = {m.name: Point(m.measured_ms, m.interval_ms) for m in models if m.measured_ms}
    if not points:
        return None
    return dots(
        "latency",
        list(points),
        {"measured": list(points.values())},
        "end-to-end latency in ms",
        "End-to-end latency of every model, with its 90% interval",
    )


def _normalized_plot(study: StudyRecord) -> Markup | None:
    """Plot of the smallest and the largest granularity, and of our own composers."""
    coarsest = max(study.of_paper, key=lambda way: way.granularity)
    shown = {way.label: way for way in (study.finest, coarsest, *study.own)}
    models = [each for each in study.models if any(way.of(each) for way in study.ways)]
    if not models:
        return None
    return all_around_one(
        "normalized",
        [each.name for each in models],
        {label: [_point(way, each) for each in models] for label, way in shown.items()},
        "estimate / measured (1: they agree)",
        "Normalized latency of every model with its interval, and bands of ±5% and ±10%",
        bands=TOLERANCES,
    )


def _point(way: WayRecord, model: ModelRecord) -> Point | None:
    found = way.of(model)
    if found is None:
        return None
    low, high = found["interval"] or (None, None)
    measured = found["measured"]
    if low is None or high is None:
        return Point(found["normalized"])
    return Point(found["normalized"], (low / measured, high / measured))


_Figure = Callable[[WayRecord], float | None]


def _curve(study: StudyRecord, figure: _Figure) -> Curve | None:
    """A figure of the paper's way, by granularity."""
    found = {way.granularity: figure(way) for way in study.of_paper}
    values = {g: value for g, value in found.items() if value is not None}
    return Curve(values) if values else None


def _lines(study: StudyRecord, figure: _Figure, more: str = "") -> dict[str, Curve | None]:
    """A figure of the paper's way by granularity, and as levels that of our own composers."""
    found: dict[str, Curve | None] = {f"sequential{more}": _curve(study, figure)}
    for way in study.own:
        value = figure(way)
        found[f"{way.label}{more}"] = None if value is None else Curve({0: value}, level=True)
    return found


def _paper(study: StudyRecord, figure: int, what: str, more: str = "") -> dict[str, Curve | None]:
    """Published values of a figure, at a granularity of 1."""
    return {
        f"paper{more}, {each['where'].split(',')[0]}": Curve({1: _scaled(each)}, joined=False)
        for each in study.published(figure)
        if each["what"].startswith(what)
    }


def _scaled(each: Mapping[str, Any]) -> float:
    """A value in the unit of the plots: shares and errors in percent."""
    percents = each["figure"] == 11 and "mean of" not in each["what"]
    return float(100 * each["value"] if percents else each["value"])


def _drawn(
    name: str, series: dict[str, Curve | None], unit: str, title: str, reference: float | None
) -> Markup | None:
    present = {label: curve for label, curve in series.items() if curve is not None}
    if not any(curve.joined and not curve.level for curve in present.values()):
        return None
    return curves(name, present, "granularity G: the most layers of a brick", unit, title,
                  reference)  # fmt: skip


def _named(name: str, scale: float = 1) -> _Figure:
    """Function that reads a figure by its name in the JSON file."""

    def figure(way: WayRecord) -> float | None:
        value = way.data[name]
        return None if value is None else float(scale * value)

    return figure


def _means_plot(study: StudyRecord) -> Markup | None:
    return _drawn(
        "means",
        {**_lines(study, _named("geometric_mean")), **_paper(study, 11, "geometric mean of")},
        "geometric mean (1: they agree)",
        "Geometric mean of the normalized latencies by granularity",
        1.0,
    )


def _errors_plot(study: StudyRecord) -> Markup | None:
    return _drawn(
        "mape",
        {**_lines(study, _named("mape", 100)), **_paper(study, 11, "mean absolute error")},
        "mean absolute error in %",
        "Mean absolute error of the models by granularity",
        0.0,
    )


def _shares_plot(study: StudyRecord) -> Markup | None:
    series: dict[str, Curve | None] = {}
    for tolerance in TOLERANCES:
        series |= _lines(study, _named(within(tolerance), 100), f", ±{tolerance:.0%}")
    series |= _paper(study, 11, "models within ±10%", ", ±10%")
    return _drawn(
        "shares",
        series,
        "% of the models",
        "Share of the models within ±5% and ±10%, by granularity",
        None,
    )


def _speedups_plot(study: StudyRecord) -> Markup | None:
    series: dict[str, Curve | None] = {}
    for definition, title in (("paper", "one run each"), ("wall_clock", "wall-clock")):
        series |= _lines(study, _speedup_plot(definition), f", {title}")
    series |= _paper(study, 12, "benchmarking speedup")
    return _drawn(
        "speedups",
        series,
        "benchmarking speedup",
        "Benchmarking speedup by granularity, in both definitions",
        1.0,
    )


def _speedup_plot(definition: str) -> _Figure:
    def speedup(way: WayRecord) -> float | None:
        found = way.speedups[definition]
        return found["speedup"] if found else None

    return speedup


_DEEPEST = 45
"""Maximum percentage of a colour in a cell's background."""

_FARTHEST = 0.5
"""Relative error with the deepest colour."""

_WITHIN = [f"% within ±{100 * tolerance:.0f}%" for tolerance in TOLERANCES]


def all_tables(study: StudyRecord) -> dict[str, PageTable]:
    """Tables of all sections by name."""
    return {
        "short": _short(study),
        "totals": _totals(study),
        "layers": _layers(study),
        "types": repeats.types_table(study.repetition),
        "similarity": repeats.similarity_table(study.similarity),
        "latency": _latency(study),
        "normalized": _normalized(study),
        "granularities": _granularities(study),
        "speedups": _speedups(study),
    }


def published_tables(study: StudyRecord) -> dict[int, PageTable]:
    """Published numbers beside the study's own, by the paper's figure; empty for other models."""
    found = study.data["published"]
    if not found:
        return {}
    number = found.get("models")
    caption = (
        f"The paper's own figures are of {number} models, those here of {len(study.models)} of "
        "them."
        if number
        else "The paper's own figures beside those of this study."
    )
    return {
        figure: page_table(
            ("", "Where", "Paper", "Here"),
            [
                [each["what"], each["where"] or "–", each["paper"], each["ours_text"]]
                for each in study.published(figure)
            ],
            caption,
            words=["Where"],
            names_wrap=True,
        )
        for figure in dict.fromkeys(each["figure"] for each in found["figures"])
    }


def _short(study: StudyRecord) -> PageTable:
    return page_table(
        ["Bricks", "Timed bricks", "Geometric mean", "MAPE in %", *_WITHIN, "Speedup",
         "Wall-clock"],
        [
            [
                way.label,
                f"{way.data['timed_bricks']:,}",
                _number(way.data["geometric_mean"]),
                _percent(way.data["mape"]),
                *(_percent(way.data[within(tolerance)], ".0f") for tolerance in TOLERANCES),
                _speedup(way.speedups["paper"]),
                _speedup(way.speedups["wall_clock"]),
            ]
            for way in study.ways
        ],
        "Estimate over measured latency, over the models. Speedup: one run of each model over one "
        "run of each unique brick, as the paper defines it; wall-clock: seconds that were spent, "
        "loading included.",
    )  # fmt: skip


def _totals(study: StudyRecord) -> PageTable:
    return page_table(
        ["Model", "Measured", "Sequential", "Parallel", "Sequential / measured",
         "Parallel / measured"],
        [
            [
                str(row["model"]),
                *(_ms(row[name]) for name in ("measured_ms", "sequential_ms", "parallel_ms")),
                _number(row["sequential_normalized"]),
                _number(row["parallel_normalized"]),
            ]
            for row in totals(study)
        ],
        "Latencies in ms.",
    )  # fmt: skip


def _layers(study: StudyRecord) -> PageTable:
    counts = [(each.name, each.repetition.total) for each in study.models]
    return page_table(
        ["Model", "Layers", "Unique", "Share"],
        [
            [name, f"{count.layers:,}", f"{count.unique:,}", repeats.share(count)]
            for name, count in [*counts, ("all", study.repetition.total)]
        ],
    )


def _latency(study: StudyRecord) -> PageTable:
    return page_table(
        ["Model", "Measured", "90% interval", "Runs"],
        [
            [each.name, _ms(each.measured_ms), interval_text(each.interval_ms), str(each.runs)]
            for each in study.models
        ],
        "Latencies in ms.",
    )


def _normalized(study: StudyRecord) -> PageTable:
    return page_table(
        ["Model", *(way.label for way in study.ways)],
        [
            [
                model.name,
                *(_Shade((way.of(model) or {}).get("normalized")).cell for way in study.ways),
            ]
            for model in study.models
        ],
        "Every granularity of the paper's composer, and our own composers. The deeper the colour "
        "of a cell, the farther it is from 1.",
    )


def _granularities(study: StudyRecord) -> PageTable:
    return page_table(
        ["Bricks", "Models", "Geometric mean", "MAPE in %", *_WITHIN, "% covered", "Worst",
         "Model"],
        [
            [
                way.label,
                str(len(way.models)),
                _number(way.data["geometric_mean"]),
                _percent(way.data["mape"], ".2f"),
                *(_percent(way.data[within(tolerance)], ".0f") for tolerance in TOLERANCES),
                _percent(way.data["coverage"], ".0f"),
                percent(worst["error"]) if worst else "–",
                worst["name"] if worst else "–",
            ]
            for way in study.ways
            for worst in [way.data["worst"]]
        ],
        "Errors are relative to the measured latency. Covered: intervals that hold it.",
        words=["Model"],
    )  # fmt: skip


def _speedups(study: StudyRecord) -> PageTable:
    return page_table(
        ["Bricks", "Timed bricks", "Models, one run", "Bricks, one run", "Speedup",
         "Models, wall-clock", "Bricks, wall-clock", "Wall-clock speedup"],
        [
            [way.label, f"{way.data['timed_bricks']:,}", *_costs(way.speedups.values())]
            for way in study.ways
        ],
        "Times in seconds. One run: of each network, as the paper defines it.",
    )  # fmt: skip


def _costs(speedups: Iterable[Mapping[str, float] | None]) -> list[str]:
    found = []
    for each in speedups:
        if each:
            found += [f"{each['models_s']:.4g}", f"{each['bricks_s']:.4g}", _speedup(each)]
        else:
            found += ["–", "–", "–"]
    return found


def _number(value: Any) -> str:
    return "–" if value is None else f"{value:.3f}"


def _percent(value: float | None, style: str = ".1f") -> str:
    return "–" if value is None else format(100 * value, style)


def _ms(value: Any) -> str:
    return value_text(None if value is None else float(value))


def _speedup(found: Mapping[str, float] | None) -> str:
    return f"{found['speedup']:.2f}" if found else "–"


@dataclass(frozen=True)
class _Shade:
    """A cell of a table; the deeper its colour, the farther the value is from 1."""

    value: float | None

    @property
    def cell(self) -> Cell:
        """The cell."""
        return Cell("–" if self.value is None else f"{self.value:.2f}", style=self.style)

    @property
    def style(self) -> str:
        """Style of the cell, with different colours for low and high values."""
        if self.value is None:
            return ""
        colour = "--series-0" if self.value < 1 else "--series-1"
        depth = _DEEPEST * min(abs(self.value - 1) / _FARTHEST, 1)
        return f"background: color-mix(in srgb, var({colour}) {depth:.0f}%, transparent)"


def study_page(study: StudyRecord) -> str:
    """A study as an HTML page."""
    first, *more = answer(study)
    rest = first.removeprefix(f"{subject(study)}: ")
    return page(
        "page.html",
        package="dlbricks_study",
        title=f"Study of {subject(study)}",
        answer=[f"{rest[:1].upper()}{rest[1:]}", *more],
        facts=_facts(study),
        remarks=[Remark(Effect.WARNING, text) for text in texts(study.data["notes"])],
        failures=failures(study),
        study=study,
        plots=all_plots(study),
        tables=all_tables(study),
        published=published_tables(study),
        left_out=study.data["left_out"],
        files=[f"{name}.csv" for name in TABLES],
    )


def _facts(study: StudyRecord) -> list[Fact]:
    """Facts about how the study was made."""
    backend, system, settings = (study.data[name] for name in ("backend", "system", "settings"))
    options = "".join(f", {name}={value}" for name, value in backend["settings"].items())
    call_ms = study.data["timer"]["call_ms"]
    timer = f"; timer {1e3 * call_ms:.1f} µs a call, taken off each brick" if call_ms else ""
    found = [
        ("Backend", f"{backend['name']} {backend['version']}{options}{timer}"),
        ("System", f"{system['description']} (fingerprint {system['fingerprint']})"),
    ]
    if system["measured_on"] != system["fingerprint"]:
        found.append(("Measured on", f"another system, fingerprint {system['measured_on']}"))
    read = f"{reading_options(study.load)}; " if study.load else ""
    found.append(
        (
            "Measuring",
            f"{settings['protocol']} protocol: {settings['statistic']}, "
            f"{count(settings['runs'], 'run')}; {count(settings['threads'], 'thread')}; {read}"
            f"seed {settings['seed']}",
        )
    )
    granularities = ", ".join(str(way.granularity) for way in study.of_paper)
    own = ", ".join(
        f"composer {way.label}{' (the default)' if way.label == DEFAULT_COMPOSER else ''} with "
        f"split {way.data['split']}"
        for way in study.own
    )
    bricks = f"the paper's: chains of at most G = {granularities} layers, composer sequential"
    found.append(("Bricks", f"{bricks}; DLBricks' own: {own}"))
    if study.span:
        when = f"{study.span}, in {count(study.span.sessions, 'session')}"
        found.append(("Measured", when))
    return found
