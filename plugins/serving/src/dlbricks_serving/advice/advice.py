"""Records of advice: the user's wishes, the alternatives, and their ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from dlbricks_sizes.answers import SHORT, quantities_of
from dlbricks_sizes.workloads import Basis

from dlbricks_core.commands.options.workload import Workload
from dlbricks_core.errors import DLBricksError
from dlbricks_core.facts import LATENCY, Composition, Failure, Note, Quantity
from dlbricks_core.figures.figure import Origin, interval
from dlbricks_core.figures.statistics import DOUBTFUL_LOAD, FloatArray
from dlbricks_core.importers import LoadOptions
from dlbricks_core.measure.metric import Metric
from dlbricks_core.wording import argument, settings
from dlbricks_serving.advice.choice import Mask
from dlbricks_serving.advice.places import Place
from dlbricks_serving.advice.requirements import THROUGHPUT, RequiredFigure, Requirement
from dlbricks_serving.advice.tariff import Accuracies, Prices
from dlbricks_serving.advice.tasks import AdviceTask
from dlbricks_serving.scenarios import PATTERNS, Scenario

MILLION = 1_000_000
"""Number of inferences or output tokens that a price refers to."""

PRICE = "price"
"""Name of the price, which alternatives may be ordered by like a measured quantity."""

_S_PER_HOUR = 3600.0
"""Seconds of an hour, for which machines are paid."""


def counted(workload: Workload | None, scenario: Scenario | None = None) -> str:
    """Outputs of runs that prices and rates refer to: inferences, tokens, samples or queries."""
    if scenario is not None:
        return PATTERNS[scenario].unit
    return "inferences" if workload is None else "output tokens"


def price_in(
    currency: str, workload: Workload | None = None, scenario: Scenario | None = None
) -> Quantity:
    """The price of a million outputs as a quantity, in a currency."""
    what = counted(workload, scenario)
    return Quantity(PRICE, f"{currency} for a million {what}", Composition.SUM, f"price of {what}")


def order_by(
    name: str,
    prices: Prices | None,
    workload: Workload | None = None,
    scenario: Scenario | None = None,
) -> Requirement:
    """The quantity by which alternatives are ordered, from its name.

    Args:
        name: ``latency``, ``price``, ``throughput``, a quantity of an answer, or one that has a
            metric.
        prices: Prices of systems; ``None`` if unknown.
        workload: Workload of language models; ``None`` for single runs.
        scenario: Load of the systems; ``None`` for single runs.

    Raises:
        DLBricksError: If the price is named, but prices are unknown.
        PluginError: If there is no such quantity, or its metric is broken.
    """
    if name != PRICE:
        return Requirement.of(name)
    if prices is None:
        raise DLBricksError(
            f"{settings(by=PRICE)} needs prices of the systems",
            hint=f"Name a file with them: {argument('prices')}.",
        )
    return Requirement(price_in(prices.currency, workload, scenario))


@dataclass(frozen=True)
class AdviceRequest:
    """The user's requirements and data for advice."""

    #: Maximum permitted latency in milliseconds; ``None`` for no limit.
    max_latency_ms: float | None = None
    min_accuracy: float | None = None  #: Minimum permitted accuracy; ``None`` for no limit.
    prices: Prices | None = None  #: Prices of systems.
    #: Accuracies of models. With accuracies the models are alternatives for one task.
    accuracies: Accuracies | None = None
    #: How models are read; each size of batch axes is so many inferences in one run.
    reading: LoadOptions = field(default_factory=LoadOptions)
    predictor: str | None = None  #: Predictor of figures that the store lacks; ``None`` for none.
    requirements: Sequence[Requirement] = ()  #: Bounds on quantities, which may include latency.
    #: Quantity whose best value comes first; ``None`` for the price if there are prices, and for
    #: the latency or the scenario's figure otherwise.
    by: Requirement | None = None
    #: Workload that language models answer; ``None`` for one run of each model. The latency of an
    #: answer is its total time.
    workload: Workload | None = None
    #: Load of the systems; ``None`` for runs that have a system for themselves. Under load, latency
    #: is the scenario's percentile of it.
    scenario: Scenario | None = None

    @property
    def counted(self) -> str:
        """Outputs of runs that prices and rates refer to."""
        return counted(self.workload, self.scenario)

    @property
    def per_run(self) -> int:
        """Number of these outputs in one run or answer."""
        if self.scenario is not None:
            return 1
        if self.workload is None:
            return self.reading.batch or 1
        return self.workload.batch * self.workload.generate

    @property
    def order(self) -> Requirement:
        """The quantity whose best value comes first."""
        if self.by is not None:
            return self.by
        if self.prices is not None:
            return Requirement(price_in(self.prices.currency, self.workload, self.scenario))
        by_latency = self.scenario is None or PATTERNS[self.scenario].by_latency
        return Requirement(LATENCY if by_latency else THROUGHPUT)

    @property
    def longest_ms(self) -> float | None:
        """Maximum latency in milliseconds that all bounds permit; ``None`` for no limit."""
        own = [each.most for each in self.requirements if each.quantity == LATENCY]
        return min(
            [*own, *([] if self.max_latency_ms is None else [self.max_latency_ms])], default=None
        )

    @property
    def others(self) -> list[Requirement]:
        """Requirements on all quantities that have a figure beside latency and price.

        Quantities with a metric that order the alternatives or have a bound. An
        answer has its own, with a bound or without.
        """
        bounded = [each for each in self.requirements if each.quantity != LATENCY]
        if self.workload is not None:
            return [
                found
                for quantity in quantities_of(self.workload)
                for found in [each for each in bounded if each.quantity == quantity]
                or [Requirement(quantity)]
            ]
        by = self.order
        is_told = by.metric is None or by.quantity in [each.quantity for each in bounded]
        return bounded if is_told else [by, *bounded]

    @property
    def with_metric(self) -> list[Requirement]:
        """Requirements in :attr:`others` whose quantity has a metric."""
        return [each for each in self.others if each.metric is not None]

    @property
    def metrics(self) -> list[Metric]:
        """Metrics of the quantities in :attr:`with_metric`."""
        return [each.metric for each in self.others if each.metric is not None]

    @property
    def bounds(self) -> list[Requirement]:
        """Bounds on quantities other than latency."""
        return [each for each in self.others if each.is_bound]

    @property
    def is_bounded(self) -> bool:
        """Whether there is a bound that an alternative may exceed."""
        return self.longest_ms is not None or bool(self.bounds)

    def __post_init__(self) -> None:
        if self.max_latency_ms is not None and not self.max_latency_ms > 0:
            raise DLBricksError(
                f"{argument('max_latency_ms')} {self.max_latency_ms:g} is too short",
                hint="Write a time, such as 50ms.",
            )
        if self.min_accuracy is not None and self.accuracies is None:
            raise DLBricksError(
                f"{argument('min_accuracy')} needs the models' accuracies",
                hint=f"Name a file with them: {argument('accuracies')}.",
            )
        if self.scenario is not None:
            self._check_load(self.scenario)
        for each in (*self.requirements, *([] if self.by is None else [self.by])):
            self._check_told(each)

    def _check_load(self, scenario: Scenario) -> None:
        """Raises an error if the load does not fit to the other requirements."""
        if self.workload is not None:
            raise DLBricksError(
                f"{argument('scenario')} is for single runs, not for whole answers",
                hint=f"Leave {argument('prompt')} and {argument('generate')} out.",
            )
        if PATTERNS[scenario].needs_bound and self.longest_ms is None:
            raise DLBricksError(
                f"the {scenario} scenario needs a bound on the latency",
                hint=f"Give one in milliseconds, such as {settings(max_latency_ms=50)}.",
            )

    def _check_told(self, required: Requirement) -> None:
        """Raises an error if alternatives have no figure of a quantity."""
        name = required.quantity.name
        if self.scenario is not None:
            if required.quantity not in (LATENCY, THROUGHPUT) and name != PRICE:
                raise DLBricksError(
                    f"{name} is not known under load",
                    hint=f"Take latency, {THROUGHPUT.name} or {PRICE}, or leave "
                    f"{argument('scenario')} out.",
                )
        elif required.quantity == THROUGHPUT:
            raise DLBricksError(
                f"{name} is a figure of a load",
                hint=f"Name it: {settings(scenario=Scenario.OFFLINE)}.",
            )
        elif self.workload is None:
            if required.quantity in SHORT:
                raise DLBricksError(
                    f"{name} is a figure of a language model's answer",
                    hint=f"Say how long prompt and answer are: {argument('prompt')} and "
                    f"{argument('generate')}.",
                )
        elif required.metric is not None:
            raise DLBricksError(
                f"{name} is not known of a whole answer",
                hint=f"Take latency, {' or '.join(each.name for each in SHORT)}. For {name} at "
                f"each size measure it with {argument('quantity')} {name}.",
            )
        elif required.quantity in SHORT.keys() - set(quantities_of(self.workload)):
            raise DLBricksError(
                f"an answer of one token has no {name}",
                hint=f"Use {argument('generate')} 2 or more.",
            )


@dataclass(frozen=True, eq=False)
class Alternative:
    """One model in one place: a system with a setup."""

    job: AdviceTask  #: The model, and its work.
    place: Place  #: System and setup.
    ms: float  #: Latency of one run, or total time of an answer, in milliseconds.
    #: Equally likely latencies in milliseconds: shape (RESAMPLES,). The i-th draws of all
    #: alternatives are joint.
    draws: FloatArray
    basis: Basis  #: Basis of the latency: measured, composed or predicted.
    #: Shares of the sum over the bricks by the origin of their figures; entirely stored if the
    #: whole model was measured.
    origin: Mapping[Origin, float]
    per_run: int = 1  #: Number of inferences in one run, or of output tokens in an answer.
    per_hour: float | None = None  #: Price of the system per hour; ``None`` if unknown.
    accuracy: float | None = None  #: Accuracy of the model; ``None`` if unknown.
    #: Figures of the quantities in :attr:`AdviceRequest.others`, one for each.
    required: Sequence[RequiredFigure] = ()
    #: Throughput of all instances under load; ``None`` for a process that has the system for
    #: itself.
    rate: RequiredFigure | None = None
    #: Share of the CPUs that other programs used during the measurements of the latency, from 0 to
    #: 1.
    load: float = 0.0

    @property
    def is_doubtful(self) -> bool:
        """Whether others used so much of the CPUs that the latency is doubtful."""
        return self.load >= DOUBTFUL_LOAD

    @property
    def interval_ms(self) -> tuple[float, float]:
        """90% interval of the latency in milliseconds."""
        return interval(self.draws, self.ms)

    @property
    def per_second(self) -> float:
        """Outputs per second: of one process that repeats the job, or of all instances."""
        return 1e3 * self.per_run / self.ms if self.rate is None else self.rate.value

    @property
    def per_second_draws(self) -> FloatArray:
        """Equally likely rates per second: shape (RESAMPLES,)."""
        return 1e3 * self.per_run / self.draws if self.rate is None else self.rate.draws

    @property
    def per_second_interval(self) -> tuple[float, float]:
        """90% interval of the rate per second."""
        return interval(self.per_second_draws, self.per_second)

    @property
    def serves(self) -> Mask:
        """Whether there are outputs in each draw; a bound may leave none. Shape (RESAMPLES,)."""
        return np.asarray(self.per_second_draws > 0)

    @property
    def price(self) -> float | None:
        """Price of a million outputs if nothing else uses the system; ``None`` if unknown."""
        if self.per_hour is None or not self.per_second:
            return None
        return MILLION * self.per_hour / _S_PER_HOUR / self.per_second

    @property
    def price_interval(self) -> tuple[float, float] | None:
        """90% interval of the price; ``None`` if the price is unknown, or may be infinite."""
        if self.per_hour is None or not self.serves.all():
            return None
        return interval(self._price_draws(self.per_hour), self.price)

    def known(self, asked: Requirement) -> RequiredFigure:
        """Figure of a quantity by which alternatives are ordered.

        Raises:
            ValueError: If the quantity is neither latency, nor a known price, nor required.
        """
        for each in self.required:
            if each.requirement.quantity == asked.quantity:
                return each
        if asked.quantity == LATENCY:
            return RequiredFigure(asked, self.ms, self.draws, self.basis)
        if asked.quantity == THROUGHPUT:
            return RequiredFigure(asked, self.per_second, self.per_second_draws, self.basis)
        if self.per_hour is None:
            raise ValueError(f"nothing is known of {asked.quantity.name}")
        price = np.inf if self.price is None else self.price
        return RequiredFigure(asked, price, self._price_draws(self.per_hour), self.basis)

    def _price_draws(self, per_hour: float) -> FloatArray:
        """Equally likely prices; infinite where there are no outputs: shape (RESAMPLES,)."""
        with np.errstate(divide="ignore"):
            return np.asarray(MILLION * per_hour / _S_PER_HOUR / self.per_second_draws)


@dataclass(frozen=True)
class Ranked:
    """An alternative with its rank."""

    alternative: Alternative  #: The alternative.
    by: RequiredFigure  #: Figure of the quantity by which alternatives are ordered.
    #: Probability of the least value of that quantity among the alternatives that keep all bounds.
    first: float
    keeps: float  #: Probability of keeping all bounds; 1 if there is none.
    is_allowed: bool  #: Whether the alternative is expected to keep all bounds.
    #: Probability of lying on the Pareto front; ``None`` without accuracies.
    front: float | None = None
    is_on_front: bool = False  #: Whether the alternative is expected to lie on the front.


@dataclass(frozen=True)
class TaskRanking:
    """Alternatives for one task, the best first. Alternatives that exceed a bound come last."""

    name: str  #: Name of the model, or the number of models.
    ranked: Sequence[Ranked]  #: The alternatives.

    @property
    def first(self) -> Ranked | None:
        """The recommended alternative; ``None`` if none is expected to keep the bounds."""
        return next((each for each in self.ranked if each.is_allowed), None)

    @property
    def front(self) -> list[Ranked]:
        """Alternatives on the Pareto front, the most accurate first."""
        found = [each for each in self.ranked if each.is_on_front]
        return sorted(found, key=lambda each: -(each.alternative.accuracy or 0.0))


@dataclass(frozen=True)
class Advice:
    """Advice on the place to run models in, and on the model to choose."""

    wanted: AdviceRequest  #: The user's requirements.
    #: A ranking for each model, or a single one if the models are alternatives.
    rankings: Sequence[TaskRanking]
    places: Sequence[Place]  #: Candidate places.
    notes: Sequence[Note] = ()  #: Remarks on the figures.
    failures: Sequence[Failure] = ()  #: Models without a latency or an accuracy.
    unread: Sequence[Failure] = ()  #: Models that could not be loaded.

    @property
    def is_complete(self) -> bool:
        """Whether no figure is missing, and each ranking has a first that nobody need doubt."""
        firsts = [each.first for each in self.rankings]
        sure = all(each is not None and not each.alternative.is_doubtful for each in firsts)
        return not self.failures and sure

    @cached_property
    def alternatives(self) -> list[Alternative]:
        """All alternatives."""
        return [each.alternative for ranking in self.rankings for each in ranking.ranked]
