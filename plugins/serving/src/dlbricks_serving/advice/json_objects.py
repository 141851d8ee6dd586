"""Advice in JSON."""

from __future__ import annotations

from typing import Literal, TypedDict

from dlbricks_core.report.data import (
    Interval,
    ListedFailuresData,
    NoteData,
    QuantityData,
    ReadingData,
)
from dlbricks_core.report.run.data import OriginSharesData


class AdviseData(ListedFailuresData):
    """Output of ``dlbricks advise``.

    Attributes:
        settings: The request.
        systems: Systems that models might run on.
        rankings: One for each model, or one for all of them if they are alternatives for one task.
        notes: Remarks on the figures.
    """

    settings: AdviseSettingsData
    systems: list[AdvisedSystemData]
    rankings: list[AdvisedRankingData]
    notes: list[NoteData]


class AdviseSettingsData(ReadingData):
    """Settings of an advice, and how models were read: a run makes as many inferences as its batch.

    Attributes:
        max_latency_ms: Longest latency that is allowed; of an answer, longest total time; under
            load, longest percentile.
        min_accuracy: Least accuracy that is allowed.
        currency: Currency of the prices; null if none were given.
        predictor: Predictor of bricks that the store did not hold; null for none.
        workload: Workload of language models; null if models are compared by single runs.
        counted: Outputs of runs that prices and rates refer to: ``inferences``, ``output tokens``,
            ``samples`` or ``queries``.
        required: Bounds of quantities other than latency.
        by: The quantity whose best value comes first, with its unit.
        scenario: Load of the systems; null if models are compared by single runs or answers.
    """

    max_latency_ms: float | None
    min_accuracy: float | None
    currency: str | None
    predictor: str | None
    workload: AdvisedWorkloadData | None
    counted: str
    required: list[RequirementData]
    by: QuantityData
    scenario: Literal["offline", "server", "single-stream", "multi-stream"] | None


class AdvisedWorkloadData(TypedDict):
    """Work of a language model for one request.

    Attributes:
        prompt: Tokens of the prompt.
        generate: Output tokens.
        depth: Tokens that the cache holds before the prompt.
        batch: Requests that are computed together.
    """

    prompt: int
    generate: int
    depth: int
    batch: int


class AdvisedSystemData(TypedDict):
    """A system that models might run on.

    Attributes:
        fingerprint: Identifies systems that give the same latencies.
        machine: Name of the machine, if it has one or equal machines are listed apart.
        cpu: Name of the processor.
        description: The system in a line, for people.
        only_in_reference_data: Whether only the reference data have it, not the store.
    """

    fingerprint: str
    machine: str | None
    cpu: str
    description: str
    only_in_reference_data: bool


class AdvisedRankingData(TypedDict):
    """Alternatives for one task.

    Attributes:
        name: Name of the model, or how many there are.
        alternatives: The first first. Those that are not expected to keep the bound come last.
    """

    name: str
    alternatives: list[AdvisedAlternativeData]


class AlternativeData(TypedDict):
    """A model in a place.

    Attributes:
        model: Name of the model.
        quantity: Quantity of the estimate, and its unit: latency.
        source: File or collection, as the user named it.
        system: Fingerprint of the system.
        machine: Name of the machine, if it has one or equal machines are listed apart.
        backend: Name of the framework.
        backend_version: Version of the framework.
        backend_options: Options of the framework, as JSON.
        threads: Threads for one operator.
        instances: Processes that run the model at the same time, each with these threads; null for
            one process that has the system for itself.
        basis: Basis of the latency: samples of the whole model there, of its bricks there, or a
            predictor for some of them at least.
        origin: Shares of the sum over the model's known bricks, by where their latencies come from.
            They add up to 1; empty if no brick is known.
        estimate: Latency of a run, total time of an answer, or under load the scenario's percentile
            of the latency.
        interval: Its 90% interval.
        per_second: Inferences, or output tokens of answers, a second of one process; under load,
            samples or queries of all instances. 0 if no rate keeps the bound.
        per_second_interval: Their 90% interval.
        load: Share of the CPUs that other programs used during the measurements behind the
            latency, from 0 to 1: on a quiet machine it would be lower.
        per_hour: Price of an hour of the system.
        price_per_million: Price of a million of them if the system does nothing else; null without
            prices, and if there are none of them.
        price_interval: Its 90% interval.
        accuracy: Accuracy of the model, in the unit of the user's file.
        required: Figures of the quantities other than latency that are bounded, by which
            alternatives are ordered, or that every answer has: ``time-to-first-token`` and
            ``time-per-output-token``.
    """

    model: str
    quantity: QuantityData
    source: str
    system: str
    machine: str | None
    backend: str
    backend_version: str
    backend_options: str
    threads: int
    instances: int | None
    basis: Literal["measured", "composed", "predicted"]
    origin: OriginSharesData
    estimate: float
    interval: Interval
    per_second: float
    per_second_interval: Interval
    load: float
    per_hour: float | None
    price_per_million: float | None
    price_interval: Interval | None
    accuracy: float | None
    required: list[RequiredFigureData]


class AdvisedAlternativeData(AlternativeData):
    """One model in one place.

    Attributes:
        allowed: Whether it is expected to keep the bound of latency.
        keeps_probability: Probability of keeping that bound; 1 if there is none.
        first_probability: Probability of being the first of those that keep it. They sum to less
            than 1 where perhaps none does.
        on_front: Whether it is expected to be on the Pareto front; null without accuracies.
        front_probability: Probability of being on the front.
        by: Figure of the quantity by which alternatives are ordered.
    """

    allowed: bool
    keeps_probability: float
    first_probability: float
    on_front: bool | None
    front_probability: float | None
    by: OrderedByData


class RequirementData(TypedDict):
    """The most that a quantity may be.

    Attributes:
        quantity: Bounded quantity.
        maximum: Largest value that is allowed, in the unit of the quantity.
    """

    quantity: QuantityData
    maximum: float


class RequiredFigureData(TypedDict):
    """Figure of a quantity other than latency that is bounded or that orders alternatives.

    Attributes:
        quantity: Bounded quantity.
        value: Its value, in the unit of the quantity.
        interval: 90% interval of it.
        maximum: Maximum permitted value, in the quantity's unit; null for no bound.
        allowed: Whether the value is expected to keep that.
        keeps_probability: Probability that it does.
        basis: Basis of the value.
    """

    quantity: QuantityData
    value: float
    interval: Interval
    maximum: float | None
    allowed: bool
    keeps_probability: float
    basis: Literal["measured", "composed", "predicted"]


class OrderedByData(TypedDict):
    """Figure of the quantity by which alternatives are ordered, in its unit.

    Attributes:
        value: The value; null for the price of something that is not served at all.
        interval: 90% interval; null if it has no end.
        basis: Basis of the value.
    """

    value: float | None
    interval: Interval | None
    basis: Literal["measured", "composed", "predicted"]
