"""Interface of composers, which select the bricks to time and compose their figures."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Self

import numpy as np

from dlbricks_core.compose.fitting import Deviation, fitted_deviation
from dlbricks_core.compose.plan import Plan
from dlbricks_core.errors import PluginError
from dlbricks_core.figures.figure import RESAMPLES, interval, relative_half_width
from dlbricks_core.figures.precision import NORMAL_HALF_WIDTH

if TYPE_CHECKING:
    from dlbricks_core.bricks import Brick, CutModel
    from dlbricks_core.compose.fitting import FittingData
    from dlbricks_core.facts import Setup, System
    from dlbricks_core.figures.figure import Figure
    from dlbricks_core.figures.statistics import FloatArray


@dataclass(frozen=True)
class Estimate:
    """Latency of a model as a composer computes it.

    Attributes:
        value: Latency in milliseconds of the bricks that have a figure; ``None`` if none has one.
        interval: 90% interval of the value, from the scatter of the samples, the errors of recipes
            and the error of composing.
        missing: Signatures of bricks without a figure, each once. An estimate with missing bricks
            is partial: a lower bound, not an expectation.
        scatter: 90% interval of the value from the scatter of the samples alone.
        draws: Equally likely values, without the error of composing: shape (RESAMPLES,). The i-th
            draws of all models composed from the same figures belong together. ``None`` without
            draws.
        composing_error: Standard deviation of the relative error of composing, including the error
            that all figures of a model share and that their draws leave out.
        this_hour: 90% interval of the value in the hour of the measurements, if ``interval`` is the
            wider interval for any quiet hour; ``None`` if both are the same.
    """

    value: float | None
    interval: tuple[float, float] | None
    missing: tuple[str, ...] = ()
    scatter: tuple[float, float] | None = None
    draws: FloatArray | None = field(default=None, compare=False, repr=False)
    composing_error: float = 0.0
    this_hour: tuple[float, float] | None = None

    @property
    def partial(self) -> bool:
        """Whether bricks are missing."""
        return bool(self.missing)

    @property
    def half_width(self) -> float:
        """Half-width of the interval relative to its middle; infinite if bricks are missing."""
        return self._relative(self.interval)

    @property
    def half_width_now(self) -> float:
        """As :attr:`half_width`, for the interval in the hour of the measurements."""
        return self._relative(self.interval_now)

    def _relative(self, ends: tuple[float, float] | None) -> float:
        return math.inf if self.partial or not self.value else relative_half_width(ends)

    @property
    def interval_now(self) -> tuple[float, float] | None:
        """90% interval of the value in the hour of the measurements."""
        return self.this_hour or self.interval

    def in_any_hour(self, difference: float, *, measured: bool) -> Self:
        """The estimate with the interval of any quiet hour.

        Args:
            difference: Standard deviation of the relative difference from one hour to another.
            measured: Whether the estimate rests on measurements on this machine.
        """
        if self.value is None or self.draws is None or self.interval is None or not difference:
            return self
        error = math.hypot(self.composing_error, difference)
        low, high = interval(self.draws * _composing(error), self.value)
        ends = min(low, self.interval[0]), max(high, self.interval[1])
        this_hour = self.interval if measured else None
        return replace(self, interval=ends, this_hour=this_hour, composing_error=error)

    @classmethod
    def weighted(cls, parts: Sequence[tuple[float, Estimate]]) -> Self:
        """Weighted sum of estimates that were composed from the same figures.

        Draws are added one by one, so that errors of shared bricks do not average out. All
        estimates share the error of composing. The sum has no ``scatter``.

        Args:
            parts: Weights, none of them negative, and estimates; one or more.
        """
        missing = tuple(dict.fromkeys(s for _, each in parts for s in each.missing))
        values = [weight * each.value for weight, each in parts if each.value is not None]
        if len(values) < len(parts):
            return cls(None, None, missing)
        value = sum(values)
        known = [(weight, e.draws, e.composing_error) for weight, e in parts if e.draws is not None]
        if len(known) < len(parts):
            return cls(value, None, missing)
        draws = np.sum([weight * each for weight, each, _ in known], axis=0)
        spread = np.sum(
            [weight * each * _composing(error) for weight, each, error in known], axis=0
        )
        shares = zip(values, (each.composing_error for _, each in parts), strict=True)
        error = sum(share * each for share, each in shares) / value if value else 0.0
        return cls(value, interval(spread, value), missing, None, draws, error)


class Composer(ABC):
    """Selects the bricks to time, and computes a model's latency from latencies of its bricks.

    Found through the entry-point group ``dlbricks.composers``. A composer gets facts and figures;
    it never measures.
    """

    #: Name of the composer for users, equal to the entry point's name.
    name: str
    #: Whether bricks are cut from the graph that the backend rewrites a model into, or from the
    #: model itself.
    cuts_rewritten: bool = False
    #: Whether an estimate is a bound of the latency instead of an expected value.
    is_bound: bool = False
    #: Standard deviation of the relative error of composing itself, as found on the development
    #: corpus (docs/explain/composing.md). With 0, intervals include the errors of bricks alone.
    composing_error: float = 0.0
    #: Attributes that a calibration fits to one system, and the meaning of each for people.
    fitted: Mapping[str, str] = MappingProxyType({})
    #: Whether a layer sequence whose weights the model has just read is a separate brick from the
    #: same sequence with weights from memory.
    rereading: bool = False
    #: Default strategy and granularity of cutting.
    strategy: str = "chain"
    granularity: int = 1

    @abstractmethod
    def total(self, cut: CutModel, costs: Mapping[str, FloatArray]) -> FloatArray:
        """Latency of a model in milliseconds, without the cost of starting a call.

        Args:
            cut: The model and its bricks.
            costs: Latency of each brick in milliseconds, without the cost of starting a call, by
                signature. Arrays of shape (n,) contain replicates; arrays of shape (1,) represent
                bricks without a figure.

        Returns:
            Array of shape (n,), or (1,) if all costs have that shape.
        """

    def plan(self, bricks: Mapping[str, Brick], setup: Setup, system: System) -> Plan:
        """Plan for a set of bricks: bricks to time, and recipes for the figure of each brick.

        By default every brick is timed. The bricks to time must not depend on fitted numbers:
        a calibration must not change the measurements that an estimate needs.

        Args:
            bricks: Unique bricks of all models, by signature.
            setup: Backend, version, options and threads of the bricks.
            system: System that the bricks run on.
        """
        return Plan.all_timed(bricks)

    def fit(self, observed: FittingData) -> Mapping[str, float]:
        """Values of the fitted attributes on one system, by name."""
        if "composing_error" not in self.fitted:
            return {}
        return {
            "composing_error": fitted_deviation(self.composing_error, self.deviations(observed))
        }

    def deviations(self, observed: FittingData) -> list[Deviation]:
        """Errors of estimates of whole networks, each with the scatter of the samples.

        For a brick that this composer does not time, the figure is derived from the timed bricks,
        as in an estimate. If the needed bricks failed, the brick's own figure is used.
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
        """A copy of the composer with fitted values; unknown values are ignored."""
        other = copy(self)
        for name in self.fitted.keys() & values.keys():
            setattr(other, name, values[name])
        return other

    def compose(self, cut: CutModel, latencies: Mapping[str, Figure]) -> Estimate:
        """Estimate of a model from the figures of its bricks.

        The latency of every brick includes the cost of starting a call and waiting for its end.
        When the whole model runs, that cost occurs once. It is therefore subtracted from every
        brick and added to the sum once.

        Args:
            cut: The model and its bricks.
            latencies: Figures of bricks by signature; some may be missing.
        """
        wanted = dict.fromkeys(occurrence.signature for occurrence in cut.occurrences)
        missing = tuple(signature for signature in wanted if signature not in latencies)
        known = {s: latencies[s] for s in wanted if s in latencies}
        if not known:
            return Estimate(None, None, missing)
        nothing = np.zeros(1)
        absent = dict.fromkeys(missing, nothing)
        call = max(latency.overhead for latency in known.values())
        error = math.hypot(self.composing_error, common_error(cut, known))
        points = {s: _without_call(np.array([each.value]), each) for s, each in known.items()}
        spread = {s: _without_call(each.replicates, each) for s, each in known.items()}
        plausible = {s: _without_call(each.plausible, each) for s, each in known.items()}
        ms, scatter, replicates = (
            call + np.broadcast_to(self._total(cut, {**costs, **absent}), RESAMPLES)
            for costs in (points, spread, plausible)
        )
        value = float(ms[0])
        factor = _mean_over(cut, known, lambda each: each.spread_in(value))
        replicates = _scattered(replicates, factor)
        return Estimate(
            value,
            interval(replicates * _composing(error), value),
            missing,
            interval(scatter, value),
            replicates,
            error,
        )

    def _total(self, cut: CutModel, costs: Mapping[str, FloatArray]) -> FloatArray:
        """Checked result of :meth:`total`.

        Raises:
            PluginError: If the result has a wrong shape, or is negative or not finite.
        """
        found = np.asarray(self.total(cut, costs))
        shape = np.broadcast_shapes(*(each.shape for each in costs.values()))
        wrong = ""
        if found.shape != shape:
            wrong = f"has the shape {found.shape} instead of {shape}"
        elif not np.all(np.isfinite(found) & (found >= 0)):
            wrong = "is negative or not finite"
        if wrong:
            raise PluginError(
                f"composer {self.name!r}: the result of total() {wrong}",
                hint="Report this to the authors of the composer.",
            )
        return found


def common_error(cut: CutModel, latencies: Mapping[str, Figure]) -> float:
    """Standard deviation of the relative error that all figures of a model share.

    This error is the mean over the figures, weighted by their shares of the sum. Draws of figures
    do not include it, because it differs from model to model.
    """
    return _mean_over(cut, latencies, lambda each: each.common_error)


def _mean_over(
    cut: CutModel, latencies: Mapping[str, Figure], of: Callable[[Figure], float]
) -> float:
    """Mean over the figures of a model, weighted by their shares of the sum; 0 without any."""
    known = {s: (count * latencies[s].own, latencies[s]) for s, count in cut.counts.items()
             if s in latencies}  # fmt: skip
    total = sum(part for part, _ in known.values())
    return sum(part * of(each) for part, each in known.values()) / total if total else 0.0


def _scattered(draws: FloatArray, factor: float) -> FloatArray:
    """Draws whose logarithms scatter by a factor more."""
    middle = float(np.median(draws))
    return np.asarray(middle * (draws / middle) ** factor) if middle and factor != 1 else draws


def _composing(error: float) -> FloatArray:
    """Draws of the error of composing as factors, equal for all estimates: shape (RESAMPLES,).

    All factors are positive: a host that doubles its speed halves latencies.
    """
    return np.asarray(np.exp(error * np.random.default_rng(0).standard_normal(RESAMPLES)))


def _without_call(latencies_ms: FloatArray, latency: Figure) -> FloatArray:
    return np.maximum(latencies_ms - latency.overhead, 0.0)
