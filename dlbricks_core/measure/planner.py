"""The planner: which networks to time next, so that sums become precise in the least time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from dlbricks_core.figures.statistics import FloatArray

IntArray = np.ndarray[Any, np.dtype[np.signedinteger[Any]]]

_SURE = 2.0
"""Standard deviations by which a correlation between draws must differ from 0 to count: among
thousands of networks some go along with a sum by chance."""


@dataclass(frozen=True, eq=False)
class Uncertain:
    """Sums whose latencies are uncertain, and the networks that could be timed to know more.

    Attributes:
        sums: Draws of each sum in milliseconds: shape (draws, sums).
        networks: Draws of each network in milliseconds, which belong to those of the sums: shape
            (draws, networks).
        counts: How often each network is part of each sum: shape (sums, networks).
        seconds: Seconds that timing each network takes: shape (networks,).
        errors: Standard deviation of what timing says of each network, in milliseconds: shape
            (networks,).
        common: Standard deviation of an error that each sum has by itself, relative to the sum, and
            that its draws hold: shape (sums,).
        falls: What of that is gone once each network is known: shape (sums, networks).
    """

    sums: FloatArray
    networks: FloatArray
    counts: FloatArray
    seconds: FloatArray
    errors: FloatArray
    common: FloatArray
    falls: FloatArray

    def about(self, sums: IntArray) -> Self:
        """The same with some of the sums."""
        return replace(
            self,
            sums=self.sums[:, sums],
            counts=self.counts[sums],
            common=self.common[sums],
            falls=self.falls[sums],
        )

    def only(self, networks: IntArray) -> Self:
        """The same with some of the networks."""
        return replace(
            self,
            networks=self.networks[:, networks],
            counts=self.counts[:, networks],
            seconds=self.seconds[networks],
            errors=self.errors[networks],
            falls=self.falls[:, networks],
        )


@dataclass(frozen=True, eq=False)
class Step:
    """A network to time, and what is known then.

    Attributes:
        network: Position of the network.
        seconds: Seconds that it takes to time this network and all of the steps before.
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


def steps(uncertain: Uncertain, precision: float) -> Iterator[Step]:
    """Networks to time, the one first that tells most in each second.

    What a network tells of a sum is how far the variance of the sum falls once the network is
    known: the square of their covariance over the variance of what timing says. Relative to the
    square of the sum, it is added up over all sums that lack precision; no sum counts beyond the
    precision that it lacks. What falls off an error that a sum has by itself comes on top. After
    each step, all covariances are those given what is known then, as in a Cholesky decomposition
    with pivots (Harbrecht, Peters and Schneider, Applied Numerical Mathematics 62, 2012).

    Args:
        uncertain: What is known now.
        precision: Half-width of all 90% intervals to reach, relative to the sums. The steps end
            when it is reached, or when no network tells more.
    """
    left = _Left(uncertain, precision)
    seconds = 0.0
    while (network := left.best()) is not None:
        left.know(network)
        seconds += float(uncertain.seconds[network])
        yield Step(network, seconds, left.half_widths())


class _Left:
    """What is still uncertain."""

    def __init__(self, uncertain: Uncertain, precision: float) -> None:
        self._given = uncertain
        self._draws = len(uncertain.sums)
        means = np.maximum(uncertain.sums.mean(axis=0), 1e-12)
        # Everything is relative to the sums from here on.
        self._sums = (uncertain.sums - uncertain.sums.mean(axis=0)) / means
        self._networks = uncertain.networks - uncertain.networks.mean(axis=0)
        self._own = uncertain.counts / means[:, None]
        self._shared = self._sums.T @ self._networks / self._draws
        self._of_sums = (self._sums**2).mean(axis=0)
        self._of_networks = (self._networks**2).mean(axis=0)
        # Intervals of skewed draws have another width than those of normal ones.
        self._now = half_widths(uncertain.sums)
        self._before = np.maximum(self._of_sums, 1e-30)
        self._goal = self._before * (precision / np.maximum(self._now, 1e-12)) ** 2
        self._common = uncertain.common
        self._known: list[FloatArray] = []
        self._open = np.ones(len(uncertain.seconds), dtype=bool)

    def half_widths(self) -> FloatArray:
        """Half-width of each sum's interval, as its variance has shrunk."""
        return np.asarray(self._now * np.sqrt(np.maximum(self._of_sums, 0.0) / self._before))

    def best(self) -> int | None:
        """The network that tells most in each second; ``None`` if nothing is left to know."""
        lacking = np.flatnonzero(self._of_sums > self._goal)
        if not len(lacking) or not self._open.any():
            return None
        told = self._told(lacking)
        useful = np.minimum(told, (self._of_sums - self._goal)[lacking, None]).sum(axis=0)
        rate = np.where(self._open, useful / self._given.seconds, 0.0)
        network = int(rate.argmax())
        return network if rate[network] > 0 else None

    def _told(self, sums: IntArray) -> FloatArray:
        """Fall of the variance of each of the sums by each network: shape (sums, networks)."""
        variances = np.maximum(self._of_networks, 0.0)
        part = self._own[sums] * variances
        beyond = self._shared[sums] - part
        chance = np.sqrt(np.outer(np.maximum(self._of_sums[sums], 0.0), variances) / self._draws)
        beyond = np.sign(beyond) * np.maximum(np.abs(beyond) - _SURE * chance, 0.0)
        told = (part + beyond) ** 2 / (variances + self._given.errors**2 + 1e-30)
        common = self._common[sums, None]
        left = np.maximum(common - self._given.falls[sums], 0.0)
        return np.asarray(told + common**2 - left**2)

    def know(self, network: int) -> None:
        """Takes a network for known, up to the error of timing it."""
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
