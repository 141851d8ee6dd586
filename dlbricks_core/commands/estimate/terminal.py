"""A run or an estimate in sentences, and as tables for a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isfinite
from operator import attrgetter

from rich.table import Table
from rich.text import Text

from dlbricks_core.compose import Estimate
from dlbricks_core.estimation.defaults import FINEST
from dlbricks_core.estimation.model_result import ModelResult
from dlbricks_core.estimation.results import RunResult
from dlbricks_core.figures.figure import relative_half_width
from dlbricks_core.figures.statistics import widest_text, width_text
from dlbricks_core.measure.footprint import gigabytes
from dlbricks_core.report.columns import (
    FilledColumn,
    OwnColumn,
    added_columns,
    own_columns,
    shown_columns,
)
from dlbricks_core.report.heading import print_result, subject
from dlbricks_core.report.remarks import run_remarks, weight
from dlbricks_core.report.tables import (
    Console,
    compared_cells,
    estimate_text,
    filled_tables,
    interval_text,
    ms,
    ratio_text,
    styled,
    table,
)
from dlbricks_core.wording import count


def answer(result: RunResult) -> list[str]:
    """Sentences on the estimates, on their errors, and on their basis."""
    if result.over_sizes is not None:
        return [result.over_sizes.sentence(result)]
    if len(result.models) == 1:
        return [f"{subject(result)}: {_of_model(result.models[0], result.request.quantity.unit)}."]
    errors = {
        model.cut.model.name: model.normalized - 1
        for model in result.models
        if model.normalized is not None
    }
    if not errors:
        number = sum(model.estimate.value is not None for model in result.models)
        known = "nothing measured to compare"
        if result.adaptive:
            widths = [each for each in result.adaptive.half_widths if isfinite(each)]
            lacking = "; the others are incomplete" if len(widths) < len(result.models) else ""
            known = f"the least precise is {width_text(max(widths, default=0.0), 1)}{lacking}"
            if not widths:
                known = "all are incomplete"
        return [f"{subject(result)}: {count(number, 'estimate')}; {known}."]
    worst = max(errors, key=lambda name: abs(errors[name]))
    mean = sum(map(abs, errors.values())) / len(errors)
    return [
        f"{subject(result)}: estimates are off by {mean:.1%} on average, at most by "
        f"{abs(errors[worst]):.1%} ({worst}, too {side(errors[worst])})."
    ]


def unfit(result: RunResult) -> list[str]:
    """A line for each model that does not fit into memory, with the meaning of its estimate.

    For a model at several sizes, the size with the largest footprint counts.
    """
    needs = {
        name: max((each.memory for each in several if each.memory), key=attrgetter("needed_bytes"),
                  default=None)
        for name, several in result.by_name.items()
    }  # fmt: skip
    return [
        f"{name} does not fit: {memory}. Estimated as if it fitted."
        for name, memory in needs.items()
        if memory is not None and not memory.fits
    ]


def peak(result: RunResult) -> str:
    """A sentence on the peak memory of the run; empty if nothing ran."""
    if result.peak_bytes is None:
        return ""
    return f"Peak memory of this run, all processes: {gigabytes(result.peak_bytes)} GB."


def _of_model(model: ModelResult, unit: str) -> str:
    estimate = model.estimate
    if estimate.value is None:
        found = "no estimate"
    elif estimate.partial:
        found = f"estimated more than {ms(estimate.value)} {unit}, because bricks are missing"
    else:
        said = "; ".join(filter(None, (interval_text(estimate.interval), _of_hours([estimate]))))
        ends = f" ({said})" if estimate.interval else ""
        found = f"estimated {ms(estimate.value)} {unit}{ends}"
    if model.measured is None:
        return found
    found += f", measured {ms(model.measured.value)} {unit}"
    if model.normalized is None:
        return found
    error = model.normalized - 1
    return f"{found}: {abs(error):.1%} too {side(error)}"


def hours(result: RunResult) -> str:
    """A sentence on the two widths of several models' intervals; empty if there is one width."""
    known = [m.estimate for m in result.models if m.estimate.this_hour and not m.estimate.partial]
    return f"90% intervals: {_of_hours(known)}." if len(result.models) > 1 and known else ""


def _of_hours(estimates: Sequence[Estimate]) -> str:
    """Widths of intervals in the hour of the measurements, and of the shown intervals."""
    if not all(each.this_hour for each in estimates):
        return ""
    now = widest_text([relative_half_width(each.this_hour) for each in estimates])
    then = widest_text([relative_half_width(each.interval) for each in estimates])
    if now == then:
        return f"{now} in this hour and on another day"
    return f"{now} in this hour, {then} on another day"


def side(error: float) -> str:
    """Direction of an estimate's error: ``high`` or ``low``."""
    return "low" if error < 0 else "high"


def origins(result: RunResult) -> str:
    """Origins of the bricks' figures, by share; empty if there are none."""
    if result.adaptive and result.adaptive.wholes:
        # The estimate of a model that was timed whole does not rest on its bricks.
        what = "estimates"
        parts = [
            (origin, share * (model.estimate.value or 0.0))
            for model in result.models
            for origin, share in model.origin.items()
        ]
    else:
        what = "bricks"
        parts = [(b.origin, weight(b)) for b in result.bricks if b.origin and b.occurrences]
    shares: dict[str, float] = {}
    for origin, part in parts:
        shares[origin] = shares.get(origin, 0.0) + part
    whole = sum(shares.values())
    if not whole:
        return ""
    ordered = sorted(shares.items(), key=lambda item: -item[1])
    listed = ", ".join(f"{part / whole:.0%} {origin}" for origin, part in ordered)
    return f"Of the sum of {what}: {listed}."


def rests_on(model: ModelResult) -> str:
    """Basis of an estimate: ``whole``, ``bricks 9 of 11``, or ``predicted 83%`` of the sum."""
    if model.is_measurement:
        return "whole"
    if not model.origin:
        return "-"
    predicted = model.origin.get("predicted", 0.0)
    if predicted >= _SEEN:
        return f"predicted {predicted:.0%}"
    bricks = len(model.cut.counts)
    return f"bricks {bricks - len(model.missing)} of {bricks}"


_SEEN = 0.005  #: Minimum share of a sum that rounds to a whole percent.

#: Relative difference between a sum of bricks and a measured model from which a line reports it.
_APART = 0.1


def apart(result: RunResult) -> list[str]:
    """A sentence for each model that was measured whole and whose bricks do not add up to it.

    Models of which a brick lacks a figure are left out: the rest adds up to less anyway.
    """
    own = {b.brick.signature: b.latency.own for b in result.bricks if b.latency}
    lines = []
    for model in result.models:
        known = [n * own[s] for s, n in model.cut.counts.items() if s in own]
        whole = model.estimate.value if model.is_measurement else None
        complete = len(known) == len(model.cut.counts)
        if not whole or not complete or abs(sum(known) / whole - 1) <= _APART:
            continue
        lines.append(
            f"{model.cut.model.name} was measured as a whole; its {len(known)} bricks add up to "
            f"{sum(known) / whole:.0%} of that, and its latency does not rest on them."
        )
    return lines


def precision_reached(result: RunResult) -> str:
    """Precision of the estimates, and the gain from more time; empty unless adaptive."""
    dialled = result.adaptive
    if dialled is None or not dialled.half_widths:
        return ""
    bricks = f"{dialled.timed:,} of {count(len(result.brickset.bricks), 'brick')}"
    ran = f"{dialled.wholes:,} of {count(len(result.models), 'model')} ran"
    timed = f"{ran}, with {bricks}" if dialled.wholes else f"{bricks} timed"
    known = [
        half
        for half, model in zip(dialled.half_widths, result.models, strict=True)
        if model.estimate.value
    ]
    if not known:
        return f"{timed}."
    now = widest_text(known, 1)
    more = [
        f"{width_text(each.half_width)} after about {max(each.seconds, 1):.0f} s more"
        for each in dialled.offers
    ]
    if not more and max(known) > FINEST:
        more = ["no further run is known to narrow it"]
    return "; ".join([f"{timed}: {now} now", *more]) + "."


_BAR = 40  #: Characters of the longest bar.
_LONG_WAIT_S = 1.5  #: Seconds from which a wait is worth a sentence; a first look takes less.


def seconds_saved(result: RunResult) -> list[str]:
    """Seconds of the estimates and of a plain script, each with a bar.

    Empty unless every model was measured for comparison.
    """
    found = result.adaptive
    if found is None or found.seconds is None or found.plain_s is None:
        return []
    both = {"estimates": found.seconds, "plain script": found.plain_s}
    longest = max(both.values())
    bars = [
        f"{name:>12} {seconds:6.1f} s {'█' * max(round(_BAR * seconds / longest), 1)}"
        for name, seconds in both.items()
    ]
    waited = [f"The estimates include {found.waited_s:.0f} s of waiting for a quiet machine."]
    return [
        *bars,
        "A plain script loads each model, and runs it 2 + 8 times in a loop.",
        *(waited if found.waited_s >= _LONG_WAIT_S else []),
    ]


def probed(result: RunResult) -> str:
    """A sentence on the probes of an unknown system; empty for a known system."""
    found = result.adaptive and result.adaptive.probed
    if not found:
        return ""
    return (
        f"This system was not known: {count(found.networks, 'probe')} came first and took "
        f"{found.seconds:.1f} s; {width_text(found.half_width_before)} before, "
        f"{width_text(found.half_width)} with them."
    )


def layers(result: RunResult) -> str:
    """A sentence on the numbers of layers and of timed bricks."""
    bricks, plan = result.brickset, result.cutting.plan
    unique = bricks.unique_layers / max(bricks.layers, 1)
    timed = f", {result.timed_networks:,} timed" if plan.not_timed and not result.adaptive else ""
    return (
        f"{count(bricks.layers, 'layer')}, {bricks.unique_layers:,} unique ({unique:.0%}); "
        f"{count(len(bricks.bricks), 'unique brick')}{timed}."
    )


def speedups(result: RunResult) -> list[str]:
    """Speedup of benchmarking by bricks, one sentence for each definition."""
    lines = []
    if result.benchmarking:
        b = result.benchmarking
        lines.append(
            f"Benchmarking speedup (paper): {b.speedup:.2f}x = {b.models_s * 1e3:.1f} ms of models "
            f"/ {b.bricks_s * 1e3:.1f} ms of unique bricks, one run each."
        )
    effort = result.effort
    seconds = effort.seconds
    if effort.runs["model"] and effort.runs["brick"]:
        lines.append(
            f"Benchmarking speedup (wall-clock, loading included): "
            f"{seconds['model'] / seconds['brick']:.2f}x = {seconds['model']:.1f} s for "
            f"{count(effort.runs['model'], 'run')} of {count(effort.networks['model'], 'model')} / "
            f"{seconds['brick']:.1f} s for {count(effort.runs['brick'], 'run')} of "
            f"{count(effort.networks['brick'], 'brick')}."
        )
    return lines


def reused(result: RunResult) -> str:
    """A sentence on the figures from the store; empty without such figures."""
    ledger = result.ledger
    if not ledger.reused:
        return ""
    rest = f"{ledger.measured} measured now" if ledger.measured else "nothing left to measure"
    return f"{count(ledger.reused, 'network')} came from the store, {rest}."


def print_run(console: Console, result: RunResult) -> None:
    """Prints doubts about the estimates, the estimates, and their basis."""
    added = added_columns(result.models)
    for line in unfit(result):
        console.print(styled((line, "bold red")))
    sizes = result.over_sizes
    shown: list[str | Text | Table] = [
        *(_models(result, added, console.width) if sizes is None else sizes.shown(result)),
        *seconds_saved(result),
        hours(result),
        layers(result),
        probed(result),
        precision_reached(result),
        origins(result),
        *apart(result),
        *speedups(result),
        reused(result),
        peak(result),
    ]
    print_result(console, result, answer(result), shown, run_remarks(result, added))


def _models(result: RunResult, added: Sequence[FilledColumn], width: int) -> Iterator[str | Table]:
    is_parallel = result.request.metric is None and not result.adaptive
    # A chain of layers has its estimate as its critical path.
    is_parallel &= any(PARALLEL.cell(each) != _ESTIMATE.cell(each) for each in result.models)
    further = shown_columns(added)
    # A line has 80 characters.
    last = [] if further or is_parallel else [BRICKS]
    basis = [*([PARALLEL] if is_parallel else []), RESTS_ON, *last]
    own = own_columns((*COMPARED, _NORM, *basis), result.models)
    yield from filled_tables(own, further, width)
    explanation = "Parallel: critical path. " if is_parallel else ""
    yield (
        f"In {result.request.quantity.unit}. Norm.: estimate/measured. {explanation}"
        ">: bricks are missing."
    )
    if any(model.parts for model in result.models):
        yield _parts(result.models)


_Column = OwnColumn[ModelResult]

_ESTIMATE: _Column = OwnColumn("Estimate", lambda model: estimate_text(model.estimate))
COMPARED: Sequence[_Column] = (
    OwnColumn("Model", lambda model: model.cut.model.name, "left"),
    _ESTIMATE,
    OwnColumn("90% interval", lambda model: interval_text(model.estimate.interval)),
    OwnColumn("Measured", lambda model: ms(model.measured.value) if model.measured else None),
)
_NORM: _Column = OwnColumn("Norm.", lambda model: ratio_text(model.normalized))
PARALLEL: _Column = OwnColumn("Parallel", lambda model: estimate_text(model.parallel))
RESTS_ON: _Column = OwnColumn("Rests on", rests_on)
BRICKS: _Column = OwnColumn("Bricks", lambda model: str(len(model.cut.occurrences)))


def _parts(models: Sequence[ModelResult]) -> Table:
    shown = table("Part", "Meaning", "Estimate", "90% interval", "Measured", left=2)
    shown.columns[1].no_wrap = False
    for model in models:
        if len(models) > 1:
            shown.add_row(styled((model.cut.model.name, "bold")))
        for each in model.parts:
            shown.add_row(
                each.quantity.name, each.quantity.meaning, *compared_cells(each.compared)[:3]
            )
    return shown
