"""Results of a run in sentences."""

from __future__ import annotations

from operator import attrgetter

from dlbricks_core.compose import Estimate
from dlbricks_core.figures.widths import widest_text, width_text
from dlbricks_core.report.heading import count, subject
from dlbricks_core.report.sizes.words import sizes_answer
from dlbricks_core.report.tables import interval_text, ms
from dlbricks_core.report.weights import weight
from dlbricks_core.workflows import ModelResult, Offer, RunResult
from dlbricks_core.workflows.dial.precisions import FINEST
from dlbricks_core.workflows.footprint import gigabytes


def answer(result: RunResult) -> list[str]:
    """Sentences on the estimates, on their errors, and on their basis."""
    if result.is_over_sizes:
        return [sizes_answer(result)]
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
        if result.dial:
            known = f"the least precise is {width_text(result.dial.widest, 1)}"
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
    """A sentence on the peak memory of the run; empty where nothing ran."""
    if result.peak_bytes is None:
        return ""
    return f"Peak memory of this run, all processes: {gigabytes(result.peak_bytes)} GB."


def _of_model(model: ModelResult, unit: str) -> str:
    estimate = model.estimate
    if estimate.value is None:
        found = "no estimate"
    elif estimate.partial:
        found = f"estimated more than {ms(estimate.value)} {unit}, for bricks are missing"
    else:
        ends = f" ({between(estimate)})" if estimate.interval else ""
        found = f"estimated {ms(estimate.value)} {unit}{ends}"
    if model.measured is None:
        return found
    found += f", measured {ms(model.measured.value)} {unit}"
    if model.normalized is None:
        return found
    error = model.normalized - 1
    return f"{found}: {abs(error):.1%} too {side(error)}"


def side(error: float) -> str:
    """Side of the measurement on which an estimate lies: ``high`` or ``low``."""
    return "low" if error < 0 else "high"


def between(estimate: Estimate) -> str:
    """Interval of an estimate in the quantity's unit: ``49.3-57.0``."""
    return interval_text(estimate.interval)


def origins(result: RunResult) -> str:
    """Origins of the bricks' figures, by share; empty if there are none."""
    if result.dial and result.dial.wholes:
        # Estimates of models that were timed as wholes do not rest on their bricks.
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
    """Basis of an estimate: ``own run``, or the largest share of its bricks by origin."""
    if model.is_measurement:
        return "own run"
    if not model.origin:
        return "-"
    origin, share = max(model.origin.items(), key=lambda item: item[1])
    return f"{share:.0%} {origin}"


def dial(result: RunResult) -> str:
    """Precision of the estimates, and the gain from more time; empty for runs without the dial."""
    dialled = result.dial
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
        f"{width_text(each.half_width)} after about {_seconds(each)} more"
        for each in dialled.offers
    ]
    if not more and max(known) > FINEST:
        more = ["more time is not known to narrow it"]
    return "; ".join([f"{timed}: {now} now", *more]) + "."


_BAR = 40
"""Characters of the longest bar."""


def seconds_saved(result: RunResult) -> list[str]:
    """Seconds of the estimates beside those of a plain script, each with a bar.

    Empty unless every model was measured for comparison.
    """
    found = result.dial
    if found is None or found.seconds is None or found.plain_s is None:
        return []
    both = {"estimates": found.seconds, "plain script": found.plain_s}
    longest = max(both.values())
    bars = [
        f"{name:>12} {seconds:6.1f} s {'█' * max(round(_BAR * seconds / longest), 1)}"
        for name, seconds in both.items()
    ]
    return [*bars, "A plain script loads each model, and runs it 2 + 8 times in a loop."]


def probed(result: RunResult) -> str:
    """A sentence on the probes of an unknown system; empty for a known one."""
    found = result.dial and result.dial.probed
    if not found:
        return ""
    return (
        f"This system was not known: {count(found.networks, 'probe')} came first and took "
        f"{found.seconds:.1f} s; {width_text(found.before)} before, {width_text(found.after)} with "
        "them."
    )


def _seconds(offer: Offer) -> str:
    return f"{offer.seconds:.0f} s" if offer.seconds >= 1 else "1 s"


def layers(result: RunResult) -> str:
    """A sentence on the numbers of layers and of timed bricks."""
    bricks, plan = result.brickset, result.cutting.plan
    unique = bricks.unique_layers / max(bricks.layers, 1)
    timed = f", {result.timed_networks:,} timed" if plan.not_timed and not result.dial else ""
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
    if seconds["model"] and seconds["brick"]:
        lines.append(
            f"Benchmarking speedup (wall-clock, loading included): "
            f"{seconds['model'] / seconds['brick']:.2f}x = {seconds['model']:.1f} s for "
            f"{count(effort.runs['model'], 'run')} of {count(effort.networks['model'], 'model')} / "
            f"{seconds['brick']:.1f} s for {count(effort.runs['brick'], 'run')} of "
            f"{count(effort.networks['brick'], 'brick')}."
        )
    return lines


def reused(result: RunResult) -> str:
    """A sentence on the figures from the store; empty if there are none."""
    outcome = result.outcome
    if not outcome.reused:
        return ""
    rest = f"{outcome.measured} measured now" if outcome.measured else "nothing left to measure"
    return f"{count(outcome.reused, 'network')} came from the store, {rest}."
