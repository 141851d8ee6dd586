"""Results as tables for a terminal of 80 columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from rich.table import Table

from dlbricks_core.compose import Estimate
from dlbricks_core.facts import Calibration, Failure
from dlbricks_core.report.console import Console, styled
from dlbricks_core.report.tables import ms, table
from dlbricks_core.workflows import ModelResult, RunResult

_ALIKE_SHOWN = 3

_KINDS = {
    "the standard deviation": "standard deviation above 10% of the mean",
    "the minimum": "a sample more than 50% below the mean",
    "the maximum": "a sample more than 50% above the mean",
    "the shortest sample": "shorter than 1 ms",
}


def print_run(console: Console, result: RunResult) -> None:
    """Tables and remarks on a run or an estimate."""
    print_head(console, result)
    console.print(_models(result.models))
    console.print(
        f"In ms. Estimate: {result.cut_options.composer}. Parallel: critical path. "
        "Norm.: estimate/measured."
    )
    _print_totals(console, result)
    print_remarks(console, result)


def print_bench(console: Console, result: RunResult) -> None:
    """Latency of every brick, and remarks."""
    print_head(console, result)
    shown = table("Brick", "Layers", "Latency ms", "90% interval", left=2)
    for each in result.bricks:
        low_high = each.interval_ms
        shown.add_row(
            each.brick.signature[:8],
            ", ".join(each.brick.operators),
            ms(each.latency.value) if each.latency else "-",
            f"{ms(low_high[0])}-{ms(low_high[1])}" if low_high else "-",
        )
    console.print(shown)
    _print_effort(console, result)
    print_remarks(console, result)


def print_head(console: Console, result: RunResult, cuts: str = "") -> None:
    """What was run, how, and where.

    Args:
        console: To print to.
        result: Of the run.
        cuts: How models were cut, where that is not the run's granularity alone.
    """
    request = result.request
    options = ", ".join(f"{k}={v}" for k, v in request.settings.options.items())
    threads = _count(request.settings.threads, "thread")
    console.print(
        styled(
            (f"{request.backend.name} {request.setup.version}", "bold"),
            f"{f' ({options})' if options else ''}, {threads}, "
            f"{cuts or f'G={result.cut_options.granularity}'}, {request.protocol.name} protocol "
            f"({request.protocol.statistic_name}, {request.extent})",
        )
    )
    where = f" - measured on system {request.fingerprint}" if request.elsewhere else ""
    console.print(styled((f"{request.system.describe()}{where}", "dim")))
    if result.calibration:
        console.print(styled((f"Calibrated {calibrated_with(result.calibration)}", "dim")))


def calibrated_with(calibration: Calibration) -> str:
    """When a composer's numbers were fitted, on how many networks, and to what."""
    values = ", ".join(f"{name} {value:.3f}" for name, value in calibration.values.items())
    networks = _count(len(calibration.models), "network")
    return f"on {calibration.taken_at:%Y-%m-%d} with {networks}: {values}"


def _models(models: Sequence[ModelResult]) -> Table:
    shown = table("Model", "Layers", "Unique", "Bricks", "Estimate", "90% interval",
                  "Parallel", "Measured", "Norm.")  # fmt: skip
    for model in models:
        cut = model.cut
        normalized = model.normalized
        shown.add_row(
            cut.model.name,
            str(len(cut.model.layers)),
            str(len(set(cut.layer_signatures))),
            str(len(cut.occurrences)),
            _estimate(model.estimate),
            _interval(model.estimate),
            _estimate(model.parallel),
            "-" if model.measured is None else ms(model.measured.value),
            "-" if normalized is None else f"{normalized:.3f}",
        )
    return shown


def _estimate(estimate: Estimate) -> str:
    if estimate.value is None:
        return "-"
    return f"{'>' if estimate.partial else ''}{ms(estimate.value)}"


def _interval(estimate: Estimate) -> str:
    if estimate.interval is None:
        return "-"
    low, high = estimate.interval
    return f"{ms(low)}-{ms(high)}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _print_totals(console: Console, result: RunResult) -> None:
    bricks, plan = result.brickset, result.cutting.plan
    share = bricks.unique_layers / max(bricks.layers, 1)
    console.print(
        f"{_count(bricks.layers, 'layer')}, {bricks.unique_layers:,} unique ({share:.0%}); "
        f"{_count(len(bricks.bricks), 'unique brick')}"
        f"{f', {len(plan.timed):,} timed' if plan.not_timed else ''}."
    )
    if result.benchmarking:
        b = result.benchmarking
        console.print(
            f"Benchmarking speedup (paper): {b.speedup:.2f}x = {b.models_s * 1e3:.1f} ms of models "
            f"/ {b.bricks_s * 1e3:.1f} ms of unique bricks, one run each."
        )
    _print_effort(console, result)


def _print_effort(console: Console, result: RunResult) -> None:
    effort, outcome = result.effort, result.outcome
    seconds = effort.seconds
    if seconds["model"] and seconds["brick"]:
        console.print(
            f"Benchmarking speedup (wall-clock, loading included): "
            f"{seconds['model'] / seconds['brick']:.2f}x = {seconds['model']:.1f} s for "
            f"{_count(effort.runs['model'], 'run')} of {effort.networks['model']} models / "
            f"{seconds['brick']:.1f} s for {_count(effort.runs['brick'], 'run')} of "
            f"{effort.networks['brick']} bricks."
        )
    if outcome.reused:
        rest = f"{outcome.measured} measured now" if outcome.measured else "nothing left to measure"
        console.print(f"{_count(outcome.reused, 'network')} came from the store, {rest}.")
    if result.call_ms:
        console.print(f"Timer: {result.call_ms * 1e3:.1f} us a call, taken off each brick.")


def print_remarks(console: Console, result: RunResult) -> None:
    """What to keep in mind when reading the figures, and what is missing."""
    for text in result.outcome.warnings:
        console.print(styled(("Warning:", "yellow"), f" {text} while measuring"))
    for text in result.outcome.notes:
        console.print(styled(("Note:", "yellow"), f" {text}"))
    doubts = Counter(kind for brick in result.bricks for kind in map(_kind, brick.warnings))
    for kind, number in doubts.items():
        console.print(
            styled(("Warning:", "yellow"), f" {number} of {len(result.bricks)} bricks: {kind}")
        )
    for model in result.models:
        for note in model.notes:
            console.print(styled(("Note:", "yellow"), f" {model.cut.model.name}: {note}"))
        if model.missing:
            lacks = f"{len(model.missing)} of {len(model.cut.counts)} bricks"
            text = f" {model.cut.model.name} lacks {lacks}{_unsupported(model)}"
            console.print(styled(("Partial:", "yellow"), text))
    print_failures(console, result.failures)


def _unsupported(model: ModelResult) -> str:
    operators = Counter(
        operator for signature in model.unsupported for operator in model.cut.operators(signature)
    )
    return f"; unsupported: {', '.join(sorted(operators))}" if operators else ""


def print_failures(console: Console, failures: Iterable[Failure]) -> None:
    """Every failure by name; many of a model with one reason share a line."""
    for where, reason in alike(failures, _ALIKE_SHOWN):
        console.print(styled(("Failed:", "red"), f" {where}: {reason}"))


def alike(failures: Iterable[Failure], most: int | None = None) -> list[tuple[str, str]]:
    """Where and why things failed; what failed in one model for one reason is together.

    Args:
        failures: All of them.
        most: How many are named of those that are alike; ``None`` for all.
    """
    together: dict[tuple[str, str], list[str]] = {}
    for failure in failures:
        # A model that fails as a whole stands beside others that fail for the same reason.
        model, what = (failure.subject, failure.part) if failure.part else ("", failure.subject)
        together.setdefault((model, failure.reason), []).append(what)
    found = []
    for (model, reason), places in together.items():
        named = ", ".join(places[:most])
        rest = 0 if most is None else len(places) - most
        more = f" and {rest} more" if rest > 0 else ""
        found.append((f"{model}: {named}{more}" if model else f"{named}{more}", reason))
    return found


def _kind(warning: str) -> str:
    """What a warning about samples is about, without its figures, to count alike ones."""
    return next((text for start, text in _KINDS.items() if warning.startswith(start)), warning)
