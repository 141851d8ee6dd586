"""Who is faster, by how much, and whether the samples leave a doubt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dlbricks_core.figures.figure import PERCENTILES, Figure, interval
from dlbricks_core.figures.statistics import FloatArray


@dataclass(frozen=True)
class Cost:
    """A latency that is compared, and its bootstrap replicates, in milliseconds.

    Costs whose samples were taken in the same rounds have replicates of the same rounds,
    so that drift of the machine cancels in their ratio.
    """

    ms: float
    replicates: FloatArray

    @classmethod
    def whole(cls, latency: Figure) -> Cost:
        """Of a whole model: what was measured."""
        return cls(latency.value, latency.replicates)

    @property
    def interval_ms(self) -> tuple[float, float]:
        """90% interval."""
        return interval(self.replicates)

    @classmethod
    def brick(cls, latency: Figure) -> Cost:
        """Of a brick: what it adds to a model, without the timer's own cost a call."""
        net = np.maximum(latency.replicates - latency.overhead, 0.0)
        return cls(max(latency.value - latency.overhead, 0.0), net)


@dataclass(frozen=True)
class Ratio:
    """How much longer one takes than another.

    Attributes:
        value: 1 or more for a slower one; ``None`` where the faster one's cost is lost
            in the timer's.
        low: Lower end of the 90% interval; ``None`` where that holds for all of it.
        high: Upper end; ``None`` where nothing bounds it.
    """

    value: float | None
    low: float | None
    high: float | None

    @classmethod
    def of(cls, slower: Cost, faster: Cost) -> Ratio:
        """The slower one's cost over the faster one's."""
        replicates = _divided(slower.replicates, faster.replicates)
        # Percentiles that are replicates themselves: no arithmetic with infinities.
        low, high = np.percentile(replicates, PERCENTILES, method="inverted_cdf")
        value = _divided(np.array([slower.ms]), np.array([faster.ms]))[0]
        return cls(_finite(value), _finite(low), _finite(high))

    @property
    def clear(self) -> bool:
        """Whether the whole interval is above 1, and the faster one's cost is known at all."""
        return self.value is not None and self.low is not None and self.low > 1


def _divided(above: FloatArray, below: FloatArray) -> FloatArray:
    """Quotients; nothing by nothing is 1, something by nothing infinite."""
    quotients = np.where(above > 0, np.inf, 1.0)
    return np.divide(above, below, out=quotients, where=below > 0)


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


@dataclass(frozen=True)
class Ranking:
    """Backends from the fastest to the slowest; those without a measurement are left out.

    Attributes:
        costs: By backend, ascending.
        ratios: By backend, from the second on: its cost over the fastest one's.
    """

    costs: Mapping[str, Cost]
    ratios: Mapping[str, Ratio]

    @classmethod
    def of(cls, costs: Mapping[str, Cost]) -> Ranking:
        """Ranks backends by their costs."""
        ordered = dict(sorted(costs.items(), key=lambda item: item[1].ms))
        fastest = next(iter(ordered.values()), None)
        ratios = {n: Ratio.of(c, fastest) for n, c in list(ordered.items())[1:] if fastest}
        return cls(ordered, ratios)

    @property
    def fastest(self) -> str | None:
        """The backend with the lowest cost, whether or not it is a clear winner."""
        return next(iter(self.costs), None)

    @property
    def winner(self) -> str | None:
        """The fastest, if every other backend is slower beyond doubt and there is one."""
        clear = self.ratios and all(ratio.clear for ratio in self.ratios.values())
        return self.fastest if clear else None

    @property
    def margin(self) -> Ratio | None:
        """The second over the fastest."""
        return next(iter(self.ratios.values()), None)
