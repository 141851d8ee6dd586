"""A comparison of backends as a self-contained HTML page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from markupsafe import Markup

from dlbricks_core.bricks.naming import names, sequence_names
from dlbricks_core.figures.ranking import Cost
from dlbricks_core.report.comparison.words import (
    answer,
    margin,
    remarks,
    subject,
    verdict,
    weight,
    with_backends,
)
from dlbricks_core.report.html.plots import Point, bars, dots
from dlbricks_core.report.html.tables import Cell, Column, Table, table
from dlbricks_core.report.html.templating import between, or_dash, page, run_facts
from dlbricks_core.report.remarks import alike, are_doubtful
from dlbricks_core.report.run.page import partial, without_subject
from dlbricks_core.workflows import BrickComparison, Comparison, LoadOptions

_ROWS = 20
"""Bars or rows of dots that a plot shows at most; tables show everything."""


def comparison_page(result: Comparison, load: LoadOptions | None = None) -> str:
    """A comparison as an HTML page.

    Args:
        result: The comparison.
        load: How models were read; ``None`` if that is not known.
    """
    bricks = sorted(result.bricks, key=weight, reverse=True)
    named = names({each.brick.signature: each.brick.model for each in bricks})
    kinds = sequence_names(each.operators for each in result.operators)
    found = remarks(result)
    doubtful = are_doubtful(found)
    return page(
        "comparison/page.html",
        title=subject(result),
        answer=[without_subject(answer(result, doubtful=doubtful), subject(result))],
        facts=run_facts(result.runs, load),
        remarks=found,
        failures=alike(with_backends(result.failures)),
        number=len(bricks),
        models_plot=_models_plot(result),
        fastest=_fastest(result, doubtful),
        models=_models(result),
        operators_plot=_operators_plot(result, kinds),
        operators=_operators(result, kinds, doubtful),
        bricks_plot=_bricks_plot(bricks[:_ROWS], named, result.runs),
        bricks=_bricks(bricks, named, result.runs, doubtful),
    )


def _fastest(result: Comparison, doubtful: bool) -> Table:
    def rows() -> Iterator[list[str | Cell]]:
        for model in result.models:
            costs, winner = model.ranking.costs, model.ranking.winner
            yield [
                model.cut.model.name,
                *(_cost(costs.get(n), best=n == winner and not doubtful) for n in result.runs),
                verdict(model.ranking, doubtful=doubtful),
                margin(model.ranking.margin),
                partial(model.ideal),
                between(model.ideal.interval),
                ", ".join(f"{name} {number}" for name, number in model.picks.items()),
            ]

    return table(
        ["Model", *result.runs, Column("Fastest", is_text=True), "By", "Ideal", "90% interval",
         Column("Bricks taken", is_text=True)],
        rows(),
        "Latencies in ms, measured end to end. By: the second over the fastest, with its 90% "
        "interval; there is no clear winner where that holds 1. Ideal: sum of the bricks, each on "
        "the backend where it is fastest. Bricks taken: for how many bricks that is each backend.",
    )  # fmt: skip


def _models(result: Comparison) -> Table:
    def rows() -> Iterator[list[str | Cell]]:
        for model in result.models:
            for number, (name, each) in enumerate(model.results.items()):
                cost = model.ranking.costs.get(name)
                ratio = margin(model.ranking.ratios.get(name))
                yield [
                    Cell(model.cut.model.name, "again" if number else ""),
                    name,
                    _cost(cost),
                    between(cost.interval_ms if cost else None),
                    "1" if name == model.ranking.fastest else ratio,
                    partial(each.estimate),
                    between(each.estimate.interval),
                    "–" if each.normalized is None else f"{each.normalized:.3f}",
                ]

    return table(
        ["Model", Column("Backend", is_text=True), "Measured", "90% interval", "Ratio", "Estimate",
         "90% interval", "Estimate / measured"],
        rows(),
        "Latencies in ms. Estimate: sum of the bricks; >: bricks are missing. Ratio: this backend "
        "over the fastest, with its 90% interval from paired rounds.",
    )  # fmt: skip


def _operators(result: Comparison, kinds: Mapping[tuple[str, ...], str], doubtful: bool) -> Table:
    def rows() -> Iterator[list[str | Cell]]:
        for each in result.operators:
            yield [
                kinds[each.operators],
                str(each.occurrences),
                *(
                    Cell(
                        f"{'>' if each.missing[name] and total is not None else ''}"
                        f"{or_dash(total)}",
                        "best" if name == each.fastest and not doubtful else "",
                    )
                    for name in result.runs
                    for total in [each.totals_ms[name]]
                ),
            ]

    return table(
        ["Layers", "Number", *result.runs],
        rows(),
        "Totals in ms; the lowest is bold; >: bricks are missing.",
        names_wrap=True,
    )


def _bricks(
    bricks: Sequence[BrickComparison],
    named: Mapping[str, str],
    backends: Iterable[str],
    doubtful: bool,
) -> Table:
    shown = list(backends)

    def rows() -> Iterator[list[str | Cell]]:
        for each in bricks:
            costs, winner = each.ranking.costs, each.ranking.winner
            yield [
                named[each.brick.signature],
                Cell(each.brick.signature[:8], "code"),
                str(each.occurrences),
                *(_with_interval(costs.get(n), n == winner and not doubtful) for n in shown),
                verdict(each.ranking, doubtful=doubtful),
                margin(each.ranking.margin),
            ]

    return table(
        ["Brick", Column("Signature", is_text=True), "Occurs", *shown,
         Column("Fastest", is_text=True), "By"],
        rows(),
        "Latencies in ms with 90% intervals, without the timer's own cost; a clear winner is bold. "
        "By: the second over the fastest.",
        names_wrap=True,
    )  # fmt: skip


def _cost(cost: Cost | None, *, best: bool = False) -> Cell:
    return Cell(or_dash(cost.ms if cost else None), "best" if best else "")


def _with_interval(cost: Cost | None, best: bool) -> Cell:
    if cost is None:
        return Cell("–")
    return Cell(f"{or_dash(cost.ms)} ({between(cost.interval_ms)})", "best" if best else "")


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


def _operators_plot(result: Comparison, kinds: Mapping[tuple[str, ...], str]) -> Markup | None:
    shown = [o for o in result.operators if any(o.totals_ms.values())][:_ROWS]
    if not shown:
        return None
    return bars(
        "operators",
        [kinds[each.operators] for each in shown],
        {
            backend: [None if (t := o.totals_ms[backend]) is None else Point(t) for o in shown]
            for backend in result.runs
        },
        "total in ms over all models",
        "Total latency of each operator type on every backend",
    )


def _bricks_plot(
    bricks: Iterable[BrickComparison], named: Mapping[str, str], backends: Iterable[str]
) -> Markup | None:
    shown = [each for each in bricks if any(c.ms for c in each.ranking.costs.values())]
    if not shown:
        return None
    return dots(
        "bricks",
        [named[b.brick.signature] for b in shown],
        {name: [_point(b.ranking.costs.get(name)) for b in shown] for name in backends},
        "latency in ms",
        "Latency of the bricks that take most, on every backend, with 90% intervals",
    )


def _point(cost: Cost | None) -> Point | None:
    # Nothing is no place on a logarithmic axis; the table says it.
    return Point(cost.ms, cost.interval_ms) if cost and cost.ms > 0 else None
