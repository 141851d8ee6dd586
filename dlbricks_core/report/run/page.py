"""Results as self-contained HTML pages: nothing is fetched when they are opened."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from markupsafe import Markup

from dlbricks_core.figures.ranking import Cost
from dlbricks_core.report.comparison import terminal as words
from dlbricks_core.report.evaluation.terminal import TOLERANCES, percent, speedup_lines
from dlbricks_core.report.html.plots import Point, around_one, bars, cumulative, dots
from dlbricks_core.report.html.templating import page
from dlbricks_core.workflows import (
    BrickComparison,
    BrickResult,
    Comparison,
    Evaluation,
    Failure,
    LoadOptions,
    ModelResult,
    RunResult,
)

_ROWS = 20
"""Bars or rows of dots that a plot shows at most; tables show everything."""


def run_page(result: RunResult, load: LoadOptions | None = None) -> str:
    """A run or an estimate as an HTML page.

    Args:
        result: What was found out.
        load: What was said about how models are read.
    """
    bricks = sorted(result.bricks, key=_weight, reverse=True)
    shares = _shares(bricks)
    return page(
        "run/page.html",
        {result.request.backend.name: result},
        load,
        result=result,
        bricks=bricks,
        weight=_weight,
        remarks=_remarks,
        total=sum(map(_weight, bricks)),
        shares=shares,
        normalized_plot=_normalized_plot(result.models),
        share_plot=_share_plot(shares),
        warnings=_warnings(result.outcome.warnings, {"": result}),
        notes=_notes(result),
        failures=_alike((f.model, f) for f in result.failures),
    )


def comparison_page(result: Comparison, load: LoadOptions | None = None) -> str:
    """A comparison as an HTML page; arguments as for :func:`run_page`."""
    bricks = sorted(result.bricks, key=words.weight, reverse=True)
    return page(
        "comparison/page.html",
        result.runs,
        load,
        result=result,
        bricks=bricks,
        verdict=words.verdict,
        margin=words.margin,
        models_plot=_models_plot(result),
        operators_plot=_operators_plot(result),
        bricks_plot=_bricks_plot(bricks[:_ROWS], result.runs),
        warnings=_warnings(words.warnings(result), result.runs),
        notes=words.notes(result),
        failures=_alike((f.place, f.failure) for f in result.failures),
    )


def evaluation_page(evaluation: Evaluation, load: LoadOptions | None = None) -> str:
    """An evaluation as an HTML page; arguments as for :func:`run_page`."""
    result = evaluation.result
    return page(
        "evaluation/page.html",
        {result.request.backend.name: result},
        load,
        evaluation=evaluation,
        tolerances=TOLERANCES,
        percent=percent,
        speedups=speedup_lines(evaluation.speedups),
        normalized_plot=_normalized_plot((each.model for each in evaluation.models), TOLERANCES),
        errors_plot=_errors_plot(evaluation),
        warnings=_warnings(result.outcome.warnings, {"": result}),
        notes=_notes(result),
        failures=_alike((f.model, f) for f in result.failures),
    )


def _alike(failures: Iterable[tuple[str, Failure]]) -> list[tuple[str, str]]:
    """Where and why things failed; what failed in one place for one reason is together."""
    alike: dict[tuple[str, str], list[str]] = {}
    for place, failure in failures:
        alike.setdefault((place, failure.reason), []).append(failure.what)
    return [
        (f"{place}: {', '.join(whats)}" if place else ", ".join(whats), reason)
        for (place, reason), whats in alike.items()
    ]


def _warnings(disturbances: Iterable[str], runs: Mapping[str, RunResult]) -> list[str]:
    found = [f"{text} while measuring" for text in disturbances]
    for name, run in runs.items():
        doubtful = sum(bool(each.warnings) for each in run.bricks)
        if doubtful:
            where = f" on {name}" if name else ""
            found.append(
                f"samples of {doubtful} of {len(run.bricks)} bricks{where} scatter widely or are "
                "very short"
            )
    return found


def _notes(result: RunResult) -> list[str]:
    of_models = [f"{m.cut.model.name}: {note}" for m in result.models for note in m.notes]
    return [*result.outcome.notes, *of_models]


def _remarks(each: BrickResult) -> list[str]:
    """Where a brick's latency is from, if not from its own samples, and what is doubtful."""
    tellers = " and ".join(signature[:8] for signature in each.derived_from)
    found = [
        f"not timed: told by {tellers}" if tellers else "",
        "" if each.occurrences else "a tile of a larger one",
        each.failure,
        *each.warnings,
    ]
    return [text for text in found if text]


def _weight(each: BrickResult) -> float:
    """What a brick takes of the models, without the timer's own cost."""
    return each.occurrences * Cost.brick(each.latency).ms if each.latency else 0.0


def _shares(bricks: Iterable[BrickResult]) -> dict[str, float]:
    """By operators: their share of the sum over all measured bricks; the largest first."""
    totals: dict[str, float] = {}
    for each in bricks:
        if each.latency is None:
            continue
        name = ", ".join(each.brick.operators)
        totals[name] = totals.get(name, 0.0) + _weight(each)
    whole = sum(totals.values())
    if not whole:
        return {}
    return {n: t / whole for n, t in sorted(totals.items(), key=lambda item: -item[1])}


def _normalized_plot(models: Iterable[ModelResult], bands: Sequence[float] = ()) -> Markup | None:
    shown = [(m, value) for m in models if (value := m.normalized) is not None]
    if not shown:
        return None
    shaded = f" and bands of {' and '.join(f'±{band:.0%}' for band in bands)}" if bands else ""
    return around_one(
        "normalized",
        [model.cut.model.name for model, _ in shown],
        [Point(value, model.normalized_interval) for model, value in shown],
        "estimate / measured (1: they agree)",
        f"Normalized latency of every model, with its 90% interval{shaded}",
        bands,
    )


def _errors_plot(evaluation: Evaluation) -> Markup | None:
    if not evaluation.models:
        return None
    return cumulative(
        "errors",
        [100 * abs(error) for error in evaluation.errors],
        "absolute error in % of the measured latency",
        "Cumulative distribution of the absolute error over the models",
        marks=[100 * tolerance for tolerance in TOLERANCES],
    )


def _share_plot(shares: Mapping[str, float]) -> Markup | None:
    if not shares:
        return None
    shown = list(shares.items())[:_ROWS]
    return bars(
        "shares",
        [name for name, _ in shown],
        {"share": [Point(100 * share) for _, share in shown]},
        "% of the sum over all measured bricks",
        "Share of each operator in the sum over all bricks",
    )


def _models_plot(result: Comparison) -> Markup | None:
    shown = [model for model in result.models if model.ranking.costs]
    if not shown:
        return None
    series: dict[str, list[Point | None]] = {
        backend: [_point(model.ranking.costs.get(backend)) for model in shown]
        for backend in result.runs
    }
    series["ideal (bound)"] = [
        None if m.ideal.value is None or m.ideal.partial else Point(m.ideal.value, m.ideal.interval)
        for m in shown
    ]
    return dots(
        "models",
        [model.cut.model.name for model in shown],
        series,
        "end-to-end latency in ms",
        "End-to-end latency of every model on every backend, with 90% intervals",
    )


def _operators_plot(result: Comparison) -> Markup | None:
    shown = [o for o in result.operators if any(o.totals_ms.values())][:_ROWS]
    if not shown:
        return None
    return bars(
        "operators",
        [", ".join(each.operators) for each in shown],
        {
            backend: [None if (t := o.totals_ms[backend]) is None else Point(t) for o in shown]
            for backend in result.runs
        },
        "total in ms over all models",
        "Total latency of each operator type on every backend",
    )


def _bricks_plot(bricks: Iterable[BrickComparison], backends: Iterable[str]) -> Markup | None:
    shown = [each for each in bricks if any(c.ms for c in each.ranking.costs.values())]
    if not shown:
        return None
    return dots(
        "bricks",
        [f"{', '.join(b.brick.operators)} {b.brick.signature[:8]}" for b in shown],
        {name: [_point(b.ranking.costs.get(name)) for b in shown] for name in backends},
        "latency in ms",
        "Latency of the bricks that take most, on every backend, with 90% intervals",
    )


def _point(cost: Cost | None) -> Point | None:
    # Nothing is no place on a logarithmic axis; the table says it.
    return Point(cost.ms, cost.interval_ms) if cost and cost.ms > 0 else None
