"""Fitting: most probable latencies of layers given thousands of networks, as pulls.

A step of Newton's method on the posterior solves a system as large as the number of networks. One
Cholesky factor in single precision serves several steps: conjugate gradients that it preconditions
correct its rounding, and what has changed since it was made (Golub and Van Loan, Matrix
Computations, 2013, section 11.5).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import scipy

from dlbricks_core.figures.statistics import FloatArray, Indices
from dlbricks_prediction.grouped import Grouped
from dlbricks_prediction.layer_posterior import LayerPosterior, Sessions, misfit_of, shares_of

_STEPS = 40
"""Maximum number of Newton steps."""

_LENGTHS = tuple(0.5**i for i in range(8))
"""Step lengths, as shares of a full Newton step."""

_SETTLED = 3e-4
"""Minimum increase of the log posterior per network that justifies another step."""

_FEW, _SHARE = 1000, 0.25
"""Number of networks up to which all are fitted at once, and share of more that come first."""

_FAR = 0.95
"""Share of the misfit below which a step leads so far that a factor is out of date."""

_CLOSER = 0.003
"""Share of a step's error that conjugate gradients leave."""

_MOST_ROUNDS, _STALE = 40, 15
"""Maximum number of rounds of conjugate gradients in a step, and number of them from which a factor
is out of date.
"""

Operator = Callable[[FloatArray], FloatArray]
"""Product of a matrix with a vector."""


@dataclass(frozen=True, eq=False)
class ObservedNetworks:
    """Networks that were observed.

    Attributes:
        counts: Number of occurrences of each layer in each network: shape (networks, layers).
        log_ms: Logarithm of each network's measured latency in milliseconds.
        noise: Variance of each logarithm that the layers do not explain.
        call_ms: Cost of a call of the timer within each latency, in milliseconds.
        sessions: Sessions of the networks; ``None`` if they share no error.
    """

    counts: scipy.sparse.csr_array
    log_ms: FloatArray
    noise: FloatArray
    call_ms: FloatArray
    sessions: Sessions | None = None

    def only(self, some: Indices) -> ObservedNetworks:
        """Some of the networks."""
        sessions = self.sessions and replace(self.sessions, of=self.sessions.of[some])
        return ObservedNetworks(
            self.counts[some], self.log_ms[some], self.noise[some], self.call_ms[some], sessions
        )

    def apart(self, layers: FloatArray) -> FloatArray:
        """Residual of each network's logarithm, from the logarithms of layers' latencies."""
        return np.asarray(self.log_ms - np.log(self.counts @ np.exp(layers) + self.call_ms))

    def errors(self, pull: FloatArray) -> FloatArray:
        """Covariance of the networks' errors times a vector."""
        found = self.noise * pull
        return found if self.sessions is None else found + self.sessions.times(pull)

    def pull(self, apart: FloatArray) -> FloatArray:
        """Inverse of the covariance of the networks' errors times residuals."""
        own = apart if self.sessions is None else apart - self.sessions.shared(apart, self.noise)
        return np.asarray(own / self.noise)


def fitted_pulls(
    prior: LayerPosterior, observed: ObservedNetworks, begin: FloatArray | None = None
) -> FloatArray:
    """Pull of each layer: the most probable mean is the prior's plus the covariance times these.

    Args:
        prior: Prior belief that no network has narrowed.
        observed: The networks.
        begin: Pulls that are near already, if there are any.
    """
    spreads = prior.spread, prior.spread.single
    if begin is not None:
        # At the most probable latencies, residuals are the errors' covariance times this.
        mean = prior.mean + prior.spread.times(begin)
        return _Fit(prior, *spreads, observed, begin, observed.pull(observed.apart(mean))).best()[0]
    return _from_few(prior, *spreads, observed)[0]


def _from_few(
    prior: LayerPosterior, spread: Grouped, single: Grouped, observed: ObservedNetworks
) -> tuple[FloatArray, FloatArray]:
    """Pulls of layers and of networks, which a share of the networks gives roughly.

    Far from the most probable latencies, a step needs a factor of its own.
    """
    size = len(observed.log_ms)
    pulls, pull = np.zeros(len(prior.mean)), np.zeros(size)
    if size > _FEW:
        some = np.sort(np.random.default_rng(0).permutation(size)[: int(size * _SHARE)])
        pulls, pull[some] = _from_few(prior, spread, single, observed.only(some))
    return _Fit(prior, spread, single, observed, pulls, pull).best()


@dataclass(eq=False)
class _Fit:
    """Search of the most probable latencies.

    Attributes:
        prior: Prior belief.
        spread: Covariance of the layers.
        single: Covariance of the layers in single precision.
        observed: The networks.
        pulls: Pull of each layer.
        pull: Pull of each network: pulls of its layers are this times their shares.
    """

    prior: LayerPosterior
    spread: Grouped
    single: Grouped
    observed: ObservedNetworks
    pulls: FloatArray
    pull: FloatArray

    def best(self) -> tuple[FloatArray, FloatArray]:
        """Pulls of layers and of networks at the most probable latencies."""
        shift, inverse = self.spread.times(self.pulls), None
        misfit = self._misfit(self.pulls, shift)
        for _ in range(_STEPS):
            mean = self.prior.mean + shift
            shares, totals = shares_of(self.observed.counts, mean, self.observed.call_ms)
            left = self.observed.log_ms - np.log(totals) + shares @ shift
            if inverse is None:
                inverse = _inverse(self.spread, self.single, shares, self.observed)
            matrix = _covariance(self.single, shares, self.observed)
            pull, rounds = _solved(matrix, inverse, left, self.pull)
            best, pulls, shift = self._stepped(shares.T @ pull, shift)
            if best < misfit:
                self.pulls, self.pull = pulls, pull
            if best > misfit - _SETTLED * len(left):
                break
            if rounds > _STALE or best < _FAR * misfit:
                inverse = None
            misfit = best
        return self.pulls, self.pull

    def _stepped(
        self, target: FloatArray, shift: FloatArray
    ) -> tuple[float, FloatArray, FloatArray]:
        """Misfit, pulls and movement of layers after the best share of a step."""
        moved, found = self.spread.times(target), []
        for length in _LENGTHS:
            pulls = self.pulls + length * (target - self.pulls)
            way = shift + length * (moved - shift)
            found.append((self._misfit(pulls, way), pulls, way))
        return min(found, key=lambda each: each[0])

    def _misfit(self, pulls: FloatArray, shift: FloatArray) -> float:
        """Negative logarithm of the posterior, without a constant."""
        apart = self.observed.apart(self.prior.mean + shift)
        misses = misfit_of(apart, self.observed.noise, self.observed.sessions)
        return float(misses + pulls @ shift) / 2


def _covariance(
    spread: Grouped, shares: scipy.sparse.csr_array, observed: ObservedNetworks
) -> Operator:
    """Covariance of the networks' measured logarithms, as a product with a vector."""

    def times(pull: FloatArray) -> FloatArray:
        moved = spread.times((shares.T @ pull).astype(spread.shared.dtype))
        return np.asarray(shares @ moved + observed.errors(pull))

    return times


def _inverse(
    spread: Grouped, single: Grouped, shares: scipy.sparse.csr_array, observed: ObservedNetworks
) -> Operator:
    """Inverse of the covariance of the networks' measured logarithms, as a product with a vector.

    It is in single precision. Where networks have hardly an error of their own, that is too coarse
    for a Cholesky factor, and double precision takes its place.
    """
    try:
        upper = _factor(single, scipy.sparse.csr_array(shares.astype(np.float32)), observed)
    except np.linalg.LinAlgError:
        upper = _factor(spread, shares, observed)
    (solve,) = scipy.linalg.get_blas_funcs(("trsv",), (upper,))

    def times(left: FloatArray) -> FloatArray:
        half = solve(upper, left.astype(upper.dtype), lower=0, trans=1)
        return np.asarray(solve(upper, half, lower=0), dtype=np.float64)

    return times


def _factor(
    spread: Grouped, shares: scipy.sparse.csr_array, observed: ObservedNetworks
) -> FloatArray:
    """Upper Cholesky factor of the covariance of the networks' measured logarithms."""
    among = spread.below(shares)
    among[np.diag_indices_from(among)] += observed.noise.astype(among.dtype)
    if observed.sessions is not None:
        observed.sessions.add_to(among)
    # The transpose has the order of memory that the factorization works on in place.
    return np.asarray(scipy.linalg.cholesky(among.T, overwrite_a=True, check_finite=False))


def _solved(
    matrix: Operator, inverse: Operator, right: FloatArray, begin: FloatArray
) -> tuple[FloatArray, int]:
    """Solution of a linear system by preconditioned conjugate gradients, and the rounds taken.

    Args:
        matrix: The matrix, which is positive definite.
        inverse: An approximation of its inverse.
        right: Right side.
        begin: A vector to begin with.
    """
    found, left = begin.copy(), right - matrix(begin)
    moved = inverse(left)
    way, size = moved, float(left @ moved)
    enough = _CLOSER**2 * size
    for done in range(_MOST_ROUNDS):
        if size <= enough:
            return found, done
        product = matrix(way)
        step = size / float(way @ product)
        found += step * way
        left -= step * product
        moved = inverse(left)
        before, size = size, float(left @ moved)
        way = moved + size / before * way
    return found, _MOST_ROUNDS
