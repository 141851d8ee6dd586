"""Requirements on quantities for advice: bounds, or the order of alternatives."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from dlbricks_sizes.answers import SHORT
from dlbricks_sizes.workloads import Basis

from dlbricks_core.errors import DLBricksError
from dlbricks_core.estimation.results import ModelResult, RunResult
from dlbricks_core.estimation.without_runs import default_predictor, estimate
from dlbricks_core.facts import LATENCY, Composition, Note, Quantity
from dlbricks_core.figures.figure import interval
from dlbricks_core.figures.statistics import FloatArray
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.measure.known_setups import nearest_setup
from dlbricks_core.measure.metric import Metric, find_metric
from dlbricks_core.store import ResultStore
from dlbricks_core.wording import argument, settings
from dlbricks_serving.advice.places import Place
from dlbricks_serving.advice.stored import request_for_stored
from dlbricks_serving.notes import note

THROUGHPUT = Quantity(
    "throughput", "1/s", Composition.LOAD, "samples or queries that all instances serve"
)

_WITHOUT_METRIC: Mapping[str, Quantity] = {
    each.name: each for each in (LATENCY, *SHORT, THROUGHPUT)
}
"""Quantities that follow from latencies, by name."""

_REQUIREMENT = re.compile(r"\s*([^<=\s]+)\s*<=\s*([0-9.eE+-]+)\s*(\S*)\s*")

_UNITS: tuple[Mapping[str, float], ...] = (
    {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0},
    {"B": 1.0, "kB": 1e3, "KiB": 2.0**10, "MB": 1e6, "MiB": 2.0**20, "GB": 1e9, "GiB": 2.0**30},
)
"""Units of each dimension, with their factors."""


@dataclass(frozen=True)
class Requirement:
    """Requirement on a quantity: an upper bound, or only a figure without a bound."""

    quantity: Quantity  #: The quantity.
    #: Maximum permitted value, in the quantity's unit; infinite for no bound.
    most: float = math.inf
    #: Metric of the quantity; ``None`` for latency, times of an answer and price.
    metric: Metric | None = None

    @property
    def is_bound(self) -> bool:
        """Whether there is an upper bound."""
        return self.most < math.inf

    @classmethod
    def of(cls, name: str) -> Self:
        """A requirement without a bound.

        Raises:
            PluginError: If there is no such quantity, or its metric is broken.
        """
        if name in _WITHOUT_METRIC:
            return cls(_WITHOUT_METRIC[name])
        metric = find_metric(name)
        return cls(metric.quantity, metric=metric)

    @classmethod
    def read(cls, text: str) -> Self:
        """Reads a requirement such as ``peak-memory<=500MiB``.

        The default unit is that of the quantity.

        Raises:
            DLBricksError: If the text has another form, or the unit does not fit the quantity.
            PluginError: If there is no such quantity, or its metric is broken.
        """
        found = _REQUIREMENT.fullmatch(text)
        try:
            name, number, unit = found.groups() if found else ("", "", "")
            most = float(number)
        except ValueError as error:
            raise DLBricksError(
                f"{text!r:.60} is not a requirement",
                hint="Write QUANTITY<=VALUE, such as peak-memory<=500MiB.",
            ) from error
        asked = cls.of(name)
        most *= _factor(unit or asked.quantity.unit, asked.quantity)
        if asked.quantity == THROUGHPUT:
            raise DLBricksError(
                "a throughput has no upper bound",
                hint=f"Order by it: {settings(by=THROUGHPUT.name)}.",
            )
        if not most > 0:
            raise DLBricksError(f"{text!r:.60}: no value is that small", hint="Write more than 0.")
        return replace(asked, most=most)


def _factor(unit: str, quantity: Quantity) -> float:
    """Factor from a unit to that of a quantity."""
    for units in _UNITS:
        if unit in units and quantity.unit in units:
            return units[unit] / units[quantity.unit]
    if unit == quantity.unit:
        return 1.0
    alike = next((units for units in _UNITS if quantity.unit in units), {quantity.unit: 1.0})
    raise DLBricksError(
        f"{quantity.name} is not measured in {unit!r}", hint=f"Units: {', '.join(alike)}."
    )


@dataclass(frozen=True, eq=False)
class RequiredFigure:
    """Figure of a required quantity for a model in a place."""

    requirement: Requirement  #: The requirement.
    value: float  #: Value of the quantity.
    draws: FloatArray  #: Equally likely values: shape (RESAMPLES,).
    basis: Basis  #: Basis of the value.

    @property
    def interval(self) -> tuple[float, float]:
        """90% interval of the value."""
        return interval(self.draws, self.value)

    @property
    def is_finite(self) -> bool:
        """Whether all values are finite: prices of what is not served are not."""
        return bool(np.isfinite([self.value, *self.draws]).all())

    @property
    def cost(self) -> float:
        """Number of which the least is best."""
        return -self.value if self.requirement.quantity == THROUGHPUT else self.value

    @property
    def costs(self) -> FloatArray:
        """Equally likely numbers of which the least is best: shape (RESAMPLES,)."""
        return -self.draws if self.requirement.quantity == THROUGHPUT else self.draws

    @property
    def keeps(self) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Whether each draw keeps the requirement: shape (RESAMPLES,)."""
        return np.asarray(self.draws <= self.requirement.most)

    @property
    def is_kept(self) -> bool:
        """Whether the value keeps the requirement."""
        return self.value <= self.requirement.most


@dataclass(frozen=True)
class Answers:
    """Figures of a required quantity in a place, for all models."""

    requirement: Requirement  #: The requirement.
    place: Place  #: The place.
    result: RunResult  #: Estimates of all models.

    @classmethod
    def of(
        cls,
        requirement: Requirement,
        models: list[CanonicalModel],
        place: Place,
        store: ResultStore,
        *,
        predicts: bool,
    ) -> Answers:
        """Answers for models in a place. Runs nothing.

        Args:
            requirement: Requirement on a quantity with a metric.
            models: Models in canonical form.
            place: The place.
            store: Store of the observations.
            predicts: Whether to predict values that were not observed.
        """
        metric = requirement.metric
        if metric is None:
            raise ValueError("latency needs no metric, and no answers of its own")
        asked = replace(place.setup, protocol=metric.protocol.identity)
        store = place.seen_in(store)
        there = [
            setup
            for setup, system in store.setups(place.setup.backend)
            if system == place.system.fingerprint and setup.protocol == asked.protocol
        ]
        request = request_for_stored(nearest_setup(asked, there), place.system, metric)
        predictor = default_predictor(request) if predicts else None
        return cls(requirement, place, estimate(models, None, request, store, predictor))

    def known(self, position: int) -> RequiredFigure | None:
        """Figure of the model at a position; ``None`` if its estimate is incomplete."""
        model = self.result.models[position]
        measured, composed = model.measured, model.estimate
        if measured is not None:
            return RequiredFigure(self.requirement, measured.value, measured.plausible, "measured")
        if composed.value is None or composed.draws is None or composed.partial:
            return None
        basis: Basis = "predicted" if model.origin.get("predicted") else "composed"
        return RequiredFigure(self.requirement, composed.value, composed.draws, basis)

    @property
    def note(self) -> Note | None:
        """Note on the framework's version, if it differs between the quantity and the place."""
        observed, ours = self.result.request.setup, self.place.setup
        if observed.version == ours.version:
            return None
        return note(
            "quantity-of-other-version",
            str(self.place),
            quantity=self.requirement.quantity.name,
            backend=observed.backend,
            version=observed.version,
            lacking=ours.version,
        )

    def why_not(self, model: ModelResult) -> str:
        """Reason why a model has no figure, with a remedy."""
        name = self.requirement.quantity.name
        reason = next(iter(model.missing.values()), model.failure or "not measured")
        return (
            f"its {name} is not known there ({reason}): measure it with 'dlbricks estimate', "
            f"{argument('measure')} and {argument('quantity')} {name}"
        )
