"""A run, an estimate or a bench as plain data."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from dlbricks_core.facts import Quantity
from dlbricks_core.figures.figure import interval
from dlbricks_core.report import arithmetic
from dlbricks_core.report.data import (
    SCHEMA_VERSION,
    backend_data,
    brick_head,
    brick_result,
    calibration_data,
    facts_data,
    failures_data,
    invocation_data,
    latencies_data,
    model_head,
    model_result,
    quantity_data,
    settings_data,
    system_data,
    totals,
)
from dlbricks_core.report.sizes.data import sizes_data
from dlbricks_core.workflows import (
    Benchmarking,
    BrickResult,
    Invocation,
    LoadOptions,
    ModelResult,
    PartResult,
    Probed,
    RunResult,
)
from dlbricks_core.workflows.footprint import Footprint


def run_data(
    result: RunResult, load: LoadOptions | None = None, invocation: Invocation | None = None
) -> dict[str, Any]:
    """A run, an estimate or a bench as the JSON object that scripts read.

    Args:
        result: The run.
        load: How models were read; ``None`` if unknown.
        invocation: The user's request; ``None`` if unknown.
    """
    request = result.request
    return {
        "schema_version": SCHEMA_VERSION,
        "invocation": invocation_data(invocation, request.quantity),
        "system": system_data(request),
        "backend": backend_data(request),
        "settings": settings_data(result, load),
        "totals": totals(result.brickset, result.timed_networks),
        "models": [_model(model, request.quantity, invocation) for model in result.models],
        **sizes_data(result),
        "bricks": [_brick(brick) for brick in result.bricks],
        "timer": {"call_ms": result.call_ms},
        "benchmarking": _benchmarking(result.benchmarking, result),
        "dial": _dial(result),
        "peak_memory_bytes": result.peak_bytes,
        "calibration": calibration_data(result.calibration),
        "warnings": list(result.outcome.warnings),
        "notes": [*result.outcome.notes, *arithmetic.of_run(result)],
        **failures_data(result.failures),
    }


def _model(model: ModelResult, quantity: Quantity, invocation: Invocation | None) -> dict[str, Any]:
    return {
        **model_head(model.cut),
        "facts": facts_data(invocation, model.cut.model.name),
        **latencies_data(model_result(model), quantity),
        "origin": dict(model.origin),
        "composer": model.composer or None,
        "quantity": quantity_data(quantity),
        "memory": _memory(model.memory),
        "estimate": model.estimate.value,
        "interval": model.estimate.interval,
        "measured": model.measured.value if model.measured else None,
        "measured_interval": (
            interval(model.measured.replicates, model.measured.value) if model.measured else None
        ),
        "parts": [_part(each) for each in model.parts],
    }


def _part(part: PartResult) -> dict[str, Any]:
    measured = part.compared.measured
    return {
        "quantity": quantity_data(part.quantity),
        "estimate": part.compared.estimate.value,
        "interval": part.compared.estimate.interval,
        "measured": measured.value if measured else None,
    }


def _memory(footprint: Footprint | None) -> dict[str, Any] | None:
    return None if footprint is None else {**asdict(footprint), "fits": footprint.fits}


def _brick(result: BrickResult) -> dict[str, Any]:
    return {
        **brick_head(result.brick, result.occurrences),
        **latencies_data(brick_result(result), result.quantity),
        "origin": result.origin,
        "quantity": quantity_data(result.quantity),
        "value": result.latency.value if result.latency else None,
        "interval": result.interval_ms,
    }


def _dial(result: RunResult) -> dict[str, Any] | None:
    """Progress of the dial; ``None`` where every brick was to be timed."""
    dial = result.dial
    if dial is None:
        return None
    return {
        "half_width": dial.widest,
        "half_widths": {
            model.cut.model.name: half
            for model, half in zip(result.models, dial.half_widths, strict=True)
        },
        "bricks_timed": dial.timed,
        "models_timed": dial.wholes,
        "importing_s": dial.importing_s,
        "seconds": dial.seconds,
        "plain_s": dial.plain_s,
        "more": [{"half_width": each.half_width, "seconds": each.seconds} for each in dial.offers],
        "probes": _probed(dial.probed),
    }


def _probed(probed: Probed | None) -> dict[str, Any] | None:
    """Summary of the probes of an unknown system."""
    if probed is None:
        return None
    return {
        "networks": probed.networks,
        "seconds": probed.seconds,
        "half_width_before": probed.before,
        "half_width": probed.after,
    }


def _benchmarking(benchmarking: Benchmarking | None, result: RunResult) -> dict[str, Any]:
    effort = result.effort
    seconds = effort.seconds
    both = seconds["model"] > 0 and seconds["brick"] > 0
    return {
        "models_s": benchmarking.models_s if benchmarking else None,
        "bricks_s": benchmarking.bricks_s if benchmarking else None,
        "speedup": benchmarking.speedup if benchmarking else None,
        "wall_clock": {
            "models_s": seconds["model"],
            "bricks_s": seconds["brick"],
            "speedup": seconds["model"] / seconds["brick"] if both else None,
            "models_runs": effort.runs["model"],
            "bricks_runs": effort.runs["brick"],
            "models_loading_s": effort.loading["model"],
            "bricks_loading_s": effort.loading["brick"],
        },
        "measured_networks": result.outcome.measured,
        "reused_networks": result.outcome.reused,
    }
