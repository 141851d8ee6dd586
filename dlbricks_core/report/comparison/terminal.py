"""A comparison of backends as tables and as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rich.table import Table
from rich.text import Text

from dlbricks_core.facts import Failure
from dlbricks_core.figures.ranking import Ranking, Ratio
from dlbricks_core.report.console import Console, styled
from dlbricks_core.report.data import (
    SCHEMA_VERSION,
    backend_data,
    brick_head,
    brick_result,
    model_head,
    model_result,
    settings_data,
    system_data,
    totals,
)
from dlbricks_core.report.run.terminal import print_failures
from dlbricks_core.report.tables import ms, table
from dlbricks_core.workflows import (
    BrickComparison,
    Comparison,
    LoadOptions,
    ModelComparison,
    OperatorTotal,
)

_BRICKS_SHOWN = 15

NO_WINNER = "no clear winner"
ONLY_ONE = "only one measured"
TOO_SHORT = "too short to tell"

_SHORT = {NO_WINNER: "not clear", ONLY_ONE: "only one", TOO_SHORT: "too short"}


def print_comparison(console: Console, result: Comparison) -> None:
    """Tables and remarks for a terminal of 80 columns."""
    _print_head(console, result)
    console.print(_models(result))
    console.print("End to end in ms; estimate: sum of bricks; >: bricks are missing.")
    console.print(_ideals(result))
    console.print(
        "Ideal: sum of bricks, each where it is fastest; a bound that leaves out what "
        "handing tensors from one framework to another costs. Picks: bricks of each."
    )
    console.print(_operators(result))
    console.print(_bricks(result))
    left = len(result.bricks) - _BRICKS_SHOWN
    if left > 0:
        console.print(f"{left} more bricks are in the JSON and the HTML report.")
    _print_remarks(console, result)


def verdict(ranking: Ranking) -> str:
    """Who is fastest, in a few words."""
    if ranking.fastest is None:
        return "-"
    if ranking.margin is None:
        return ONLY_ONE
    if ranking.margin.value is None:
        return TOO_SHORT
    return ranking.winner or NO_WINNER


def margin(ratio: Ratio | None) -> str:
    """How much longer than the fastest, with the interval."""
    if ratio is None or ratio.value is None:
        return "-"
    low, high = ("inf" if end is None else ms(end) for end in (ratio.low, ratio.high))
    return f"{ms(ratio.value)}x ({low}-{high})"


def _print_head(console: Console, result: Comparison) -> None:
    request = result.any_run.request
    for name, run in result.runs.items():
        options = ", ".join(f"{k}={v}" for k, v in run.request.settings.options.items())
        told = f" ({options})" if options else ""
        console.print(styled((f"{name} {run.request.setup.version}", "bold"), told))
    console.print(
        f"threads: {request.settings.threads}, G={result.brickset.granularity}, "
        f"{request.protocol.name} protocol ({request.protocol.statistic_name}, "
        f"{request.extent})"
    )
    console.print(styled((request.system.describe(), "dim")))


def _models(result: Comparison) -> Table:
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
    shown = table("Model", "Fastest", "By", "Ideal ms", "Picks", left=2)
    for model in result.models:
        partial = ">" if model.ideal.partial else ""
        shown.add_row(
            model.cut.model.name,
            verdict(model.ranking),
            margin(model.ranking.margin),
            "-" if model.ideal.value is None else f"{partial}{ms(model.ideal.value)}",
            "/".join(str(count) for count in model.picks.values()),
        )
    return shown


def _operators(result: Comparison) -> Table:
    shown = table("Bricks of", "Number", *result.runs)
    for each in result.operators:
        shown.add_row(
            ", ".join(each.operators),
            str(each.occurrences),
            *(_total(each, backend) for backend in result.runs),
        )
    shown.caption = "Total in ms over all models, without the timer's own cost."
    shown.caption_justify = "left"
    return shown


def _total(each: OperatorTotal, backend: str) -> str | Text:
    total = each.totals_ms[backend]
    if total is None:
        return "-"
    text = f"{'>' if each.missing[backend] else ''}{ms(total)}"
    return styled((text, "bold")) if backend == each.fastest else text


def weight(each: BrickComparison) -> float:
    """What a brick takes of the models on the backend where it takes most."""
    return each.occurrences * max((c.ms for c in each.ranking.costs.values()), default=0.0)


def _bricks(result: Comparison) -> Table:
    shown = table("Layers", "Brick", *result.runs, "Fastest", left=2)
    for each in sorted(result.bricks, key=weight, reverse=True)[:_BRICKS_SHOWN]:
        costs = each.ranking.costs
        shown.add_row(
            ", ".join(each.brick.operators),
            each.brick.signature[:8],
            *(ms(costs[name].ms) if name in costs else "-" for name in result.runs),
            _brick_verdict(each.ranking),
        )
    shown.caption = "In ms, without the timer's own cost; what takes most of the models first."
    shown.caption_justify = "left"
    return shown


def _brick_verdict(ranking: Ranking) -> str:
    if ranking.winner is None or ranking.margin is None or ranking.margin.value is None:
        return _SHORT.get(verdict(ranking), "-")
    return f"{ranking.winner} {ms(ranking.margin.value)}x"


def _print_remarks(console: Console, result: Comparison) -> None:
    reused = {n: r.outcome.reused for n, r in result.runs.items() if r.outcome.reused}
    if reused:
        listed = ", ".join(f"{count} of {name}" for name, count in reused.items())
        console.print(f"Networks that came from the store: {listed}.")
    calls = {n: r.call_ms for n, r in result.runs.items() if r.call_ms is not None}
    listed = ", ".join(f"{name} {call * 1e3:.1f} us" for name, call in calls.items())
    if listed:
        console.print(f"Timer, taken off each brick's latency: {listed} a call.")
    for text in warnings(result):
        console.print(styled(("Warning:", "yellow"), f" {text} while measuring"))
    for note in notes(result):
        console.print(styled(("Note:", "yellow"), f" {note}"))
    print_failures(console, (replace(f, subject=place(f)) for f in result.failures))


def place(failure: Failure) -> str:
    """The model, and the backend on which it failed."""
    return f"{failure.subject} on {failure.backend}" if failure.backend else failure.subject


def warnings(result: Comparison) -> list[str]:
    """What disturbed the machine, each once."""
    texts = (text for run in result.runs.values() for text in run.outcome.warnings)
    return list(dict.fromkeys(texts))


def notes(result: Comparison) -> list[str]:
    """What to keep in mind when reading the figures."""
    return [
        *result.notes,
        *(f"{name}: {note}" for name, run in result.runs.items() for note in run.outcome.notes),
        *(
            f"{model.cut.model.name} on {backend}: {note}"
            for model in result.models
            for backend, each in model.results.items()
            for note in each.notes
        ),
    ]


def comparison_data(result: Comparison, load: LoadOptions | None = None) -> dict[str, Any]:
    """The same as the JSON object that scripts read; names as in :func:`run_data`.

    Args:
        result: What was found out.
        load: What was said about how models are read.
    """
    run = result.any_run
    return {
        "schema_version": SCHEMA_VERSION,
        "system": system_data(run.request),
        "backends": [
            {
                **backend_data(each.request),
                "timer": {"call_ms": each.call_ms},
                "reused_networks": each.outcome.reused,
                "measured_networks": each.outcome.measured,
            }
            for each in result.runs.values()
        ],
        "settings": settings_data(run, load),
        "totals": totals(result.brickset, len(result.brickset.bricks)),
        "models": [_model_data(model) for model in result.models],
        "bricks": [_brick_data(brick) for brick in result.bricks],
        "operators": [
            {
                "layers": list(each.operators),
                "occurrences": each.occurrences,
                "fastest": each.fastest,
                "totals_ms": dict(each.totals_ms),
                "missing": dict(each.missing),
            }
            for each in result.operators
        ],
        "warnings": warnings(result),
        "notes": list(result.notes),
        "failures": [
            {"backend": f.backend or None, "where": f.where, "reason": f.reason}
            for f in result.failures
        ],
    }


def _model_data(model: ModelComparison) -> dict[str, Any]:
    return {
        **model_head(model.cut),
        **_ranking(model.ranking),
        "ideal_ms": model.ideal.value,
        "ideal_interval_ms": model.ideal.interval,
        "ideal_partial": model.ideal.partial,
        "ideal_picks": dict(model.picks),
        "backends": _by_backend(
            {name: model_result(each) for name, each in model.results.items()},
            model.ranking,
            "measured_interval_ms",
        ),
    }


def _brick_data(each: BrickComparison) -> dict[str, Any]:
    backends = {name: brick_result(result) for name, result in each.results.items()}
    costs = each.ranking.costs
    for name, entry in backends.items():
        entry["net_ms"] = costs[name].ms if name in costs else None
    return {
        **brick_head(each.brick, each.occurrences),
        **_ranking(each.ranking),
        "backends": _by_backend(backends, each.ranking, "net_interval_ms"),
    }


def _by_backend(
    backends: Mapping[str, dict[str, Any]], ranking: Ranking, interval_name: str
) -> dict[str, Any]:
    """Adds to each backend's figures how they compare with the fastest's."""
    for name, entry in backends.items():
        cost, ratio = ranking.costs.get(name), ranking.ratios.get(name)
        entry[interval_name] = cost.interval_ms if cost else None
        entry["ratio"] = _ratio(ratio)
    return dict(backends)


def _ranking(ranking: Ranking) -> dict[str, Any]:
    return {
        "fastest": ranking.fastest,
        "winner": ranking.winner,
        "clear": ranking.winner is not None,
        "margin": _ratio(ranking.margin),
    }


def _ratio(ratio: Ratio | None) -> dict[str, Any] | None:
    if ratio is None:
        return None
    return {"value": ratio.value, "interval": [ratio.low, ratio.high]}
