"""Rankings of backends: which is faster, by which factor, and whether that is certain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dlbricks_core.figures.figure import PERCENTILES, Cost
from dlbricks_core.figures.statistics import FloatArray


@dataclass(frozen=True)
class Ratio:
    """Ratio of the latencies of a slower and a faster backend.

    Attributes:
        value: The ratio; ``None`` if the faster latency is as small as the cost of a call.
        low: Lower end of the 90% interval; ``None`` if even that is infinite.
        high: Upper end of the 90% interval; ``None`` if there is no bound.
    """

    value: float | None
    low: float | None
    high: float | None

    @classmethod
    def of(cls, slower: Cost, faster: Cost) -> Ratio:
        """Ratio of two costs."""
        replicates = _divided(slower.replicates, faster.replicates)
        # This method picks replicates, and so never computes with infinities.
        low, high = np.percentile(replicates, PERCENTILES, method="inverted_cdf")
        value = _divided(np.array([slower.ms]), np.array([faster.ms]))[0]
        return cls(_finite(value), _finite(min(low, value)), _finite(max(high, value)))

    def exceeds(self, factor: float) -> bool:
        """Whether the whole interval is above a factor, and the faster one's cost is known."""
        return self.value is not None and self.low is not None and self.low > factor


def _divided(above: FloatArray, below: FloatArray) -> FloatArray:
    """Quotients; zero divided by zero is 1, and anything else divided by zero is infinite."""
    quotients = np.where(above > 0, np.inf, 1.0)
    return np.divide(above, below, out=quotients, where=below > 0)


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


@dataclass(frozen=True)
class Ranking:
    """Backends from the fastest to the slowest; those without a measurement are left out.

    Attributes:
        costs: Cost of each backend, ascending.
        ratios: Ratio of each backend's cost to the fastest one's, from the second backend on.
        slowdown: Factor by which a disturbance may have slowed one backend alone; 1 without
            disturbances.
    """

    costs: Mapping[str, Cost]
    ratios: Mapping[str, Ratio]
    slowdown: float = 1.0

    @classmethod
    def of(cls, costs: Mapping[str, Cost], slowdown: float = 1.0) -> Ranking:
        """Ranks backends by their costs; the slowdown as in the attributes."""
        ordered = dict(sorted(costs.items(), key=lambda item: item[1].ms))
        fastest = next(iter(ordered.values()), None)
        ratios = {n: Ratio.of(c, fastest) for n, c in list(ordered.items())[1:] if fastest}
        return cls(ordered, ratios, slowdown)

    @property
    def fastest(self) -> str | None:
        """The backend with the lowest cost, whether or not it is a clear winner."""
        return next(iter(self.costs), None)

    @property
    def winner(self) -> str | None:
        """The fastest, if every other backend is slower beyond doubt and there is one.

        A ratio is certain if its whole interval is above the largest possible effect of a
        disturbance.
        """
        clear = self.ratios and all(ratio.exceeds(self.slowdown) for ratio in self.ratios.values())
        return self.fastest if clear else None

    @property
    def is_disturbed(self) -> bool:
        """Whether a disturbance is the only reason for no winner."""
        clear = self.ratios and all(ratio.exceeds(1.0) for ratio in self.ratios.values())
        return bool(clear) and self.winner is None

    @property
    def margin(self) -> Ratio | None:
        """Ratio of the second backend's cost to the fastest one's."""
        return next(iter(self.ratios.values()), None)
