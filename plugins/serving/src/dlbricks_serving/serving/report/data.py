"""Models under load, as the JSON object that scripts read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dlbricks_core.importers import LoadOptions
from dlbricks_core.report import data as common
from dlbricks_core.report.notes import notes_data
from dlbricks_serving.scenarios import PATTERNS, ScenarioAnswer
from dlbricks_serving.serving.comparing import ComparedLoads, ranked
from dlbricks_serving.serving.measured import Loaded
from dlbricks_serving.serving.report.words import warnings
from dlbricks_serving.serving.run import ModelUnderLoad, Row, UnderLoad

if TYPE_CHECKING:
    from dlbricks_serving.serving.report.json_objects import (
        ComparedLoadData,
        LoadAnswerData,
        LoadMeasuredData,
        LoadSettingsData,
        PlacementData,
        PlacementFiguresData,
        ScenarioData,
        ServeCompareData,
        ServeLoadData,
    )


def scenario_data(result: UnderLoad, load: LoadOptions | None = None) -> ServeLoadData:
    """Models under load, including every measured latency.

    Args:
        result: Figures of the models.
        load: How models were read; ``None`` if unknown.
    """
    request = result.request
    return {
        "schema_version": common.SCHEMA_VERSION,
        "system": common.system_data(request),
        "backend": common.backend_data(request),
        "settings": _settings(result, load),
        "scenarios": [_model(each) for each in result.models],
        "warnings": notes_data(warnings(result)),
        "notes": notes_data(result.notes),
        "failures": common.failures_data(result.failures),
    }


def _settings(result: UnderLoad, load: LoadOptions | None) -> LoadSettingsData:
    request, asked = result.request, result.asked
    return {
        "scenario": asked.scenario.value,
        "percentile": PATTERNS[asked.scenario].percentile,
        "samples_per_query": PATTERNS[asked.scenario].samples,
        "throughput_unit": f"{PATTERNS[asked.scenario].unit}/s",
        "latency_bound_ms": asked.bound_ms,
        "duration_s": asked.seconds,
        "end_to_end": asked.end_to_end,
        "protocol": request.protocol.name,
        "seed": request.seed,
        "timeout_s": request.timeout_s,
        **common.reading_data(load),
        **common.cutting_data(result.cut_options, result.predictor),
    }


def compared_loads_data(result: ComparedLoads, load: LoadOptions | None = None) -> ServeCompareData:
    """Models under load on several backends.

    Args:
        result: Figures of the models.
        load: How models were read; ``None`` if unknown.
    """
    return {
        "schema_version": common.SCHEMA_VERSION,
        "settings": _settings(next(iter(result.runs.values())), load),
        "scenarios": [_compared(each) for each in result.models],
        "backends": {name: scenario_data(run, load) for name, run in result.runs.items()},
        "failures": common.failures_data(result.failures),
    }


def _compared(found: Mapping[str, ModelUnderLoad]) -> ComparedLoadData:
    model = next(iter(found.values())).model
    return {
        "name": model.name,
        "source": model.source,
        "ranking": [{"backend": name, **_placement(row)} for name, row in ranked(found)],
    }


def _model(found: ModelUnderLoad) -> ScenarioData:
    best = found.best
    return {
        "name": found.model.name,
        "source": found.model.source,
        "best": None if best is None else _placement(best),
        "placements": [_row(row) for row in found.rows],
    }


def _placement(row: Row) -> PlacementData:
    return {"instances": row.placement.instances, "threads": row.placement.threads}


def _row(row: Row) -> PlacementFiguresData:
    return {
        **_placement(row),
        "composed": None if row.composed is None else _figures(row.composed),
        "predicted": row.predicted,
        "measured": _measured(row.measured),
        "throughput_error": row.throughput_error,
        "tail_error": row.tail_error,
    }


def _figures(answer: ScenarioAnswer) -> LoadAnswerData:
    return {
        "throughput": answer.throughput,
        "throughput_interval": answer.throughput_interval,
        "p50_ms": answer.p50,
        "p90_ms": answer.p90,
        "p99_ms": answer.p99,
        "tail_interval_ms": answer.tail_interval,
        "early_stopping_ms": answer.early_stopping_ms,
        "holds": answer.holds,
        "queries": answer.queries,
    }


def _measured(loaded: Loaded | None) -> LoadMeasuredData | None:
    if loaded is None or loaded.answer is None:
        return None
    overhead = loaded.overhead
    return {
        **_figures(loaded.answer),
        "stored": loaded.stored,
        "latencies_ms": [float(each) for each in loaded.latency_ms],
        "trials": [
            {"qps": each.qps, "holds": each.holds, "queries": each.queries}
            for each in loaded.trials
        ],
        "overhead": None
        if overhead is None
        else {
            "median_us": overhead.median_us,
            "p99_us": overhead.p99_us,
            "generator_cores": overhead.cores,
        },
        "warnings": notes_data(loaded.warnings),
    }
