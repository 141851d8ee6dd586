"""Advice as a self-contained HTML page."""

from __future__ import annotations

from markupsafe import Markup

from dlbricks_core.report.advice.words import (
    BASES,
    answer,
    best_of_each,
    currency,
    explained,
    front,
    heading_of,
    how,
    latency_name,
    money,
    notes,
    order_name,
    place,
    share,
    system,
    systems,
    title,
)
from dlbricks_core.report.heading import quantity_name
from dlbricks_core.report.html.plots import Candidate, Point, dots, pareto
from dlbricks_core.report.html.tables import Cell, Column, Table, table
from dlbricks_core.report.html.templating import between, or_dash, page
from dlbricks_core.report.remarks import Effect, Remark, alike
from dlbricks_core.workflows.advice import Advice, Ranked, Ranking, Wanted

_TEXT = frozenset({"Place", "System", "Rests on"})
"""Columns of words."""


def advice_page(advice: Advice) -> str:
    """Advice as an HTML page: the answer, a plot and a table for each ranking."""
    wanted = advice.wanted
    more = [front(each) for each in advice.rankings] if wanted.accuracies else []
    return page(
        "advice/page.html",
        title=title(advice),
        answer=[*(answer(each, wanted) for each in advice.rankings), *more],
        facts=[("System", f"{each}: {text}") for each, text in systems(advice).items()],
        remarks=[Remark(Effect.NOTE, text) for text in notes(advice)],
        failures=alike((*advice.unread, *advice.failures)),
        explained=explained(wanted),
        rankings=[
            (each.name, _plot(number, each, wanted), _table(each, wanted))
            for number, each in enumerate(advice.rankings)
        ],
    )


def _plot(number: int, ranking: Ranking, wanted: Wanted) -> Markup:
    """The alternatives by their order; empty if none has a finite value."""
    quantity = wanted.order.quantity
    name, unit = f"advice{number}", f"{order_name(wanted)} in {quantity.unit}"
    shown = [each for each in ranking.ranked if each.by.is_finite]
    if not shown:
        return Markup("")
    if wanted.accuracies is None:
        points = [Point(each.by.value, each.by.interval) for each in shown]
        rows = [place(each.alternative.place) for each in shown]
        return dots(name, rows, {"": points}, unit, f"{unit}, by place")
    first = {id(each) for each in best_of_each(ranking)}
    candidates = [
        Candidate(
            each.alternative.job.name if id(each) in first else "",
            Point(each.by.value, each.by.interval),
            each.alternative.accuracy or 0.0,
            each.is_on_front,
        )
        for each in shown
    ]
    return pareto(name, candidates, unit, "accuracy", f"Accuracy against {unit}")


def _table(ranking: Ranking, wanted: Wanted) -> Table:
    compared, bounded = wanted.accuracies is not None, wanted.is_bounded
    priced = wanted.prices is not None
    columns = {
        "Model": compared,
        "Place": True,
        "System": True,
        "Rests on": True,
        latency_name(wanted).capitalize(): True,
        "90% interval of it": True,
        **{
            heading: True
            for each in wanted.others
            for heading in (heading_of(each), f"90% interval of {quantity_name(each.quantity)}")
        },
        "Per second": True,
        "90% interval": True,
        f"{currency(wanted)} a million": priced,
        "90% interval of the price": priced,
        "Accuracy": compared,
        "Keeps": bounded,
        "First": True,
        "On the front": compared,
    }
    shown = [Column(name, name in _TEXT) for name, is_shown in columns.items() if is_shown]
    rows = [
        [cell for cell, is_shown in zip(_cells(each), columns.values(), strict=True) if is_shown]
        for each in ranking.ranked
    ]
    return table(shown, rows, "Times in ms.", names_wrap=True)


def _cells(ranked: Ranked) -> list[str | Cell]:
    it = ranked.alternative
    return [
        it.job.name,
        how(it.place),
        system(it.place),
        BASES[it.basis],
        or_dash(it.ms),
        between(it.interval_ms),
        *(cell for each in it.required for cell in (or_dash(each.value), between(each.interval))),
        or_dash(it.per_second),
        between(it.per_second_interval),
        "–" if it.price is None else money(it.price),
        "–".join(map(money, it.price_interval or ())),
        "–" if it.accuracy is None else f"{it.accuracy:g}",
        share(ranked.keeps),
        share(ranked.first),
        Cell(share(ranked.front or 0.0), "best" if ranked.is_on_front else ""),
    ]
