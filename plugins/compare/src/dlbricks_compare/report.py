"""Comparisons of backends in sentences and tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from rich.table import Table
from rich.text import Text

from dlbricks_compare.comparison import Comparison, ModelComparison
from dlbricks_compare.ranking import Ranking, Ratio
from dlbricks_core.bricks.naming import names
from dlbricks_core.facts import Failure, Note, Quantity
from dlbricks_core.figures.figure import Cost
from dlbricks_core.measure.request import Request
from dlbricks_core.report.heading import of_quantity, options, print_setting
from dlbricks_core.report.remarks import (
    Effect,
    Remark,
    comparison_remarks,
    print_failures,
    print_notes,
    print_warnings,
    ranked,
)
from dlbricks_core.report.tables import Console, ms, styled, table
from dlbricks_core.wording import count, settings


@dataclass(frozen=True)
class ComparingWords:
    """Words for comparing values of which less is better."""

    least: str  #: Word for the least value: ``fastest``.
    times: str  #: Words after a ratio: ``as long``.


_TIME = ComparingWords("fastest", "as long")

_AMOUNT = ComparingWords("least", "as much")


def words_for(quantity: Quantity) -> ComparingWords:
    """Words for values of a quantity."""
    return _TIME if quantity.is_time else _AMOUNT


NO_WINNER = "no difference shown"
ONLY_ONE = "only one measured"
TOO_SHORT = "too short to tell"

LEAST_SHOWN = 0.0005
"""Least end of an interval that a text does not round to zero."""


def subject(result: Comparison) -> str:
    """Models and backends of a comparison: ``2 models on onnxruntime and mxnet, 1 thread``.

    A quantity other than latency comes first.
    """
    models = result.models
    what = models[0].cut.model.name if len(models) == 1 else count(len(models), "model")
    *others, last = result.runs
    backends = f"{', '.join(others)} and {last}" if others else last
    request = result.any_run.request
    found = f"{what} on {backends}, {count(request.settings.threads, 'thread')}"
    return of_quantity(request, found)


def answer(result: Comparison) -> str:
    """A sentence on the backend with the least value end to end."""
    if len(result.models) == 1:
        of_model = _of_model(result.models[0].ranking, result.quantity)
        return f"{subject(result)}: {of_model}."
    verdicts = Counter(verdict(model.ranking) for model in result.models)
    listed = "; ".join(
        f"{name} on {count(number, 'model')}" for name, number in verdicts.most_common()
    )
    return f"{subject(result)}: {words_for(result.quantity).least} end to end: {listed}."


def unfit(result: Comparison) -> list[str]:
    """A line for each backend on which a model does not fit into the memory."""
    rest = (
        f"{settings(condition='cold')} times its parts."
        if is_hot(result)
        else "Only its parts are timed."
    )
    return [
        f"{model.model.name} does not fit on {name}: {there.memory}. {rest}"
        for model in result.models
        for name, there in model.results.items()
        if there.memory is not None and not there.memory.fits
    ]


def _of_model(ranking: Ranking, quantity: Quantity) -> str:
    words, unit = words_for(quantity), quantity.unit
    if ranking.fastest is None:
        return "nothing was measured end to end"
    (fastest, cost), *_ = ranking.costs.items()
    if not ranking.ratios:
        return f"only {fastest} was measured, {ms(cost.ms)} {unit}"
    others = ", ".join(f"{name} {margin(each)}" for name, each in ranking.ratios.items())
    if ranking.winner:
        return (
            f"{fastest} {'is' if quantity.is_time else 'takes'} {words.least}, "
            f"{ms(cost.ms)} {unit}, {others} {words.times}"
        )
    why = (
        f"; a disturbance of the machine may cause {ranking.slowdown:.2f}x"
        if ranking.is_disturbed
        else ""
    )
    return f"{NO_WINNER}; {fastest} takes {ms(cost.ms)} {unit}, {others} {words.times}{why}"


def verdict(ranking: Ranking) -> str:
    """The backend with the least value, in a few words."""
    if ranking.fastest is None:
        return "-"
    if ranking.margin is None:
        return ONLY_ONE
    if ranking.margin.value is None:
        return TOO_SHORT
    return ranking.winner or NO_WINNER


def margin(ratio: Ratio | None) -> str:
    """Ratio to the least with its 90% interval: ``2.07x (1.31-2.52)``."""
    if ratio is None or ratio.value is None:
        return "-"
    return f"{ms(ratio.value)}x ({_bounds(ratio)})"


def _bounds(ratio: Ratio) -> str:
    """The interval of a ratio; an end that says nothing is left out.

    Where the cost of a call may be all that was timed, a ratio has no lower or no upper bound.
    """
    low = ms(ratio.low) if ratio.low is not None and ratio.low >= LEAST_SHOWN else None
    high = ms(ratio.high) if ratio.high is not None else None
    if low and high:
        return f"{low}-{high}"
    if low:
        return f"{low} or more"
    return f"{high} or less" if high else "uncertain"


def is_hot(result: Comparison) -> bool:
    """Whether whole models ran as their users run them, and profiles show the parts."""
    return result.any_run.request.condition == "hot"


def parts_figures(result: Comparison) -> str:
    """Source of the figures of parts."""
    if is_hot(result):
        return "each part inside of the whole model, by the framework's profiler"
    verb = "timed" if result.any_run.request.metric is None else "measured"
    return f"each part {verb} by itself"


def totals(request: Request) -> str:
    """Description of the figures of parts."""
    quantity = request.quantity
    what = "Totals" if quantity.adds_up else "Of one part each,"
    of = "the timer's own cost" if request.metric is None else "what any network takes"
    return f"{what} in {quantity.unit} without {of}"


def remarks(result: Comparison) -> list[Remark]:
    """Remarks on a comparison, the worst first."""
    notes = [
        *result.notes,
        *(note.about(name) for name, run in result.runs.items() for note in run.ledger.notes),
        *(
            note.about(f"{model.cut.model.name} on {backend}")
            for model in result.models
            for backend, each in model.results.items()
            for note in each.notes
        ),
    ]
    return ranked(
        [*comparison_remarks(result.runs, disturbances(result), notes), *_of_disturbance(result)]
    )


def _of_disturbance(result: Comparison) -> list[Remark]:
    """Remarks on differences that are not shown because of disturbances."""
    models, parts = (m.ranking for m in result.models), (p.ranking for p in result.parts)
    rankings = [*models, *parts]
    disturbed = [ranking.slowdown for ranking in rankings if ranking.is_disturbed]
    if not disturbed:
        return []
    return [
        Remark(
            Effect.WARNING,
            "a disturbance of the machine may have slowed one backend alone by up to "
            f"{max(disturbed):.2f}x: no smaller difference is shown",
        )
    ]


def disturbances(result: Comparison) -> list[Note]:
    """Distinct disturbances of the machine during the measurements."""
    found = (note for run in result.runs.values() for note in run.ledger.warnings)
    return list(dict.fromkeys(found))


def with_backends(failures: Iterable[Failure]) -> list[Failure]:
    """Failures with the backend added to their subject."""
    return [
        replace(each, subject=f"{each.subject} on {each.backend}") if each.backend else each
        for each in failures
    ]


_PARTS_SHOWN = 12

_FEW = 2  #: Maximum number of backends whose figures leave room for intervals.
_LINES = 2  #: Maximum lines of a part's name.

#: Columns of a terminal, minimum columns of a figure, and columns of number and fastest backend.
_WIDTH, _FIGURE, _REST = 79, 7, 28

_SHORT = {NO_WINNER: "no difference", ONLY_ONE: "only one", TOO_SHORT: "too short"}


def print_comparison(console: Console, result: Comparison) -> None:
    """Prints the fastest backend, doubts about the result, and the differences by part."""
    found = remarks(result)
    for line in unfit(result):
        console.print(styled((line, "bold red")))
    console.print(styled((answer(result), "bold")))
    print_warnings(console, found, len(result.failures))
    console.print(_models(result))
    unit, words = result.quantity.unit, words_for(result.quantity)
    console.print(
        f"In {unit}. By: how many times {words.times} the second takes, with the 90% interval. "
        f"{_sum(result)[0]}: {parts_figures(result)}; the table below explains a difference as "
        "far as these sums do."
    )
    console.print(_parts(result))
    left = len(result.parts) - _PARTS_SHOWN
    if left > 0:
        console.print(f"{count(left, 'more part')} in the JSON and the HTML report.")
    for model in result.models:
        if model.ideal.value is not None:
            console.print(_ideal(model, result.quantity))
    print_notes(console, found)
    print_failures(console, with_backends(result.failures))
    _print_setting(console, result)


def _print_setting(console: Console, result: Comparison) -> None:
    reused = {n: r.ledger.reused for n, r in result.runs.items() if r.ledger.reused}
    if reused:
        listed = ", ".join(f"{count} of {name}" for name, count in reused.items())
        console.print(f"Networks that came from the store: {listed}.")
    for name, run in result.runs.items():
        timer = f"; timer {run.call_ms * 1e3:.1f} us a call" if run.call_ms else ""
        line = f"{name} {run.request.setup.version}{options(run.request)}{timer}"
        console.print(styled((line, "dim")))
    print_setting(console, result.any_run, several=True)


def _sum(result: Comparison) -> tuple[str, str]:
    """Words for the total of parts, as a heading and before their number."""
    added = result.any_run.request.metric is None
    return ("Sum", "sum of") if added else ("Composed", "composed of")


def _models(result: Comparison) -> Table:
    shown = table("Model", *result.runs, words_for(result.quantity).least.capitalize(), "By")
    by = margin if len(result.runs) <= _FEW else _times
    for model in result.models:
        costs, ranking = model.ranking.costs, model.ranking
        shown.add_row(
            model.model.name,
            *_figures(result, costs, ranking.winner),
            _SHORT.get(verdict(ranking), verdict(ranking)),
            by(ranking.margin),
        )
        second = next(iter(ranking.ratios), "")
        parts = count(sum(part.occurrences for part in model.parts), "part")
        shown.add_row(
            f"  {_sum(result)[1]} {parts}",
            *_figures(result, model.sums),
            "",
            by(model.sum_ratios.get(second)),
        )
    return shown


def _figures(
    result: Comparison, costs: Mapping[str, Cost], winner: str | None = None
) -> list[str | Text]:
    """A figure for each backend; the winner's is bold."""
    return [
        styled((ms(costs[name].ms), "bold" if name == winner else "")) if name in costs else "-"
        for name in result.runs
    ]


def _parts(result: Comparison) -> Table:
    least = words_for(result.quantity).least.capitalize()
    room = _WIDTH - _REST - sum(max(len(name) + 1, _FIGURE) for name in result.runs)
    parts = {each.brick.signature: each.brick.model for each in result.parts}
    named = names(parts, _LINES * room)
    rows = [
        (
            named[each.brick.signature],
            str(each.occurrences),
            *_figures(result, each.ranking.costs, each.ranking.winner),
            _fastest(each.ranking),
        )
        for each in result.parts[:_PARTS_SHOWN]
    ]
    caption = (
        "Parts between places where all backends cut a model; equal parts share a row. "
        f"{totals(result.any_run.request)}; the largest difference first."
    )
    return table("Part", "Number", *result.runs, least, rows=rows, caption=caption)


def _fastest(ranking: Ranking) -> str:
    if ranking.winner is None or ranking.margin is None or ranking.margin.value is None:
        return _SHORT.get(verdict(ranking), "-")
    return f"{ranking.winner} {_times(ranking.margin)}"


def _times(ratio: Ratio | None) -> str:
    return "-" if ratio is None or ratio.value is None else f"{ms(ratio.value)}x"


def _ideal(model: ModelComparison, quantity: Quantity) -> str:
    picks = ", ".join(f"{number} on {name}" for name, number in model.picks.items())
    above = "above " if model.ideal.partial else ""
    return (
        f"Ideal for {model.model.name}: {above}{ms(model.ideal.value or 0.0)} {quantity.unit}, "
        f"with each part where it is {words_for(quantity).least} ({picks}). A bound: "
        "passing tensors from one framework to another takes longer."
    )
