"""What a composer is: it joins bricks with measurements into an estimate."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from types import MappingProxyType
from typing import Self

import numpy as np

from dlbricks_core.bricks import Brick, CutModel
from dlbricks_core.compose.fitting import Deviation, Observed, fitted_deviation
from dlbricks_core.compose.plan import Plan
from dlbricks_core.facts import Setup, System
from dlbricks_core.figures.figure import RESAMPLES, Figure, interval, relative_half_width
from dlbricks_core.figures.precision import NORMAL_HALF_WIDTH
from dlbricks_core.figures.statistics import FloatArray


@dataclass(frozen=True)
class Estimate:
    """Latency that a composer expects of a model.

    Attributes:
        value: In the quantity's unit. Covers only bricks with a figure; ``None`` if none has one.
        interval: 90% interval of the value. It holds the scatter of the samples and the error of
            composing.
        missing: Signatures of bricks without a figure, each once. An estimate with missing bricks
            is partial: a lower bound, not an expectation.
        scatter: 90% interval of the scatter of the samples alone.
    """

    value: float | None
    interval: tuple[float, float] | None
    missing: tuple[str, ...] = ()
    scatter: tuple[float, float] | None = None

    @property
    def partial(self) -> bool:
        """Whether something is missing."""
        return bool(self.missing)


class Composer(ABC):
    """Joins a model's bricks with their latencies.

    Found through the entry-point group ``dlbricks.composers``.
    """

    #: Name that ``--composer`` takes, equal to the entry point's name.
    name: str
    #: Whether bricks are cut from the graph that the backend rewrites a model into, or from the
    #: model itself.
    cuts_rewritten: bool = False
    #: Whether an estimate is a bound of the latency rather than an expectation.
    is_bound: bool = False
    #: Standard deviation of the relative error that composing itself makes, as found on the
    #: development corpus (docs/explain/composing.md); 0 where intervals hold the scatter alone.
    composing_error: float = 0.0
    #: Attributes that ``dlbricks calibrate`` fits to one system, and what each is, for people.
    fitted: Mapping[str, str] = MappingProxyType({})
    #: Whether bricks on weights that the model has just read are timed apart from the same bricks
    #: on others.
    rereading: bool = False
    #: How models are cut unless the user says otherwise: strategy and granularity.
    strategy: str = "chain"
    granularity: int = 1

    @abstractmethod
    def total(self, cut: CutModel, costs: Mapping[str, FloatArray]) -> FloatArray:
        """Latency of the model from the cost of each brick.

        Args:
            cut: The model and its bricks.
            costs: By signature, the cost in milliseconds without the timer's own share,
                for a number of replicates: arrays of shape (n,), or (1,) for a brick
                without a measurement.

        Returns:
            Array of shape (n,), in milliseconds.
        """

    def plan(self, bricks: Mapping[str, Brick], setup: Setup, system: System) -> Plan:
        """What is timed for bricks, and how the figure of each follows: each is timed itself.

        A composer with fitted numbers plans the same networks to be timed, whatever the numbers.

        Args:
            bricks: By signature.
            setup: How they run.
            system: Where they run.
        """
        return Plan.all_timed(bricks)

    def fit(self, observed: Observed) -> Mapping[str, float]:
        """Values of what can be fitted, by name."""
        if "composing_error" not in self.fitted:
            return {}
        return {
            "composing_error": fitted_deviation(self.composing_error, self.deviations(observed))
        }

    def deviations(self, observed: Observed) -> list[Deviation]:
        """How far estimates of whole networks are off, beside what their intervals explain.

        Bricks that this composer would not time count with the figure that follows from those
        that it would. Where none follows, because timing one of those failed, the brick's own
        figure counts.
        """
        plan = self.plan(observed.bricks, observed.setup, observed.system)
        known = {s: each for s, each in observed.latencies.items() if s in plan.timed}
        latencies = {**observed.latencies, **plan.figures(known)}
        exact = self.calibrated({"composing_error": 0.0})
        found = []
        for whole in observed.wholes:
            estimate = exact.compose(whole.cut, latencies)
            assert estimate.value is not None
            assert not estimate.partial
            sides = estimate.interval, interval(whole.measured.replicates)
            scatter = math.hypot(*map(relative_half_width, sides)) / NORMAL_HALF_WIDTH
            found.append(Deviation(estimate.value / whole.measured.value - 1, scatter))
        return found

    def calibrated(self, values: Mapping[str, float]) -> Self:
        """The same composer with fitted values; names that it has no use for are left out."""
        other = copy(self)
        for name in self.fitted.keys() & values.keys():
            setattr(other, name, values[name])
        return other

    def compose(self, cut: CutModel, latencies: Mapping[str, Figure]) -> Estimate:
        """Estimates a model from what was measured.

        The timer's own cost (starting a call and waiting for it) is part of every
        brick's latency, but occurs only once when the model runs as a whole. It is
        taken off every brick and put back once.

        Args:
            cut: The model and its bricks.
            latencies: By signature; bricks may be missing.
        """
        wanted = dict.fromkeys(occurrence.signature for occurrence in cut.occurrences)
        missing = tuple(signature for signature in wanted if signature not in latencies)
        known = {s: latencies[s] for s in wanted if s in latencies}
        if not known:
            return Estimate(None, None, missing)
        nothing = np.zeros(1)
        absent = dict.fromkeys(missing, nothing)
        call = max(latency.overhead for latency in known.values())
        points = {s: _without_call(np.array([each.value]), each) for s, each in known.items()}
        spread = {s: _without_call(each.replicates, each) for s, each in known.items()}
        plausible = {s: _without_call(each.plausible, each) for s, each in known.items()}
        ms, scatter, replicates = (
            call + np.broadcast_to(self.total(cut, {**costs, **absent}), RESAMPLES)
            for costs in (points, spread, plausible)
        )
        off = 1 + self.composing_error * np.random.default_rng(0).standard_normal(RESAMPLES)
        return Estimate(float(ms[0]), interval(replicates * off), missing, interval(scatter))


def _without_call(latencies_ms: FloatArray, latency: Figure) -> FloatArray:
    return np.maximum(latencies_ms - latency.overhead, 0.0)
