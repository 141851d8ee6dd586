"""Models under load in JSON."""

from __future__ import annotations

from typing import Literal, TypedDict

from dlbricks_core.report.data import (
    BackendData,
    CuttingData,
    Interval,
    ListedFailuresData,
    NoteData,
    ReadingData,
    SystemData,
)


class ServeLoadData(ListedFailuresData):
    """Output of ``dlbricks serve``.

    Attributes:
        system: The system that the figures are of.
        backend: The framework.
        settings: The load.
        scenarios: One for each model.
        warnings: Disturbances of the measurement.
        notes: Basis of predictions, and reasons to doubt them.
    """

    system: SystemData
    backend: BackendData
    settings: LoadSettingsData
    scenarios: list[ScenarioData]
    warnings: list[NoteData]
    notes: list[NoteData]


class ServeCompareData(ListedFailuresData):
    """Output of ``dlbricks serve compare``.

    Attributes:
        settings: The load, the same for all frameworks.
        scenarios: One for each model.
        backends: Figures by the framework's name, as in the output of ``dlbricks serve``.
    """

    settings: LoadSettingsData
    scenarios: list[ComparedLoadData]
    backends: dict[str, ServeLoadData]


class ComparedLoadData(TypedDict):
    """A model under load on several frameworks.

    Attributes:
        name: Name of the model.
        source: File or collection that it came from.
        ranking: The best n x m on each framework that keeps the bound, the best framework first.
    """

    name: str
    source: str
    ranking: list[RankedPlacementData]


class PlacementData(TypedDict):
    """Instances of a model, each with cores of its own.

    Attributes:
        instances: Number of instances.
        threads: Threads, and cores, of each.
    """

    instances: int
    threads: int


class RankedPlacementData(PlacementData):
    """A framework with its best n x m.

    Attributes:
        backend: Name of the framework.
    """

    backend: str


class LoadSettingsData(ReadingData, CuttingData):
    """A load of MLPerf Inference, and how models were read and cut.

    One inference is one sample, whatever the size of batch axes.

    Attributes:
        scenario: The load pattern.
        percentile: Share of the queries whose latency counts; null where latency does not.
        samples_per_query: Inferences that a query asks for.
        throughput_unit: Unit of every throughput: ``samples/s`` or ``queries/s``.
        latency_bound_ms: Bound on that percentile; null for none.
        duration_s: Seconds that a load takes at least.
        end_to_end: Whether whole models were put under load.
        protocol: How networks were timed that run alone.
        seed: Of weights, inputs and arrivals.
        timeout_s: Seconds that a network may take to load or to run once.
    """

    scenario: Literal["offline", "server", "single-stream", "multi-stream"]
    percentile: float | None
    samples_per_query: int
    throughput_unit: str
    latency_bound_ms: float | None
    duration_s: float
    end_to_end: bool
    protocol: str
    seed: int
    timeout_s: float


class ScenarioData(TypedDict):
    """A model under load.

    Attributes:
        name: Name of the model.
        source: File or collection that it came from.
        best: The n x m with the best figure of those that keep the bound; null if none does.
        placements: One for each n x m.
    """

    name: str
    source: str
    best: PlacementData | None
    placements: list[PlacementFiguresData]


class LoadAnswerData(TypedDict):
    """Figures of instances under load, composed from bricks.

    Attributes:
        throughput: Samples or queries per second. In the server scenario the highest rate that
            keeps the bound; 0 if none does.
        throughput_interval: 90% interval; in the server scenario of a measurement, the rates that
            the search ended between. Null if not known.
        p50_ms: Median latency of a query; in the offline scenario, of an inference.
        p90_ms: 90th percentile of the same.
        p99_ms: 99th percentile of the same.
        tail_interval_ms: 90% interval of the scenario's percentile; of the 99th where it has none.
        early_stopping_ms: Estimate of the percentile by MLPerf's rule of early stopping; null where
            queries are too few, or the scenario has none.
        holds: Whether the percentile is within the bound; null without a bound.
        queries: Queries that the latencies are of; simulated ones where they are composed.
    """

    throughput: float
    throughput_interval: Interval | None
    p50_ms: float
    p90_ms: float
    p99_ms: float
    tail_interval_ms: Interval | None
    early_stopping_ms: float | None
    holds: bool | None
    queries: int


class LoadMeasuredData(LoadAnswerData):
    """Measured figures of instances of the whole model under load.

    Attributes:
        stored: Whether an earlier run measured it.
        latencies_ms: Latency of every query, in the order of arrival.
        trials: Runs of the search for a rate. Empty in other scenarios, and if stored.
        overhead: Time that the load generator added; null if stored.
        warnings: Disturbances of the machine meanwhile.
    """

    stored: bool
    latencies_ms: list[float]
    trials: list[TrialData]
    overhead: LoadOverheadData | None
    warnings: list[NoteData]


class TrialData(TypedDict):
    """A run of the server scenario at one rate.

    Attributes:
        qps: Queries that arrived per second, on average.
        holds: Whether the 99th percentile was within the bound.
        queries: Queries that were served; a run that cannot hold ends early.
    """

    qps: float
    holds: bool
    queries: int


class LoadOverheadData(TypedDict):
    """Time that the load generator adds.

    Attributes:
        median_us: Microseconds from when a sample had arrived and its instance was free until the
            inference began: the median.
        p99_us: The 99th percentile of the same.
        generator_cores: Cores that the generator's process kept busy.
    """

    median_us: float
    p99_us: float
    generator_cores: float


class PlacementFiguresData(PlacementData):
    """Figures of one n x m.

    Attributes:
        composed: From bricks, or predicted; null if nothing is known.
        predicted: Whether ``composed`` is predicted, because no bricks ran side by side.
        measured: From the whole model; null where only bricks ran.
        throughput_error: Relative error of the composed throughput.
        tail_error: Relative error of the composed percentile, in the server scenario at the
            measured rate.
    """

    composed: LoadAnswerData | None
    predicted: bool
    measured: LoadMeasuredData | None
    throughput_error: float | None
    tail_error: float | None
