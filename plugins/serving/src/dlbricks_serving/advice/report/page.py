"""Advice as a self-contained HTML page."""

from __future__ import annotations

from dlbricks_pages.html.plots import MOST_SERIES, Point, dots
from dlbricks_pages.html.templating import (
    Cell,
    PageTable,
    page,
    page_table,
)
from markupsafe import Markup

from dlbricks_core.facts import LATENCY, Quantity
from dlbricks_core.report.heading import quantity_name
from dlbricks_core.report.remarks import Remark, alike
from dlbricks_core.report.tables import interval_text, ms, value_text
from dlbricks_serving.advice.advice import Advice, AdviceRequest, Ranked, TaskRanking
from dlbricks_serving.advice.places import Place
from dlbricks_serving.advice.report.front import Candidate, pareto
from dlbricks_serving.advice.report.words import (
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
    name_of,
    notes,
    place,
    share,
    system,
    systems,
    title,
)
from dlbricks_serving.advice.requirements import Requirement

_TEXT = frozenset({"Place", "System", "Rests on"})
"""Columns of words."""


def advice_page(advice: Advice) -> str:
    """Advice as an HTML page: the answer, plots of all models, and a table for each ranking."""
    wanted = advice.wanted
    more = [front(each) for each in advice.rankings] if wanted.accuracies else []
    return page(
        "advice/report/page.html",
        package="dlbricks_serving",
        title=title(advice),
        answer=[*(answer(each, wanted) for each in advice.rankings), *more],
        facts=[("System", f"{each}: {text}") for each, text in systems(advice).items()],
        remarks=list(map(Remark.of, notes(advice))),
        failures=alike((*advice.unread, *advice.failures)),
        explained=explained(wanted),
        plots=_plots(advice),
        rankings=[(each.name, _table(each, wanted)) for each in advice.rankings],
    )


def _plots(advice: Advice) -> list[Markup]:
    """A plot of the order's quantity and of each other bounded one, shared by all models."""
    wanted = advice.wanted
    if wanted.accuracies is not None:
        first = [_front(number, each, wanted) for number, each in enumerate(advice.rankings)]
    else:
        first = _dots(advice, wanted.order)
    order = wanted.order.quantity
    latency = [] if wanted.longest_ms is None else [Requirement(LATENCY, wanted.longest_ms)]
    bounded = {each.quantity: each for each in (*latency, *wanted.bounds) if each.quantity != order}
    return [*first, *(plot for each in bounded.values() for plot in _dots(advice, each))]


def _dots(advice: Advice, shown: Requirement) -> list[Markup]:
    """A quantity of all models by place, in as many plots as the models need."""
    wanted, quantity = advice.wanted, shown.quantity
    points: dict[str, dict[Place, Point]] = {}
    for each in advice.alternatives:
        known = each.known(shown)
        if known.is_finite:
            of_model = points.setdefault(each.job.name, {})
            of_model[each.place] = Point(known.value, known.interval)
    models = list(points)
    unit = f"{name_of(quantity, wanted)} in {quantity.unit}"
    plots = []
    for begin in range(0, len(models), MOST_SERIES):
        some = models[begin : begin + MOST_SERIES]
        places = list(dict.fromkeys(where for model in some for where in points[model]))
        series = {model: [points[model].get(where) for where in places] for model in some}
        name = f"{quantity.name} {begin}"
        rows = list(map(place, places))
        title = f"{unit} of {', '.join(some)}, by place"
        plots.append(dots(name, rows, series, unit, title, _bound(quantity, wanted)))
    return plots


def _bound(quantity: Quantity, wanted: AdviceRequest) -> dict[str, float]:
    """The user's bound on a quantity, by its name in a legend; empty if there is none."""
    every = [each.most for each in wanted.bounds if each.quantity == quantity]
    if quantity == LATENCY and wanted.longest_ms is not None:
        every = [wanted.longest_ms]
    return {f"bound: {ms(min(every))} {quantity.unit}": min(every)} if every else {}


def _front(number: int, ranking: TaskRanking, wanted: AdviceRequest) -> Markup:
    """Accuracies against the order's quantity; empty if none has a finite value."""
    quantity = wanted.order.quantity
    shown = [each for each in ranking.ranked if each.by.is_finite]
    if not shown:
        return Markup("")
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
    unit, least = f"{name_of(quantity, wanted)} in {quantity.unit}", wanted.min_accuracy
    return pareto(
        f"front {number}",
        candidates,
        unit,
        "accuracy",
        f"Accuracy against {unit}",
        _bound(quantity, wanted),
        {} if least is None else {f"bound: accuracy {least:g}": least},
    )


def _table(ranking: TaskRanking, wanted: AdviceRequest) -> PageTable:
    compared, bounded = wanted.accuracies is not None, wanted.is_bounded
    priced = wanted.prices is not None
    columns = {
        "Model": compared,
        "Place": True,
        "System": True,
        "Rests on": True,
        latency_name(wanted).capitalize(): True,
        f"90% interval of {latency_name(wanted)}": True,
        **{
            heading: True
            for each in wanted.others
            for heading in (heading_of(each), f"90% interval of {quantity_name(each.quantity)}")
        },
        "Per s": True,
        "90% interval of the rate": True,
        f"{currency(wanted)} a million": priced,
        "90% interval of the price": priced,
        "Accuracy": compared,
        "Keeps": bounded,
        "First": True,
        "On the front": compared,
    }
    shown = [name for name, is_shown in columns.items() if is_shown]
    rows = [
        [cell for cell, is_shown in zip(_cells(each), columns.values(), strict=True) if is_shown]
        for each in ranking.ranked
    ]
    return page_table(shown, rows, "Times in ms.", words=_TEXT, names_wrap=True)


def _cells(ranked: Ranked) -> list[str | Cell]:
    it = ranked.alternative
    return [
        it.job.name,
        how(it.place),
        system(it.place),
        f"{BASES[it.basis]}, load {it.load:.0%}" if it.load else BASES[it.basis],
        value_text(it.ms),
        interval_text(it.interval_ms),
        *(
            cell
            for each in it.required
            for cell in (value_text(each.value), interval_text(each.interval))
        ),
        value_text(it.per_second),
        interval_text(it.per_second_interval),
        "-" if it.price is None else money(it.price),
        "–".join(map(money, it.price_interval or ())),
        "-" if it.accuracy is None else f"{it.accuracy:g}",
        share(ranked.keeps),
        share(ranked.first),
        Cell(share(ranked.front or 0.0), "best" if ranked.is_on_front else ""),
    ]
