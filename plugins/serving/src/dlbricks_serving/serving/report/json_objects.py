"""Models under load in JSON."""

from __future__ import annotations

from typing import Literal, TypedDict

from dlbricks_core.report import data as common


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
    latency_bound_ms: float | None  #: Bound on that percentile; null for none.
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
