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
    how,
    money,
    notes,
    place,
    share,
    system,
    systems,
    title,
)
from dlbricks_core.report.html.plots import Candidate, Point, dots, pareto
from dlbricks_core.report.html.tables import Cell, Column, Table, table
from dlbricks_core.report.html.templating import between, or_dash, page
from dlbricks_core.report.remarks import Effect, Remark, alike
from dlbricks_core.workflows.advise import Advice, Ranked, Ranking, Wanted


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
    name, unit = f"advice{number}", _unit(wanted)
    if wanted.accuracies is None:
        points = [Point(each.alternative.cost, _ends(each)) for each in ranking.ranked]
        rows = [place(each.alternative.place) for each in ranking.ranked]
        return dots(name, rows, {"": points}, unit, f"{unit}, by place")
    first = {id(each) for each in best_of_each(ranking)}
    candidates = [
        Candidate(
            each.alternative.model.name if id(each) in first else "",
            Point(each.alternative.cost, _ends(each)),
            each.alternative.accuracy or 0.0,
            each.is_on_front,
        )
        for each in ranking.ranked
    ]
    return pareto(name, candidates, unit, "accuracy", f"Accuracy against {unit}")


def _unit(wanted: Wanted) -> str:
    return f"{currency(wanted)} for a million inferences" if wanted.prices else "latency in ms"


def _ends(ranked: Ranked) -> tuple[float, float]:
    it = ranked.alternative
    return it.price_interval or it.interval_ms


def _table(ranking: Ranking, wanted: Wanted) -> Table:
    priced = [f"{currency(wanted)} a million", "90% interval"] if wanted.prices else []
    merits = ["Accuracy"] if wanted.accuracies else []
    bounded = ["Keeps the bound"] if wanted.max_latency_ms is not None else []
    fronted = ["On the front"] if wanted.accuracies else []
    modelled = ["Model"] if wanted.accuracies else []
    columns: list[str | Column] = [*modelled, "Place", Column("System", is_text=True), Column("Rests on", is_text=True),
               "Latency", "90% interval", "Per second", "90% interval", *priced, *merits, *bounded,
               "First", *fronted]  # fmt: skip
    return table(
        columns, [_row(each, wanted) for each in ranking.ranked], "Latencies in ms.",
        names_wrap=True,
    )  # fmt: skip


def _row(ranked: Ranked, wanted: Wanted) -> list[str | Cell]:
    it = ranked.alternative
    modelled = [it.model.name] if wanted.accuracies else []
    priced = [money(it.price), "–".join(map(money, it.price_interval))] if (
        it.price is not None and it.price_interval is not None) else []  # fmt: skip
    return [
        *modelled,
        how(it.place),
        system(it.place.system),
        BASES[it.basis],
        or_dash(it.ms),
        between(it.interval_ms),
        or_dash(it.per_second),
        between(it.per_second_interval),
        *priced,
        *([f"{it.accuracy:g}"] if it.accuracy is not None else []),
        *([share(ranked.keeps)] if wanted.max_latency_ms is not None else []),
        share(ranked.first),
        *([] if ranked.front is None else [Cell(share(ranked.front), _mark(ranked))]),
    ]


def _mark(ranked: Ranked) -> str:
    return "best" if ranked.is_on_front else ""
