"""Times of a model that runs once, or of a language model that answers a prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from dlbricks_core.compose.options import LEARNED_COMPOSER
from dlbricks_core.estimation.model_result import Compared, ModelResult
from dlbricks_core.facts import Quantity
from dlbricks_core.figures.figure import Origin

Basis = Literal["measured", "composed", "predicted"]
"""Basis of a figure: samples of the whole model in the place, samples of all its bricks there, or
predictions for at least some bricks.
"""


_LEAST = 1e-9
"""Milliseconds that replace a result that is 0 or unknown."""


@dataclass(frozen=True)
class Time:
    """A time of a job in one place.

    Attributes:
        compared: Estimate and measurement of the time.
        parts: Weights and results of models whose weighted sum is the time; one or more.
    """

    compared: Compared
    parts: Sequence[tuple[float, ModelResult]]

    @property
    def is_known(self) -> bool:
        """Whether the time has a measurement, or an estimate without missing bricks."""
        estimate = self.compared.estimate
        whole = estimate.value is not None and not estimate.partial
        return self.compared.measured is not None or whole

    @property
    def is_inferred(self) -> bool:
        """Whether the uncertainty of the time comes from a predictor."""
        by_predictor = any(
            each.composer == LEARNED_COMPOSER or "predicted" in each.origin
            for _, each in self.parts
        )
        return self.compared.measured is None and by_predictor

    @property
    def basis(self) -> Basis:
        """Basis of the time."""
        if self.compared.measured is not None:
            return "measured"
        return "predicted" if self.origin.get("predicted") else "composed"

    @property
    def origin(self) -> Mapping[Origin, float]:
        """Shares of the time by the origin of the bricks' figures."""
        if self.compared.measured is not None:
            return {"stored": 1.0}
        values = [weight * (each.estimate.value or _LEAST) for weight, each in self.parts]
        found: dict[Origin, float] = {}
        for value, (_, each) in zip(values, self.parts, strict=True):
            for origin, share in each.origin.items():
                found[origin] = found.get(origin, 0.0) + share * (value / sum(values))
        return found

    @property
    def load(self) -> float:
        """Share of the CPUs that others used during the measurements, from 0 to 1."""
        return max(each.disturbance.load for _, each in self.parts)

    @property
    def missing(self) -> str:
        """Reason why the time is unknown."""
        results = [each for _, each in self.parts]
        reasons = [reason for each in results for reason in each.missing.values()]
        failures = [each.failure for each in results if each.failure]
        return next(iter((*reasons, *failures)), "it has no figure")


Times = Mapping[Quantity, Time]
"""Times of a job in one place by their quantities, one of which is latency."""
