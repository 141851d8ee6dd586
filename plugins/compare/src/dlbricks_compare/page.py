"""Comparisons of backends as a self-contained HTML page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dlbricks_pages.html.plots import Point, dots
from dlbricks_pages.html.templating import (
    Cell,
    PageTable,
    page,
    page_table,
    run_facts,
)
from dlbricks_pages.run import without_subject
from markupsafe import Markup

from dlbricks_compare import report
from dlbricks_compare.comparison import Comparison, ModelComparison
from dlbricks_core.bricks.naming import names
from dlbricks_core.figures.figure import Cost
from dlbricks_core.importers import LoadOptions
from dlbricks_core.report.heading import quantity_name
from dlbricks_core.report.remarks import alike
from dlbricks_core.report.tables import estimate_text, interval_text, ms, ratio_text, value_text

_ROWS = 20  #: Maximum rows of dots in a plot; tables show all rows.


def comparison_page(result: Comparison, load: LoadOptions | None = None) -> str:
    """A comparison as an HTML page."""
    named = names({each.brick.signature: each.brick.model for each in result.parts})
    return page(
        "page.html",
        package="dlbricks_compare",
        title=report.subject(result),
        answer=[
            *report.unfit(result),
            without_subject(report.answer(result), report.subject(result)),
        ],
        facts=run_facts(result.runs, load),
        remarks=report.remarks(result),
        failures=alike(report.with_backends(result.failures)),
        noun=quantity_name(result.quantity),
        is_latency=result.any_run.request.metric is None,
        models_plot=_models_plot(result),
        fastest=_fastest(result),
        models=_models(result),
        parts_plot=_parts_plot(result, named),
        parts=_parts(result, named),
    )


def _fastest(result: Comparison) -> PageTable:
    def rows() -> Iterator[list[str | Cell]]:
        for model in result.models:
            costs, winner = model.ranking.costs, model.ranking.winner
            yield [
                model.model.name,
                *(_cost(costs.get(name), best=name == winner) for name in result.runs),
                report.verdict(model.ranking),
                report.margin(model.ranking.margin),
                *(_ideal(model) if adds_up else []),
            ]

    quantity = result.quantity
    adds_up, least = quantity.adds_up, report.words_for(quantity).least
    ideal = ("Ideal", "90% interval", "Parts taken") if adds_up else ()
    disturbed = ", or less than a disturbance of the machine may cause"
    return page_table(
        ("Model", *result.runs, least.capitalize(), "By", *ideal),
        rows(),
        f"{_noun(result)} in {quantity.unit}, measured end to end. By: the second over the "
        f"{least}, with its 90% interval; no difference is shown where the interval includes 1"
        f"{disturbed if quantity.is_time else ''}."
        + (
            f" Ideal: sum of the parts, each on the backend where it is {least}. Parts taken: "
            f"number of parts for which each backend is {least}."
            if adds_up
            else ""
        ),
        words=(least.capitalize(), "Parts taken"),
    )


def _noun(result: Comparison) -> str:
    """The compared quantity, as the beginning of a sentence."""
    return quantity_name(result.quantity).capitalize()


def _ideal(model: ModelComparison) -> list[str]:
    return [
        estimate_text(model.ideal),
        interval_text(model.ideal.interval),
        ", ".join(f"{name} {number}" for name, number in model.picks.items()),
    ]


def _models(result: Comparison) -> PageTable:
    if result.any_run.request.metric is None:
        sums, those, paired = "Sum of parts", "sums", ", from paired rounds"
        how = f"{report.parts_figures(result)}, without the timer's own cost"
    else:
        sums, those, paired, how = "Composed", "these", "", report.parts_figures(result)

    def rows() -> Iterator[list[str | Cell]]:
        for model in result.models:
            for number, (name, each) in enumerate(model.results.items()):
                cost, total = model.ranking.costs.get(name), model.sums.get(name)
                is_fastest = name == model.ranking.fastest
                yield [
                    Cell(model.model.name, "again" if number else ""),
                    name,
                    _with_interval(cost),
                    "1" if is_fastest else report.margin(model.ranking.ratios.get(name)),
                    _with_interval(total),
                    "1" if is_fastest and total else report.margin(model.sum_ratios.get(name)),
                    ratio_text(each.normalized) or "-",
                ]

    return page_table(
        ("Model", "Backend", "Measured", "Ratio", sums, f"Ratio of {those}", "Estimate / measured"),
        rows(),
        f"{_noun(result)} in {result.quantity.unit} with 90% intervals. Ratio: this backend over "
        f"the one that is {report.words_for(result.quantity).least} end to end{paired}. {sums}: "
        f"{how}. The parts explain a difference as far as the two ratios agree.",
        words=["Backend"],
    )


def _parts(result: Comparison, named: Mapping[str, str]) -> PageTable:
    least = report.words_for(result.quantity).least

    def rows() -> Iterator[list[str | Cell]]:
        for each in result.parts:
            costs, winner = each.ranking.costs, each.ranking.winner
            yield [
                named[each.brick.signature],
                str(each.occurrences),
                *(_with_interval(costs.get(n), best=n == winner) for n in result.runs),
                value_text(each.difference_ms),
                report.verdict(each.ranking),
                report.margin(each.ranking.margin),
            ]

    return page_table(
        ("Part", "Number", *result.runs, "Difference", least.capitalize(), "By"),
        rows(),
        f"{report.totals(result.any_run.request)}, with 90% intervals; a winner is bold. "
        f"Difference: the largest less the {least}. By: the second over the {least}.",
        words=[least.capitalize()],
        names_wrap=True,
    )


def _cost(cost: Cost | None, *, best: bool = False) -> Cell:
    return Cell(value_text(cost.ms if cost else None), "best" if best else "")


def _with_interval(cost: Cost | None, *, best: bool = False) -> Cell:
    if cost is None:
        return Cell("-")
    return Cell(f"{ms(cost.ms)} ({interval_text(cost.interval_ms)})", "best" if best else "")


def _models_plot(result: Comparison) -> Markup | None:
    shown = [model for model in result.models if model.ranking.costs]
    if not shown:
        return None
    series: dict[str, list[Point | None]] = {
        backend: [_point(model.ranking.costs.get(backend)) for model in shown]
        for backend in result.runs
    }
    if result.quantity.adds_up:
        series["ideal (bound)"] = [
            None
            if m.ideal.value is None or m.ideal.partial
            else Point(m.ideal.value, m.ideal.interval)
            for m in shown
        ]
    noun = quantity_name(result.quantity)
    return dots(
        "models",
        [model.model.name for model in shown],
        series,
        f"end-to-end {noun} in {result.quantity.unit}",
        f"End-to-end {noun} of every model on every backend, with 90% intervals",
    )


def _parts_plot(result: Comparison, named: Mapping[str, str]) -> Markup | None:
    parts = result.parts[:_ROWS]
    shown = [each for each in parts if any(c.ms for c in each.ranking.costs.values())]
    if not shown:
        return None
    what = "Total" if result.quantity.adds_up else "Value"
    return dots(
        "parts",
        [named[each.brick.signature] for each in shown],
        {name: [_point(each.ranking.costs.get(name)) for each in shown] for name in result.runs},
        f"{what.lower()} in {result.quantity.unit} over all models",
        f"{what}s of the parts that differ most, on every backend, with 90% intervals",
    )


def _point(cost: Cost | None) -> Point | None:
    # Zero has no position on a logarithmic axis; the table shows it.
    return Point(cost.ms, cost.interval_ms) if cost and cost.ms > 0 else None
