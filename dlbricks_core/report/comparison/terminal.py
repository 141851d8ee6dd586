"""A comparison of backends as tables for a terminal of 80 columns."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from dlbricks_core.bricks.naming import names, sequence_names
from dlbricks_core.figures.ranking import Ranking, Ratio
from dlbricks_core.report.comparison.words import (
    NO_WINNER,
    ONLY_ONE,
    TOO_SHORT,
    answer,
    margin,
    remarks,
    verdict,
    weight,
    with_backends,
)
from dlbricks_core.report.console import Console, styled
from dlbricks_core.report.heading import options, print_setting
from dlbricks_core.report.remarks import (
    are_doubtful,
    print_failures,
    print_notes,
    print_warnings,
)
from dlbricks_core.report.tables import ms, table
from dlbricks_core.workflows import Comparison, OperatorTotal

_BRICKS_SHOWN = 15

_BRICK = 30
"""Characters of a brick's name that leave room for its figures."""

_SHORT = {NO_WINNER: "not clear", ONLY_ONE: "only one", TOO_SHORT: "too short"}


def print_comparison(console: Console, result: Comparison) -> None:
    """Prints who is fastest, what makes that doubtful, and tables of models and bricks."""
    found = remarks(result)
    doubtful = are_doubtful(found)
    console.print(styled((answer(result, doubtful=doubtful), "bold")))
    print_warnings(console, found, len(result.failures))
    console.print(_models(result, doubtful))
    console.print("End to end in ms. By: how many times as long the second takes.")
    console.print(_estimates(result))
    console.print(
        "In ms. Estimate: sum of bricks; >: bricks are missing. Ratio: over the fastest, with "
        "its 90% interval."
    )
    console.print(_ideals(result))
    console.print(
        "Ideal: sum of bricks, each where it is fastest; a bound that leaves out what "
        "handing tensors from one framework to another costs. Picks: bricks of each."
    )
    console.print(_operators(result, doubtful))
    console.print(_bricks(result, doubtful))
    left = len(result.bricks) - _BRICKS_SHOWN
    if left > 0:
        console.print(f"{left} more bricks are in the JSON and the HTML report.")
    print_notes(console, found)
    print_failures(console, with_backends(result.failures))
    _print_setting(console, result)


def _print_setting(console: Console, result: Comparison) -> None:
    reused = {n: r.outcome.reused for n, r in result.runs.items() if r.outcome.reused}
    if reused:
        listed = ", ".join(f"{count} of {name}" for name, count in reused.items())
        console.print(f"Networks that came from the store: {listed}.")
    for name, run in result.runs.items():
        timer = f"; timer {run.call_ms * 1e3:.1f} us a call" if run.call_ms is not None else ""
        line = f"{name} {run.request.setup.version}{options(run.request)}{timer}"
        console.print(styled((line, "dim")))
    print_setting(console, result.any_run, several=True)


def _models(result: Comparison, doubtful: bool) -> Table:
    shown = table("Model", *result.runs, "Fastest", "By")
    for model in result.models:
        costs, winner = model.ranking.costs, None if doubtful else model.ranking.winner
        shown.add_row(
            model.cut.model.name,
            *(
                styled((ms(costs[name].ms), "bold" if name == winner else ""))
                if name in costs
                else "-"
                for name in result.runs
            ),
            verdict(model.ranking, doubtful=doubtful),
            _times(model.ranking.margin),
        )
    return shown


def _estimates(result: Comparison) -> Table:
    shown = table("Model", "Backend", "Estimate", "Measured", "90% interval", "Ratio", left=2)
    for model in result.models:
        name = model.cut.model.name
        for backend, each in model.results.items():
            cost = model.ranking.costs.get(backend)
            ratio = model.ranking.ratios.get(backend)
            partial = ">" if each.estimate.partial else ""
            shown.add_row(
                name,
                backend,
                "-" if each.estimate.value is None else f"{partial}{ms(each.estimate.value)}",
                "-" if cost is None else ms(cost.ms),
                "-" if cost is None else "-".join(ms(end) for end in cost.interval_ms),
                "1" if backend == model.ranking.fastest else margin(ratio),
            )
            name = ""
        shown.add_section()
    return shown


def _ideals(result: Comparison) -> Table:
    shown = table("Model", "Ideal ms", "Picks")
    for model in result.models:
        partial = ">" if model.ideal.partial else ""
        shown.add_row(
            model.cut.model.name,
            "-" if model.ideal.value is None else f"{partial}{ms(model.ideal.value)}",
            ", ".join(f"{name} {number}" for name, number in model.picks.items()),
        )
    return shown


def _operators(result: Comparison, doubtful: bool) -> Table:
    shown = table("Bricks of", "Number", *result.runs)
    named = sequence_names((each.operators for each in result.operators), _BRICK)
    for each in result.operators:
        shown.add_row(
            named[each.operators],
            str(each.occurrences),
            *(_total(each, backend, doubtful) for backend in result.runs),
        )
    shown.caption = "Total in ms over all models, without the timer's own cost."
    shown.caption_justify = "left"
    return shown


def _total(each: OperatorTotal, backend: str, doubtful: bool) -> str | Text:
    total = each.totals_ms[backend]
    if total is None:
        return "-"
    text = f"{'>' if each.missing[backend] else ''}{ms(total)}"
    return styled((text, "bold")) if backend == each.fastest and not doubtful else text


def _bricks(result: Comparison, doubtful: bool) -> Table:
    shown = table("Brick", *result.runs, "Fastest")
    named = names({each.brick.signature: each.brick.model for each in result.bricks}, _BRICK)
    for each in sorted(result.bricks, key=weight, reverse=True)[:_BRICKS_SHOWN]:
        costs = each.ranking.costs
        shown.add_row(
            named[each.brick.signature],
            *(ms(costs[name].ms) if name in costs else "-" for name in result.runs),
            _brick_verdict(each.ranking, doubtful),
        )
    shown.caption = "In ms, without the timer's own cost; what takes most of the models first."
    shown.caption_justify = "left"
    return shown


def _brick_verdict(ranking: Ranking, doubtful: bool) -> str:
    if ranking.winner is None or ranking.margin is None or ranking.margin.value is None:
        return _SHORT.get(verdict(ranking), "-")
    return f"{verdict(ranking, doubtful=doubtful)} {_times(ranking.margin)}"


def _times(ratio: Ratio | None) -> str:
    return "-" if ratio is None or ratio.value is None else f"{ms(ratio.value)}x"
