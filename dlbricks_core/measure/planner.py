"""The planner: chooses the networks to time next, so that sums become precise soon."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from dlbricks_core.figures.statistics import FloatArray, IntArray

_SURE = 2.0
"""Minimum distance from 0 of a correlation between draws to count, in standard deviations: among
thousands of networks, some correlate with a sum by chance.
"""


@dataclass(frozen=True, eq=False)
class Uncertain:
    """Sums with uncertain latencies, and the networks whose timing would narrow them.

    Attributes:
        sums: Draws of each sum in milliseconds: shape (draws, sums).
        networks: Draws of each network in milliseconds, paired with the draws of the sums: shape
            (draws, networks).
        counts: Number of occurrences of each network in each sum: shape (sums, networks).
        seconds: Seconds to time each network: shape (networks,).
        errors: Standard error of a timing of each network, in milliseconds: shape (networks,).
        common: Standard deviation of each sum's own error, relative to the sum: shape (sums,). The
            draws of the sums include this error.
        falls: Decrease of that deviation once a network is timed: shape (sums, networks).
    """

    sums: FloatArray
    networks: FloatArray
    counts: FloatArray
    seconds: FloatArray
    errors: FloatArray
    common: FloatArray
    falls: FloatArray

    def about(self, sums: IntArray) -> Self:
        """A copy with some of the sums only."""
        return replace(
            self,
            sums=self.sums[:, sums],
            counts=self.counts[sums],
            common=self.common[sums],
            falls=self.falls[sums],
        )

    def only(self, networks: IntArray) -> Self:
        """A copy with some of the networks only."""
        return replace(
            self,
            networks=self.networks[:, networks],
            counts=self.counts[:, networks],
            seconds=self.seconds[networks],
            errors=self.errors[networks],
            falls=self.falls[:, networks],
        )


@dataclass(frozen=True, eq=False)
class PlanStep:
    """A network to time, and the precision after its timing.

    Attributes:
        network: Position of the network.
        seconds: Seconds to time this network and the networks of all previous steps.
        half_widths: Half-width of the 90% interval of each sum afterwards, relative to the sum:
            shape (sums,).
    """

    network: int
    seconds: float
    half_widths: FloatArray


def half_widths(sums: FloatArray) -> FloatArray:
    """Half-width of the 90% interval of each sum, relative to the middle of the interval.

    Args:
        sums: Draws of each sum: shape (draws, sums).
    """
    low, high = np.percentile(sums, (5, 95), axis=0)
    middle = high + low
    return np.asarray(np.divide(high - low, middle, out=np.zeros_like(middle), where=middle > 0))


def steps(uncertain: Uncertain, precision: float) -> Iterator[PlanStep]:
    """Networks to time, in descending order of information per second.

    The information about a sum is the reduction of its variance once the network is timed: the
    square of their covariance, divided by the variance of the timing, plus the decrease of the
    variance of the sum's own error. It counts relative to the square of the sum, and is added up
    over all sums that lack precision. No sum counts beyond the precision that it lacks. After each
    step, all covariances are conditioned on the networks chosen so far, as in a pivoted Cholesky
    decomposition (Harbrecht, Peters and Schneider, Applied Numerical Mathematics 62, 2012).

    Args:
        uncertain: Sums and networks with their present uncertainty.
        precision: Half-width of all 90% intervals to reach, relative to the sums. The steps end
            when it is reached, or when no network has further information.
    """
    left = _Uncertainty(uncertain, precision)
    seconds = 0.0
    while (network := left.best()) is not None:
        left.know(network)
        seconds += float(uncertain.seconds[network])
        yield PlanStep(network, seconds, left.half_widths())


class _Uncertainty:
    """The remaining uncertainty of sums and networks."""

    def __init__(self, uncertain: Uncertain, precision: float) -> None:
        self._given = uncertain
        self._draws = len(uncertain.sums)
        means = np.maximum(uncertain.sums.mean(axis=0), 1e-12)
        # From here on, all figures are relative to the sums.
        self._sums = (uncertain.sums - uncertain.sums.mean(axis=0)) / means
        self._networks = uncertain.networks - uncertain.networks.mean(axis=0)
        self._own = uncertain.counts / means[:, None]
        self._shared = self._sums.T @ self._networks / self._draws
        self._of_sums = (self._sums**2).mean(axis=0)
        self._of_networks = (self._networks**2).mean(axis=0)
        # Intervals of skewed draws differ in width from those of normal draws.
        self._now = half_widths(uncertain.sums)
        self._before = np.maximum(self._of_sums, 1e-30)
        self._goal = self._before * (precision / np.maximum(self._now, 1e-12)) ** 2
        self._common = uncertain.common
        self._known: list[FloatArray] = []
        self._open = np.ones(len(uncertain.seconds), dtype=bool)

    def half_widths(self) -> FloatArray:
        """Half-width of each sum's interval, scaled with its remaining standard deviation."""
        return np.asarray(self._now * np.sqrt(np.maximum(self._of_sums, 0.0) / self._before))

    def best(self) -> int | None:
        """The network with most information per second; ``None`` if all information is 0."""
        lacking = np.flatnonzero(self._of_sums > self._goal)
        if not len(lacking) or not self._open.any():
            return None
        information = self._information(lacking)
        useful = np.minimum(information, (self._of_sums - self._goal)[lacking, None]).sum(axis=0)
        rate = np.where(self._open, useful / self._given.seconds, 0.0)
        network = int(rate.argmax())
        return network if rate[network] > 0 else None

    def _information(self, sums: IntArray) -> FloatArray:
        """Reduction of each sum's variance by each network: shape (sums, networks)."""
        variances = np.maximum(self._of_networks, 0.0)
        part = self._own[sums] * variances
        beyond = self._shared[sums] - part
        chance = np.sqrt(np.outer(np.maximum(self._of_sums[sums], 0.0), variances) / self._draws)
        beyond = np.sign(beyond) * np.maximum(np.abs(beyond) - _SURE * chance, 0.0)
        information = (part + beyond) ** 2 / (variances + self._given.errors**2 + 1e-30)
        common = self._common[sums, None]
        left = np.maximum(common - self._given.falls[sums], 0.0)
        return np.asarray(information + common**2 - left**2)

    def know(self, network: int) -> None:
        """Conditions all covariances on a network, up to the error of its timing."""
        column = self._networks.T @ self._networks[:, network] / self._draws
        for each in self._known:
            column -= each * each[network]
        spread = np.sqrt(max(column[network], 0.0) + self._given.errors[network] ** 2)
        along, of_sums = column / spread, self._shared[:, network] / spread
        self._known.append(along)
        self._of_networks = self._of_networks - along**2
        common = np.maximum(self._common - self._given.falls[:, network], 0.0)
        self._of_sums = self._of_sums - of_sums**2 - (self._common**2 - common**2)
        self._common = common
        self._shared = self._shared - np.outer(of_sums, along)
        self._open[network] = False
