"""The paper's plots for any models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from dlbricks_core.report.analysis.page import all_types_plot, heat_map, types_plot, unique_plot
from dlbricks_core.report.evaluation.words import TOLERANCES
from dlbricks_core.report.html.plots import Curve, Point, all_around_one, curves, dots
from dlbricks_core.report.study.record import ModelRecord, StudyRecord, WayRecord


def within(tolerance: float) -> str:
    """Name in the JSON file of the share of models within a tolerance."""
    return f"within_{100 * tolerance:.0f}_percent"


def all_plots(study: StudyRecord) -> dict[str, Markup | None]:
    """Plots of all sections by name; ``None`` where there is nothing to draw."""
    several = len(study.models) > 1
    return {
        "totals": _totals_plot(study),
        "unique": unique_plot(study.models),
        "types": types_plot(study.models, study.repetition),
        "all_types": all_types_plot(study.repetition) if several else None,
        "similarity": heat_map(study.similarity),
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
                Point(each["parallel_estimate_ms"] / each["measured_ms"]) for each in way.models
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
    low, high = found["interval_ms"] or (None, None)
    measured = found["measured_ms"]
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
        {
            **_lines(study, _named("geometric_mean")),
            **_paper(study, 11, "geometric mean of"),
        },
        "geometric mean (1: they agree)",
        "Geometric mean of the normalized latencies by granularity",
        1.0,
    )


def _errors_plot(study: StudyRecord) -> Markup | None:
    return _drawn(
        "mape",
        {
            **_lines(study, _named("mape", 100)),
            **_paper(study, 11, "mean absolute error"),
        },
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
        series |= _lines(study, _speedup(definition), f", {title}")
    series |= _paper(study, 12, "benchmarking speedup")
    return _drawn(
        "speedups",
        series,
        "benchmarking speedup",
        "Benchmarking speedup by granularity, in both definitions",
        1.0,
    )


def _speedup(definition: str) -> _Figure:
    def speedup(way: WayRecord) -> float | None:
        found = way.speedups[definition]
        return found["speedup"] if found else None

    return speedup
