"""A run, an estimate or a bench as plain data."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any, Literal, TypedDict, cast

from dlbricks_core.commands.estimate.sizes_data import AnswerData, CurveData
from dlbricks_core.commands.estimate.terminal import rests_on
from dlbricks_core.commands.options.invocation import (
    Invocation,
    InvocationData,
    ModelFactsData,
    facts_data,
    invocation_data,
)
from dlbricks_core.estimation.model_result import ModelResult, PartResult
from dlbricks_core.estimation.results import (
    Benchmarking,
    BrickResult,
    Characterized,
    Offer,
    RunResult,
)
from dlbricks_core.facts import Quantity
from dlbricks_core.importers import LoadOptions
from dlbricks_core.report import data as common
from dlbricks_core.report.columns import added_columns, column_problems, column_values
from dlbricks_core.report.notes import notes_data
from dlbricks_core.report.remarks import arithmetic_notes


class EstimateData(common.ListedFailuresData):
    """Output of ``dlbricks estimate`` and ``dlbricks suite time``."""

    #: Settings of the command. Null for commands without a record.
    invocation: InvocationData | None
    system: common.SystemData  #: The system that the figures are of.
    backend: common.BackendData  #: The framework.
    settings: common.SettingsData  #: How it was done.
    #: Threads of the phases of an answer, ``prompt`` and ``token``; null for one number.
    phase_threads: dict[str, int] | None
    totals: common.TotalsData  #: Counts over all models.
    models: list[ModelData]  #: In the order in which they were named.
    #: Speed of language models on the requested workloads. Its times follow from entries of models.
    answers: list[AnswerData]
    curves: list[CurveData]  #: Models over the sizes of a sweep.
    bricks: list[BrickData]  #: Different bricks of all models.
    timer: common.TimerData  #: Cost of a call.
    benchmarking: BenchmarkingData  #: Time that benchmarking by bricks saves.
    #: Networks that an estimate timed for the precision, and the gain of more time. Null where
    #: every brick was to be timed.
    adaptive: AdaptiveRunData | None
    #: Upper bound on the memory of all processes of the run, in bytes: peaks of processes that
    #: lived at the same time are added. Null where nothing ran.
    peak_memory_bytes: int | None
    calibration: common.CalibrationData | None  #: Null where the composer's own numbers count.
    warnings: list[common.NoteData]  #: Disturbances of the measurement.
    notes: list[common.NoteData]  #: Notes for people.


class ModelData(common.ModelHeadData, common.ModelFiguresData):
    """A model and its estimate."""

    #: Facts about the model from its file or collection. Null for commands without a record.
    facts: ModelFactsData | None
    #: Shares of the sum over the model's known bricks, by where their latencies come from. They add
    #: up to 1; empty if no brick is known.
    origin: OriginSharesData
    #: Basis of the estimate in words: ``whole`` if the model itself ran, ``bricks 9 of 11`` with a
    #: measured figure, or ``predicted 83%`` of the sum; ``-`` without figures.
    rests_on: str
    #: Whether the model itself ran, so that the estimate is its measured latency.
    is_measurement: bool
    #: Use of the CPUs by others while samples behind the figures were taken. Null where nothing
    #: disturbed them.
    disturbance: DisturbanceData | None
    #: Composer behind the estimate; null for other quantities than latency. Estimates that run
    #: nothing choose one for each model.
    composer: str | None
    quantity: common.QuantityData  #: Quantity of all figures of the model, and their unit.
    #: Memory that the whole model takes. Null where sizes are known only once it runs.
    memory: FootprintData | None
    #: Parts of the quantity, where its metric has any. Empty for latency.
    parts: list[FigurePartData]
    #: Value of each column that a plugin adds, by name, in the plugin's form; ``null`` if unknown.
    #: Empty without such plugins.
    columns: dict[str, Any]


class DisturbanceData(TypedDict):
    """Disturbance of samples."""

    #: Share of the CPUs that others used, from 0 to 1. From 0.25 the figures are doubtful.
    load: float
    #: Factor by which samples may be longer than on a quiet machine; intervals allow for it.
    slowdown: float


class OriginSharesData(TypedDict, total=False):
    """Shares of the sum over the model's known bricks, by where their latencies come from.

    They add up to 1; empty if no brick is known.
    """

    measured: float  #: Samples of this run.
    stored: float  #: Samples that the store held before.
    profiled: float  #: Profiles of running models that share the bricks.
    derived: float  #: Latencies of other bricks.
    predicted: float  #: A predictor.


class FootprintData(TypedDict):
    """Memory that a whole model needs to be loaded and to run, and memory that is free."""

    weights_bytes: int  #: Bytes of the weights.
    cache_bytes: int  #: Bytes of keys and values that a decoder is given and hands back.
    live_bytes: int  #: Most bytes of inputs and results at a time, without the cache.
    copies_bytes: int  #: Bytes of further copies of the weights that the framework keeps.
    #: Bytes of the weights and their copies while the framework loads them from a file.
    loading_bytes: int
    available_bytes: int  #: Bytes that are free here, or that the other system has.
    token_bytes: float  #: Bytes by which one token of one text lengthens the cache.
    #: Whether the model fits: neither the first four together nor the bytes while loading are more
    #: than the free bytes. If not, the estimate is for a machine on which it fits.
    fits: bool


class FigurePartData(TypedDict):
    """One part of a quantity of a model, in its own unit."""

    quantity: common.QuantityData  #: Name and unit of the part.
    estimate: float | None  #: Estimate of the part; null if it is unknown.
    #: 90% interval of the estimate, from the scatter of observations.
    interval: common.Interval | None
    measured: float | None  #: The part of the whole model, if it was measured.


class BrickData(common.BrickHeadData, common.BrickFiguresData):
    """A brick and its latency."""

    #: Origin of the latency: samples of this run, earlier samples in the store, profiles of running
    #: models, latencies of other bricks, or a predictor; null without a latency.
    origin: Literal["measured", "stored", "profiled", "derived", "predicted"] | None
    quantity: common.QuantityData  #: Quantity of the figures, and their unit.


class WallClockData(TypedDict):
    """Seconds that were spent."""

    models_s: float  #: Seconds spent on whole models.
    bricks_s: float  #: Seconds spent on bricks, loading included.
    speedup: float | None  #: Their ratio.
    models_runs: int  #: Runs of whole models.
    bricks_runs: int  #: Runs of bricks.
    models_loading_s: float  #: Seconds of loading models, a part of the seconds on models.
    bricks_loading_s: float  #: Seconds of loading bricks, a part of the seconds on bricks.


class AdaptiveRunData(TypedDict):
    """Extent of a run, between an estimate without any run and every brick timed."""

    #: Largest half-width of the models' 90% intervals, relative to their latencies, without the
    #: error of composing. Null where an estimate is missing or partial.
    half_width: float | None
    half_widths: dict[str, float | None]  #: Of each model, by its name.
    bricks_timed: int  #: Bricks that were measured, in this run or before.
    models_timed: int  #: Whole models that were measured in place of their bricks.
    importing_s: float  #: Seconds of starting the framework, in addition to benchmarking.
    #: Seconds until the estimates, once models were imported; null where nothing ran.
    seconds: float | None
    #: Seconds that a plain script takes for the same models, by their measured latencies; null
    #: unless all were measured.
    plain_s: float | None
    more: list[Offer]  #: Gains of more time, the cheapest first.
    #: Networks that were timed first because the system was not known.
    probes: Characterized | None


class BenchmarkingData(TypedDict):
    """Time that benchmarking by bricks saves."""

    models_s: float | None  #: Sum of the models' latencies, in seconds.
    bricks_s: float | None  #: Sum of the timed bricks' latencies, in seconds.
    speedup: float | None  #: Their ratio: the paper's definition.
    wall_clock: WallClockData  #: The same by seconds spent.
    measured_networks: int  #: Networks that were timed now.
    reused_networks: int  #: Networks whose samples the store held.


def run_data(
    result: RunResult, load: LoadOptions | None = None, invocation: Invocation | None = None
) -> EstimateData:
    """A run, an estimate or a bench as the JSON object that scripts read."""
    request = result.request
    added = added_columns(result.models)
    sizes = result.over_sizes.data(result) if result.over_sizes else {}
    return {
        "schema_version": common.SCHEMA_VERSION,
        "invocation": invocation_data(invocation, request.quantity),
        "system": common.system_data(request),
        "backend": common.backend_data(request),
        "settings": common.settings_data(result, load),
        "phase_threads": dict(result.phase_threads) or None,
        "totals": common.totals(result.brickset, result.timed_networks),
        "models": [
            _model(model, request.quantity, invocation, column_values(added, i))
            for i, model in enumerate(result.models)
        ],
        "answers": sizes.get("answers", []),
        "curves": sizes.get("curves", []),
        "bricks": [_brick(brick) for brick in result.bricks],
        "timer": {"call_ms": result.call_ms},
        "benchmarking": _benchmarking(result.benchmarking, result),
        "adaptive": _adaptive(result),
        "peak_memory_bytes": result.peak_bytes,
        "calibration": common.calibration_data(result.calibration),
        "warnings": notes_data(result.ledger.warnings),
        "notes": notes_data(
            [*result.ledger.notes, *arithmetic_notes(result), *column_problems(added)]
        ),
        "failures": common.failures_data(result.failures),
    }


def _model(
    model: ModelResult, quantity: Quantity, invocation: Invocation | None, columns: dict[str, Any]
) -> ModelData:
    found, footprint = model.disturbance, model.memory
    fits = footprint and {**asdict(footprint), "fits": footprint.fits}
    return {
        **common.model_head(model.cut),
        "facts": facts_data(invocation, model.cut.model.name),
        "quantity": common.quantity_data(quantity),
        **common.model_figures(model),
        "origin": cast("OriginSharesData", dict(model.origin)),
        "rests_on": rests_on(model),
        "is_measurement": model.is_measurement,
        "disturbance": {"load": found.load, "slowdown": found.slowdown} if found.marked else None,
        "composer": model.composer or None,
        "memory": cast("FootprintData | None", fits),
        "parts": [_part(each) for each in model.parts],
        "columns": columns,
    }


def _part(part: PartResult) -> FigurePartData:
    estimate, measured = part.compared.estimate, part.compared.measured
    return {
        "quantity": common.quantity_data(part.quantity),
        "estimate": estimate.value,
        "interval": estimate.interval,
        "measured": measured.value if measured else None,
    }


def _brick(result: BrickResult) -> BrickData:
    return {
        **common.brick_head(result.brick, result.occurrences),
        "quantity": common.quantity_data(result.quantity),
        **common.brick_figures(result),
        "origin": result.origin,
    }


def _adaptive(result: RunResult) -> AdaptiveRunData | None:
    """Networks that were timed for a precision; ``None`` where every brick was to be timed."""
    dial = result.adaptive
    if dial is None:
        return None
    return {
        "half_width": _finite(dial.widest),
        "half_widths": {
            model.cut.model.name: _finite(half)
            for model, half in zip(result.models, dial.half_widths, strict=True)
        },
        "bricks_timed": dial.timed,
        "models_timed": dial.wholes,
        "importing_s": dial.importing_s,
        "seconds": dial.seconds,
        "plain_s": dial.plain_s,
        "more": list(map(common.plain, dial.offers)),
        "probes": common.plain(dial.probed),
    }


def _finite(half_width: float) -> float | None:
    """A half-width; ``None`` where an estimate is missing or partial."""
    return half_width if math.isfinite(half_width) else None


def _benchmarking(benchmarking: Benchmarking | None, result: RunResult) -> BenchmarkingData:
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
        "measured_networks": result.ledger.measured,
        "reused_networks": result.ledger.reused,
    }
