"""Beliefs: joint distributions of layer latencies, updated by observations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import scipy

from dlbricks_core.figures.statistics import FloatArray, Indices

_STEPS = 30
"""Maximum number of Newton steps. With single layers, the first step is exact."""

_LENGTHS = tuple(0.5**i for i in range(8))
"""Step lengths, as shares of a full Newton step. Full steps overshoot where layers hide in the sum
of others.
"""

_SETTLED = 1e-3
"""Minimum increase of the log posterior per network that justifies another step."""

_JITTER = 1e-9
"""Variance added so that a covariance matrix stays positive definite despite rounding."""


@dataclass(frozen=True, eq=False)
class Sessions:
    """Sessions in which networks were observed. The networks of one session share an error.

    A shared machine is slower for a whole session than for another, which the scatter of the
    samples does not show.

    Attributes:
        of: Session of each network, as a number from 0: shape (networks,).
        variance: Variance of the error that the networks of a session share.
    """

    of: Indices
    variance: float

    def add_to(self, covariance: FloatArray) -> None:
        """Adds the covariance of the shared errors to one between networks, in place."""
        order = np.argsort(self.of, kind="stable")
        for members in np.split(order, np.cumsum(np.bincount(self.of))[:-1]):
            covariance[np.ix_(members, members)] += self.variance

    def shared(self, apart: FloatArray, noise: FloatArray) -> FloatArray:
        """Most probable shared error of each network: shape (networks,).

        Args:
            apart: Residual of each network.
            noise: Variance of the further error that each network has for itself.
        """
        precision = np.bincount(self.of, 1 / noise)
        pull = np.bincount(self.of, apart / noise)
        return np.asarray((self.variance * pull / (1 + self.variance * precision))[self.of])


@dataclass(frozen=True, eq=False)
class Belief:
    """Normal distribution of the logarithms of latencies, joint over layers.

    A network's latency is the sum over its layers. Close to the mean, its logarithm is linear in
    the layers' logarithms, with the layers' shares of the sum as factors. So a measured network
    informs about its layers, and correlations between layers are preserved.

    Attributes:
        mean: Expected logarithm of each layer's latency in milliseconds: shape (layers,).
        covariance: Covariance of these logarithms: shape (layers, layers).
    """

    mean: FloatArray
    covariance: FloatArray

    def observed(
        self,
        counts: scipy.sparse.csr_array,
        log_ms: FloatArray,
        noise: FloatArray,
        call_ms: FloatArray | float = 0.0,
        of: Sequence[int] | None = None,
        sessions: Sessions | None = None,
    ) -> Self:
        """The belief after an observation of networks.

        The mean is the most probable one (Newton's method on the posterior), and the covariance
        that of the posterior's normal approximation there (Laplace's method; Rasmussen and
        Williams, 2006, section 3.4).

        Args:
            counts: Number of occurrences of each layer in each network: shape (networks, layers).
            log_ms: Logarithm of each network's measured latency in milliseconds.
            noise: Variance of each logarithm that the layers do not explain.
            call_ms: Cost of a call of the timer within each latency, in milliseconds. A layer that
                takes less carries little information, which the logarithm of the whole latency
                reflects.
            of: Layers to update; ``None`` for all. The belief about other layers is not computed.
            sessions: Sessions of the networks; ``None`` if they share no error.
        """
        asked = self if of is None else self.of(of)
        if not counts.shape[0]:
            return asked
        timed, counts = _timed(counts)
        fitted = self.of(timed)._fitted(counts, log_ms, noise, call_ms, sessions)
        chosen = list(range(len(self.mean)) if of is None else of)
        between = self.covariance[timed][:, chosen]
        half = scipy.linalg.solve_triangular(fitted.factor, fitted.shares @ between, lower=True)
        mean = asked.mean + fitted.pulls @ between
        return type(self)(mean, asked.covariance - half.T @ half)

    def pulls(
        self,
        counts: scipy.sparse.csr_array,
        log_ms: FloatArray,
        noise: FloatArray,
        call_ms: FloatArray | float = 0.0,
        sessions: Sessions | None = None,
    ) -> FloatArray:
        """Pull of each layer: the mean moves by the covariance times the pulls.

        The arguments are those of :meth:`observed`.
        """
        timed, counts = _timed(counts)
        found = np.zeros(len(self.mean))
        found[timed] = self.of(timed)._fitted(counts, log_ms, noise, call_ms, sessions).pulls
        return found

    def _fitted(
        self,
        counts: scipy.sparse.csr_array,
        log_ms: FloatArray,
        noise: FloatArray,
        call_ms: FloatArray | float,
        sessions: Sessions | None,
    ) -> _Fitted:
        """The most probable latencies of observed layers."""
        pulls = shift = np.zeros(len(self.mean))
        misfit = np.inf
        for _ in range(_STEPS):
            shares, totals = shares_of(counts, self.mean + shift, call_ms)
            left = log_ms - np.log(totals) + shares @ shift
            spread = shares @ (shares @ self.covariance).T
            spread[np.diag_indices_from(spread)] += noise
            if sessions is not None:
                sessions.add_to(spread)
            factor = scipy.linalg.cholesky(spread, lower=True, overwrite_a=True)
            target = shares.T @ scipy.linalg.cho_solve((factor, True), left)
            moved = self.covariance @ target
            found = []
            for length in _LENGTHS:
                way = pulls + length * (target - pulls), shift + length * (moved - shift)
                apart = log_ms - np.log(counts @ np.exp(self.mean + way[1]) + call_ms)
                misses = misfit_of(apart, noise, sessions)
                found.append((float(misses + way[0] @ way[1]) / 2, *way))
            best, pulls, shift = min(found, key=lambda each: each[0])
            if best > misfit - _SETTLED * len(log_ms):
                break
            misfit = best
        return _Fitted(pulls, shares, factor)

    def widened(self, covariance: FloatArray) -> Self:
        """The belief with an additional, independent error of each layer."""
        return type(self)(self.mean, self.covariance + covariance)

    def of(self, layers: Sequence[int] | Indices) -> Self:
        """The belief about some of the layers."""
        chosen = np.asarray(layers, dtype=np.intp)
        if np.array_equal(chosen, np.arange(len(self.mean))):
            return self  # the covariance of a contribution takes gigabytes
        return type(self)(self.mean[chosen], self.covariance[np.ix_(chosen, chosen)])

    def draws(self, count: int, seed: int = 0) -> FloatArray:
        """Equally likely logarithms of latencies, joint over layers.

        Returns:
            Array of shape (count, layers).
        """
        size = len(self.mean)
        factor = scipy.linalg.cholesky(self.covariance + _JITTER * np.eye(size), lower=True)
        normal = np.random.default_rng(seed).standard_normal((count, size))
        return np.asarray(self.mean + normal @ factor.T)


@dataclass(frozen=True, eq=False)
class _Fitted:
    """Most probable latencies of observed layers.

    Attributes:
        pulls: Pull of each layer.
        shares: Share of each layer in each network's latency.
        factor: Cholesky factor of the covariance of the networks' measured logarithms.
    """

    pulls: FloatArray
    shares: scipy.sparse.csr_array
    factor: FloatArray


def misfit_of(apart: FloatArray, noise: FloatArray, sessions: Sessions | None) -> float:
    """Squared distance of residuals from 0, in units of the covariance of their errors.

    Args:
        apart: Residual of each network.
        noise: Variance of each network's own error.
        sessions: Sessions of the networks; ``None`` if they share no error.
    """
    own = apart if sessions is None else apart - sessions.shared(apart, noise)
    return float(apart @ (own / noise))


def _timed(counts: scipy.sparse.csr_array) -> tuple[Indices, scipy.sparse.csr_array]:
    """Layers that occur in any network, and their counts. Fitting needs no others."""
    timed = np.unique(counts.indices)
    return timed, counts[:, timed]


def shares_of(
    counts: scipy.sparse.csr_array, log_ms: FloatArray, call_ms: FloatArray | float = 0.0
) -> tuple[scipy.sparse.csr_array, FloatArray]:
    """Share of each layer in each network's latency, and the latencies.

    Args:
        counts: Number of occurrences of each layer in each network: shape (networks, layers).
        log_ms: Logarithm of each layer's latency in milliseconds.
        call_ms: Cost of a call of the timer in each network's latency, in milliseconds.
    """
    parts = scipy.sparse.csr_array(counts.multiply(np.exp(log_ms)[None, :]))
    totals = np.asarray(parts.sum(axis=1)).ravel() + call_ms
    return scipy.sparse.csr_array(scipy.sparse.diags_array(1 / totals) @ parts), totals
