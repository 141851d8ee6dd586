"""A study as a self-contained HTML page: the paper's plots for any models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from dlbricks_core.figures.figure import interval
from dlbricks_core.report import analysis as counts
from dlbricks_core.report.analysis_html import all_types_plot, heat_map, types_plot, unique_plot
from dlbricks_core.report.evaluation import TOLERANCES, percent
from dlbricks_core.report.plots import Curve, Point, all_around_one, curves, dots
from dlbricks_core.report.study_published import MODELS, PAPER, Published, comparable, published
from dlbricks_core.report.study_tables import TABLES, definitions, totals
from dlbricks_core.report.study_ways import (
    Span,
    absent,
    failures,
    finest,
    label,
    remarks,
    ways,
)
from dlbricks_core.report.templating import page
from dlbricks_core.report.terminal import alike
from dlbricks_core.workflows import Evaluation, LoadOptions, ModelResult, Study

_DEEPEST = 45
"""How much of a colour the background of a table's cell takes at most, in percent."""

_FARTHEST = 0.5
"""Relative error that gets the deepest colour."""


def study_page(study: Study, load: LoadOptions | None = None) -> str:
    """A study as an HTML page.

    Args:
        study: What was found out.
        load: What was said about how models are read.
    """
    result = study.default.result
    return page(
        "study.html",
        {result.context.backend.name: result},
        load,
        study=study,
        span=Span.of(study),
        analysis=study.analysis,
        counts=counts,
        percent=percent,
        tolerances=TOLERANCES,
        ways=[(label(way, study), way) for way in ways(study)],
        finest=finest(study),
        definitions=definitions,
        totals=list(totals(study)),
        interval_of=interval,
        shades=_shades(study),
        plots=_plots(study),
        published=lambda figure: published(study, figure),
        comparable=comparable(study),
        paper=PAPER,
        paper_models=MODELS,
        absent=absent(study),
        warnings=remarks(study),
        notes=counts.notes(study.analysis),
        failures=alike(failures(study)),
        files=[f"{name}.csv" for name in TABLES],
    )


def _plots(study: Study) -> dict[str, Markup | None]:
    """Those of all sections; ``None`` where there is nothing to draw."""
    several = len(study.analysis.models) > 1
    return {
        "totals": _totals_plot(study),
        "unique": unique_plot(study.analysis.models),
        "types": types_plot(study.analysis),
        "all_types": all_types_plot(study.analysis.repetition) if several else None,
        "similarity": heat_map(study.analysis.similarity),
        "latency": _latency_plot(study.default.result.models),
        "normalized": _normalized_plot(study),
        "means": _means_plot(study),
        "errors": _errors_plot(study),
        "shares": _shares_plot(study),
        "speedups": _speedups_plot(study),
    }


def _totals_plot(study: Study) -> Markup | None:
    way = finest(study)
    if not way.models:
        return None
    parallel = [each.model.parallel.value for each in way.models]
    return all_around_one(
        "totals",
        [each.name for each in way.models],
        {
            "sequential total": [Point(each.normalized) for each in way.models],
            "parallel total": [
                None if ms is None else Point(ms / each.measured_ms)
                for ms, each in zip(parallel, way.models, strict=True)
            ],
        },
        "total latency / measured (1: they agree)",
        "Sequential and parallel total latency of every model, over its measured latency",
    )


def _latency_plot(models: Sequence[ModelResult]) -> Markup | None:
    shown = [(m.cut.model.name, m.measured) for m in models if m.measured and m.measured.value > 0]
    if not shown:
        return None
    points = [Point(latency.value, interval(latency.replicates)) for _, latency in shown]
    return dots(
        "latency",
        [name for name, _ in shown],
        {"measured": points},
        "end-to-end latency in ms",
        "End-to-end latency of every model, with its 90% interval",
    )


def _normalized_plot(study: Study) -> Markup | None:
    """The smallest and the largest granularity, and our own; the table has them all."""
    ends = {min(study.by_granularity), max(study.by_granularity)}
    shown = [*(study.by_granularity[end] for end in sorted(ends)), *study.by_composer.values()]
    rows = [i for i, models in enumerate(_by_model(study)) if any(m.normalized for m in models)]
    if not rows:
        return None
    return all_around_one(
        "normalized",
        [study.default.result.models[row].cut.model.name for row in rows],
        {label(way, study): [_point(way.result.models[row]) for row in rows] for way in shown},
        "estimate / measured (1: they agree)",
        "Normalized latency of every model with its interval, and bands of ±5% and ±10%",
        bands=TOLERANCES,
    )


def _by_model(study: Study) -> list[tuple[ModelResult, ...]]:
    """For each model what every way says about it."""
    return list(zip(*(way.result.models for way in ways(study)), strict=True))


def _point(model: ModelResult) -> Point | None:
    if model.normalized is None or model.measured is None:
        return None
    low, high = model.estimate.interval or (None, None)
    measured = model.measured.value
    if low is None or high is None:
        return Point(model.normalized)
    return Point(model.normalized, (low / measured, high / measured))


def _curve(study: Study, figure: Callable[[Evaluation], float | None]) -> Curve | None:
    """A figure of the paper's way, by granularity."""
    found = {g: figure(way) for g, way in study.by_granularity.items()}
    values = {g: value for g, value in found.items() if value is not None}
    return Curve(values) if values else None


def _lines(
    study: Study, figure: Callable[[Evaluation], float | None], more: str = ""
) -> dict[str, Curve | None]:
    """A figure of the paper's way by granularity, and as levels that of our own composers."""
    found: dict[str, Curve | None] = {f"sequential{more}": _curve(study, figure)}
    for name, way in study.by_composer.items():
        value = figure(way)
        found[f"{name}{more}"] = None if value is None else Curve({0: value}, level=True)
    return found


def _paper(study: Study, figure: int, what: str, more: str = "") -> dict[str, Curve | None]:
    """What the paper says about it, at a granularity of 1."""
    return {
        f"paper{more}, {each.where.split(',')[0]}": Curve({1: _scaled(each)}, joined=False)
        for each in published(study, figure)
        if each.what.startswith(what)
    }


def _scaled(each: Published) -> float:
    """As the plots show it: shares and errors in percent."""
    return 100 * each.value if each.figure == 11 and "mean of" not in each.what else each.value


def _drawn(
    name: str, series: dict[str, Curve | None], unit: str, title: str, reference: float | None
) -> Markup | None:
    present = {label: curve for label, curve in series.items() if curve is not None}
    if not any(curve.joined and not curve.level for curve in present.values()):
        return None
    return curves(name, present, "granularity G: the most layers of a brick", unit, title,
                  reference)  # fmt: skip


def _means_plot(study: Study) -> Markup | None:
    def mean(way: Evaluation) -> float | None:
        return way.geometric_mean

    return _drawn(
        "means",
        {
            **_lines(study, mean),
            **_paper(study, 11, "geometric mean of"),
        },
        "geometric mean (1: they agree)",
        "Geometric mean of the normalized latencies by granularity",
        1.0,
    )


def _errors_plot(study: Study) -> Markup | None:
    def error(way: Evaluation) -> float | None:
        return None if way.mape is None else 100 * way.mape

    return _drawn(
        "mape",
        {
            **_lines(study, error),
            **_paper(study, 11, "mean absolute error"),
        },
        "mean absolute error in %",
        "Mean absolute error of the models by granularity",
        0.0,
    )


def _shares_plot(study: Study) -> Markup | None:
    series: dict[str, Curve | None] = {}
    for tolerance in TOLERANCES:
        series |= _lines(study, _share(tolerance), f", ±{tolerance:.0%}")
    series |= _paper(study, 11, "models within ±10%", ", ±10%")
    return _drawn(
        "shares",
        series,
        "% of the models",
        "Share of the models within ±5% and ±10%, by granularity",
        None,
    )


def _share(tolerance: float) -> Callable[[Evaluation], float | None]:
    def share(way: Evaluation) -> float | None:
        within = way.within(tolerance)
        return None if within is None else 100 * within

    return share


def _speedups_plot(study: Study) -> Markup | None:
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


def _speedup(definition: str) -> Callable[[Evaluation], float | None]:
    def speedup(way: Evaluation) -> float | None:
        found = definitions(way)[definition]
        return found.speedup if found else None

    return speedup


@dataclass(frozen=True)
class _Shade:
    """A cell of a table; the deeper its colour, the farther the value is from 1."""

    value: float | None

    @property
    def text(self) -> str:
        return "–" if self.value is None else f"{self.value:.2f}"

    @property
    def style(self) -> str:
        """Too low and too high have a colour each."""
        if self.value is None:
            return ""
        colour = "--series-0" if self.value < 1 else "--series-1"
        depth = _DEEPEST * min(abs(self.value - 1) / _FARTHEST, 1)
        return f"background: color-mix(in srgb, var({colour}) {depth:.0f}%, transparent)"


def _shades(study: Study) -> list[tuple[str, list[_Shade]]]:
    """Normalized latencies: a row for each model, a cell for each way."""
    return [
        (models[0].cut.model.name, [_Shade(model.normalized) for model in models])
        for models in _by_model(study)
    ]
