"""Models under load, as the JSON object that scripts read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypedDict

from dlbricks_core.importers import LoadOptions
from dlbricks_core.report import data as common
from dlbricks_core.report.notes import notes_data
from dlbricks_serving.scenarios import PATTERNS, ScenarioAnswer
from dlbricks_serving.serving.comparing import ComparedLoads, ranked
from dlbricks_serving.serving.measured import Loaded
from dlbricks_serving.serving.report.words import warnings
from dlbricks_serving.serving.run import ModelUnderLoad, Row, UnderLoad


class ServeLoadData(common.ListedFailuresData):
    """Output of ``dlbricks serve``."""

    system: common.SystemData  #: The system that the figures are of.
    backend: common.BackendData  #: The framework.
    settings: LoadSettingsData  #: The load.
    scenarios: list[ScenarioData]  #: One for each model.
    warnings: list[common.NoteData]  #: Disturbances of the measurement.
    notes: list[common.NoteData]  #: Basis of predictions, and reasons to doubt them.


class ServeCompareData(common.ListedFailuresData):
    """Output of ``dlbricks serve compare``."""

    settings: LoadSettingsData  #: The load, the same for all frameworks.
    scenarios: list[ComparedLoadData]  #: One for each model.
    #: Figures by the framework's name, as in the output of ``dlbricks serve``.
    backends: dict[str, ServeLoadData]


class ComparedLoadData(TypedDict):
    """A model under load on several frameworks."""

    name: str  #: Name of the model.
    source: str  #: File or collection that it came from.
    #: The best n x m on each framework that keeps the bound, the best framework first.
    ranking: list[RankedPlacementData]


class PlacementData(TypedDict):
    """Instances of a model, each with cores of its own."""

    instances: int  #: Number of instances.
    threads: int  #: Threads, and cores, of each.


class RankedPlacementData(PlacementData):
    """A framework with its best n x m."""

    backend: str  #: Name of the framework.


class LoadSettingsData(common.ReadingData, common.CuttingData):
    """A load of MLPerf Inference, and how models were read and cut.

    One inference is one sample for every size of batch axes.
    """

    scenario: Literal["offline", "server", "single-stream", "multi-stream"]  #: The load pattern.
    #: Share of the queries whose latency counts; null where latency does not.
    percentile: float | None
    samples_per_query: int  #: Inferences that a query asks for.
    throughput_unit: str  #: Unit of every throughput: ``samples/s`` or ``queries/s``.
    max_latency_ms: float | None  #: Bound on that percentile; null for none.
    duration_s: float  #: Seconds that a load takes at least.
    end_to_end: bool  #: Whether whole models were put under load.
    protocol: str  #: How networks were timed that run alone.
    seed: int  #: Of weights, inputs and arrivals.
    timeout_s: float  #: Seconds that a network may take to load or to run once.


class ScenarioData(TypedDict):
    """A model under load."""

    name: str  #: Name of the model.
    source: str  #: File or collection that it came from.
    #: The n x m with the best figure of those that keep the bound; null if none does.
    best: PlacementData | None
    placements: list[PlacementFiguresData]  #: One for each n x m.


class LoadAnswerData(TypedDict):
    """Figures of instances under load, composed from bricks."""

    #: Samples or queries per second. In the server scenario the highest rate that keeps the bound;
    #: 0 if none does.
    throughput: float
    #: 90% interval; in the server scenario of a measurement, the rates that the search ended
    #: between. Null if not known.
    throughput_interval: common.Interval | None
    p50_ms: float  #: Median latency of a query; in the offline scenario, of an inference.
    p90_ms: float  #: 90th percentile of the same.
    p99_ms: float  #: 99th percentile of the same.
    #: 90% interval of the scenario's percentile; of the 99th where it has none.
    tail_interval_ms: common.Interval | None
    #: Estimate of the percentile by MLPerf's rule of early stopping; null where queries are too
    #: few, or the scenario has none.
    early_stopping_ms: float | None
    holds: bool | None  #: Whether the percentile is within the bound; null without a bound.
    #: Number of queries of the latencies; simulated queries if the latencies are composed.
    queries: int


class LoadMeasuredData(LoadAnswerData):
    """Measured figures of instances of the whole model under load."""

    stored: bool  #: Whether an earlier run measured it.
    latencies_ms: list[float]  #: Latency of every query, in the order of arrival.
    #: Runs of the search for a rate. Empty in other scenarios, and if stored.
    trials: list[TrialData]
    overhead: LoadOverheadData | None  #: Time that the load generator added; null if stored.
    warnings: list[common.NoteData]  #: Disturbances of the machine meanwhile.


class TrialData(TypedDict):
    """A run of the server scenario at one rate."""

    qps: float  #: Queries that arrived per second, on average.
    holds: bool  #: Whether the 99th percentile was within the bound.
    queries: int  #: Queries that were served; a run that cannot hold ends early.


class LoadOverheadData(TypedDict):
    """Time that the load generator adds."""

    #: Microseconds from when a sample had arrived and its instance was free until the inference
    #: began: the median.
    median_us: float
    p99_us: float  #: The 99th percentile of the same.
    generator_cores: float  #: Cores that the generator's process kept busy.


class PlacementFiguresData(PlacementData):
    """Figures of one n x m."""

    composed: LoadAnswerData | None  #: From bricks, or predicted; null if nothing is known.
    predicted: bool  #: Whether ``composed`` is predicted, because no bricks ran side by side.
    measured: LoadMeasuredData | None  #: From the whole model; null where only bricks ran.
    throughput_error: float | None  #: Relative error of the composed throughput.
    #: Relative error of the composed percentile, in the server scenario at the measured rate.
    tail_error: float | None


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
        "max_latency_ms": asked.bound_ms,
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
