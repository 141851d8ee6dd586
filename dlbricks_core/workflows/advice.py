"""Records of advice: the user's wishes, the alternatives, and their ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from dlbricks_core.errors import DLBricksError
from dlbricks_core.facts import LATENCY, Composition, Failure, Quantity
from dlbricks_core.figures.figure import Origin, interval
from dlbricks_core.figures.statistics import FloatArray
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.measure.probe import Probe
from dlbricks_core.wording import argument, settings
from dlbricks_core.workflows.places import Place
from dlbricks_core.workflows.requirements import Basis, Known, Requirement
from dlbricks_core.workflows.tariff import Accuracies, Prices

MILLION = 1_000_000
"""Number of inferences that a price refers to."""

PRICE = "price"
"""Name of the price, which alternatives may be ordered by like a measured quantity."""

_MS_PER_HOUR = 3_600_000.0


def price_in(currency: str) -> Quantity:
    """The price of a million inferences as a quantity, in a currency."""
    unit = f"{currency} for a million inferences"
    return Quantity(PRICE, unit, Composition.SUM, "price of inferences")


def order_by(name: str, prices: Prices | None) -> Requirement:
    """The quantity by which alternatives are ordered, from its name.

    Args:
        name: ``latency``, ``price``, or the name of a quantity that has a probe.
        prices: Prices of systems; ``None`` if unknown.

    Raises:
        DLBricksError: If the price is named, but prices are unknown.
        PluginError: If there is no such quantity, or its probe is broken.
    """
    if name != PRICE:
        return Requirement.of(name)
    if prices is None:
        raise DLBricksError(
            f"{settings(by=PRICE)} needs prices of the systems",
            hint=f"Name a file with them: {argument('prices')}.",
        )
    return Requirement(price_in(prices.currency))


@dataclass(frozen=True)
class Wanted:
    """The user's requirements and data for advice.

    Attributes:
        max_latency_ms: Maximum permitted latency in milliseconds; ``None`` for no limit.
        min_accuracy: Minimum permitted accuracy; ``None`` for no limit.
        prices: Prices of systems.
        accuracies: Accuracies of models. With accuracies the models are alternatives for one task.
        batch: Number of inferences in one run of a model.
        requirements: Bounds on quantities, which may include latency.
        by: Quantity whose least value comes first; ``None`` for the price if there are prices, and
            for the latency otherwise.
    """

    max_latency_ms: float | None = None
    min_accuracy: float | None = None
    prices: Prices | None = None
    accuracies: Accuracies | None = None
    batch: int = 1
    requirements: Sequence[Requirement] = ()
    by: Requirement | None = None

    @property
    def order(self) -> Requirement:
        """The quantity whose least value comes first."""
        if self.by is not None:
            return self.by
        return Requirement(price_in(self.prices.currency) if self.prices else LATENCY)

    @property
    def longest_ms(self) -> float | None:
        """Maximum latency in milliseconds that all bounds permit; ``None`` for no limit."""
        own = [each.most for each in self.requirements if each.quantity == LATENCY]
        return min(
            [*own, *([] if self.max_latency_ms is None else [self.max_latency_ms])], default=None
        )

    @property
    def others(self) -> list[Requirement]:
        """Requirements on all quantities with a probe: the one to order by, and the bounds."""
        bounded = [each for each in self.requirements if each.probe is not None]
        by = self.order
        is_told = by.probe is None or by.quantity in [each.quantity for each in bounded]
        return bounded if is_told else [by, *bounded]

    @property
    def probes(self) -> list[Probe]:
        """Probes of the quantities in :attr:`others`."""
        return [each.probe for each in self.others if each.probe is not None]

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


@dataclass(frozen=True, eq=False)
class Alternative:
    """One model in one place: a system with a setup.

    Attributes:
        model: The model.
        place: System and setup.
        ms: Latency of one run, in milliseconds.
        draws: Equally likely latencies in milliseconds: shape (RESAMPLES,). The i-th draws of all
            alternatives are joint.
        basis: Basis of the latency: measured, composed or predicted.
        origin: Shares of the sum over the bricks by the origin of their figures; entirely stored if
            the whole model was measured.
        batch: Number of inferences in one run.
        per_hour: Price of the system per hour; ``None`` if unknown.
        accuracy: Accuracy of the model; ``None`` if unknown.
        required: Figures of the quantities in :attr:`Wanted.others`, one for each.
    """

    model: CanonicalModel
    place: Place
    ms: float
    draws: FloatArray
    basis: Basis
    origin: Mapping[Origin, float]
    batch: int = 1
    per_hour: float | None = None
    accuracy: float | None = None
    required: Sequence[Known] = ()

    @property
    def interval_ms(self) -> tuple[float, float]:
        """90% interval of the latency in milliseconds."""
        return interval(self.draws)

    @property
    def per_second(self) -> float:
        """Inferences per second of one process that runs the model repeatedly."""
        return 1e3 * self.batch / self.ms

    @property
    def per_second_interval(self) -> tuple[float, float]:
        """90% interval of the inferences per second."""
        return interval(1e3 * self.batch / self.draws)

    @property
    def price(self) -> float | None:
        """Price of a million inferences by one process that uses the system alone."""
        return None if self.per_hour is None else self.ms * self._per_ms(self.per_hour)

    @property
    def price_interval(self) -> tuple[float, float] | None:
        """90% interval of the price."""
        return None if self.per_hour is None else interval(self.draws * self._per_ms(self.per_hour))

    def known(self, asked: Requirement) -> Known:
        """Figure of a quantity by which alternatives are ordered.

        Raises:
            ValueError: If the quantity is neither latency, nor a known price, nor required.
        """
        for each in self.required:
            if each.requirement.quantity == asked.quantity:
                return each
        if asked.quantity == LATENCY:
            return Known(asked, self.ms, self.draws, self.basis)
        if self.per_hour is None:
            raise ValueError(f"nothing is known of {asked.quantity.name}")
        per_ms = self._per_ms(self.per_hour)
        return Known(asked, self.ms * per_ms, self.draws * per_ms, self.basis)

    def _per_ms(self, per_hour: float) -> float:
        return per_hour / _MS_PER_HOUR * MILLION / self.batch


@dataclass(frozen=True)
class Ranked:
    """An alternative with its rank.

    Attributes:
        alternative: The alternative.
        by: Figure of the quantity by which alternatives are ordered.
        first: Probability of the least value of that quantity among the alternatives that keep all
            bounds.
        keeps: Probability of keeping all bounds; 1 if there is none.
        is_allowed: Whether the alternative is expected to keep all bounds.
        front: Probability of lying on the Pareto front; ``None`` without accuracies.
        is_on_front: Whether the alternative is expected to lie on the front.
    """

    alternative: Alternative
    by: Known
    first: float
    keeps: float
    is_allowed: bool
    front: float | None = None
    is_on_front: bool = False


@dataclass(frozen=True)
class Ranking:
    """Alternatives for one task, the best first. Alternatives that exceed a bound come last.

    Attributes:
        name: Name of the model, or the number of models.
        ranked: The alternatives.
    """

    name: str
    ranked: Sequence[Ranked]

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
    """Advice on the place to run models in, and on the model to choose.

    Attributes:
        wanted: The user's requirements.
        rankings: A ranking for each model, or a single one if the models are alternatives.
        places: Candidate places.
        notes: Remarks on the figures.
        failures: Models without a latency or an accuracy.
        unread: Models that could not be loaded.
    """

    wanted: Wanted
    rankings: Sequence[Ranking]
    places: Sequence[Place]
    notes: Sequence[str] = ()
    failures: Sequence[Failure] = ()
    unread: Sequence[Failure] = ()

    @cached_property
    def alternatives(self) -> list[Alternative]:
        """All alternatives."""
        return [each.alternative for ranking in self.rankings for each in ranking.ranked]
