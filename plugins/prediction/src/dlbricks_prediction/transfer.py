"""Transfer: predicts latencies on a new system from measurements on several others."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, replace
from functools import cache

import numpy as np
import scipy

from dlbricks_core import fitted
from dlbricks_core.facts import Setup, System
from dlbricks_core.figures.statistics import FloatArray
from dlbricks_prediction.features import Features
from dlbricks_prediction.grouped import ErrorGroup, Grouped, inverse_of, weighted
from dlbricks_prediction.kernel import Kernel
from dlbricks_prediction.layer_posterior import LayerPosterior
from dlbricks_prediction.nearness import distance

_APART = 0.25
"""Unlikeness of two places that differ in any respect."""

_SAME = 0.02
"""Unlikeness of a place to itself on another day, because machines drift."""

_BEND = 1.5
"""Exponent of a difference in threads, in octaves. With 1, only the nearest system would count;
with 2, a straight line through the known ones would be extrapolated. Values in between combine
both.
"""

_PRIOR_PLACES = 6.0
"""Number of differences between places whose weight the prior has."""

Place = tuple[System, Setup]
"""System and setup under which layers run."""

Expected = Callable[[System, int], FloatArray]
"""Logarithm of each layer's latency that the baseline expects on a system, by number of threads."""


@dataclass(frozen=True)
class Rates:
    """Variances of the errors of a processor's physical terms, between places of unlikeness 1.

    The errors are those of the logarithm of seconds. Layers share the error of a term as far as
    the term makes up their time, whatever their class.

    Attributes:
        products: Of the time for an operation of a product or a convolution.
        loops: Of the time for an operation of any other layer.
        caches: Of the time for a byte from a cache.
        memory: Of the time for a byte from memory.
        starts: Of the time to start a layer.
    """

    products: float
    loops: float
    caches: float
    memory: float
    starts: float


@cache
def rates() -> Rates:
    """The variances that were fitted."""
    return Rates(**fitted.values(__file__, "rates"))


@dataclass(frozen=True)
class Believed:
    """Shares of the baseline's differences between places that are believed.

    Attributes:
        processors: Share of a difference between processors that is believed.
        threads: Share of a difference between numbers of threads that is believed.
        variance: Variance of either share.
    """

    processors: float
    threads: float
    variance: float


@cache
def believed_of_baseline() -> Believed:
    """The belief that was fitted."""
    return Believed(**fitted.values(__file__, "believed"))


@cache
def difference() -> Kernel:
    """Covariance of the difference in layers' logarithms between two places of unlikeness 1.

    Its noise is the noise of each layer alone.
    """
    return Kernel.from_dict(fitted.values(__file__, "difference"))


def unlikeness(one: Place, other: Place) -> float:
    """Variance of the difference between two places, in units of :func:`difference`."""
    (here, setup), (there, other_setup) = one, other
    octaves = abs(math.log2(setup.threads / other_setup.threads))
    found = distance(here, there) + octaves**_BEND
    alike = (setup.version, setup.options) == (other_setup.version, other_setup.options)
    return found + _APART if found or not alike else 0.0


def transferred(
    beliefs: Sequence[LayerPosterior],
    places: Sequence[Place],
    asked: Features,
    expected: Expected,
    place: Place,
    kernel: Kernel | None = None,
    shares: FloatArray | None = None,
) -> LayerPosterior:
    """Posterior of layers in a place, from beliefs about the same layers in other places.

    Latencies are a random field over places (ordinary kriging; Cressie, Statistics for Spatial
    Data, 1993, section 3.2): the difference between two places has the variance of their
    unlikeness. The covariance of differences between layers combines the prior with the differences
    between known places.

    Args:
        beliefs: Posterior of the logarithms of the layers' latencies in each known place.
        places: The known places.
        asked: Features of the layers.
        expected: The baseline's expectation of the layers, for any system and number of threads.
        place: The new place.
        kernel: Covariance of the difference between two places of unlikeness 1, beside that of
            :func:`rates`; by default :func:`difference`.
        shares: Share of each physical term in the time of each layer: shape (terms, layers). The
            errors of the terms are then all that layers of different classes share. ``None`` where
            the terms are not known.
    """
    kernel = kernel or difference()
    if shares is not None:
        kernel = replace(kernel, common=0.0)
    among = np.array([[unlikeness(one, other) for other in places] for one in places])
    to = np.array([unlikeness(each, place) or _SAME for each in places])
    weights = kriging_weights(among, to)
    left = float(weights @ to - weights @ among @ weights / 2)
    if left < 0:
        # No field has such differences: a store has other facts under a fingerprint that is known.
        weights = np.eye(len(to))[np.argmin(to)]
        left = float(to.min())
    believed, (system, setup) = believed_of_baseline(), place
    here = expected(system, setup.threads)
    alike = np.array([expected(each, setup.threads) for each, _ in places])
    by_threads = alike - np.array([expected(each, other.threads) for each, other in places])
    # What the baseline expects moves the mean, and is no error between known places.
    foreseen = believed.processors * alike - believed.threads * by_threads
    unforeseen = np.array([each.mean for each in beliefs]) - foreseen
    own = np.abs(weights) / np.abs(weights).sum()
    parts = [(left, _learned(unforeseen, among, asked, beliefs[0].spread.groups, kernel))]
    parts += [(share, each.spread) for share, each in zip(own, beliefs, strict=True)]
    mean, spread = weights @ unforeseen + believed.processors * here, weighted(parts)
    moved = np.column_stack([here - weights @ alike, weights @ by_threads])
    columns = [spread.shared, math.sqrt(believed.variance) * moved]
    if shares is not None:
        columns.append(shares.T * np.sqrt(left * np.array(astuple(rates()))))
    return LayerPosterior.untold(mean, replace(spread, shared=np.concatenate(columns, axis=1)))


def kriging_weights(among: FloatArray, to: FloatArray) -> FloatArray:
    """Weights of known places that sum to 1 and minimize the variance at the new one.

    Args:
        among: Unlikeness of each pair of known places: shape (places, places).
        to: Unlikeness of each known place to the new place: shape (places,).
    """
    size = len(to)
    matrix = np.ones((size + 1, size + 1))
    matrix[:size, :size] = among
    matrix[size, size] = 0.0
    return np.asarray(np.linalg.lstsq(matrix, np.append(to, 1.0), rcond=None)[0][:size])


def contrasts(means: FloatArray, among: FloatArray) -> FloatArray:
    """Independent differences between places, scaled to unlikeness 1: shape (places - 1, layers).

    Args:
        means: Mean of each place: shape (places, layers).
        among: Unlikeness of each pair of places.
    """
    size = len(means)
    if size == 1:
        return np.zeros((0, means.shape[1]))
    across = scipy.linalg.null_space(np.ones((1, size))).T
    factor = scipy.linalg.cholesky(-across @ among @ across.T / 2, lower=True)
    return np.asarray(scipy.linalg.solve_triangular(factor, across @ means, lower=True))


def _learned(
    means: FloatArray,
    among: FloatArray,
    asked: Features,
    groups: Sequence[ErrorGroup],
    kernel: Kernel,
) -> Grouped:
    """Covariance over layers of the difference between two places of unlikeness 1.

    It is the posterior mean under an inverse Wishart prior. The individual part of a layer carries
    no information about others, and is removed from the differences first.
    """
    differences = contrasts(means, among)
    number = len(differences)
    share = _PRIOR_PLACES + number
    one = np.ones(len(asked.kinds))
    # With N the noise times the identity and E the expected covariance, what removes the individual
    # part is E (E + N)^-1 = 1 - N (E + N)^-1, and what it leaves of E is N times itself. E is a
    # constant besides its groups, so Sherman and Morrison's formula gives the inverse.
    smooth, through = differences.copy(), np.zeros(len(one))
    found = []
    for group in groups:
        layers = asked.part(group.layers)
        expected, noise = kernel.within(layers, layers), kernel.noise * np.eye(len(group.layers))
        covariance = _PRIOR_PLACES * expected
        if number:
            inverse = inverse_of(scipy.linalg.cholesky(expected + noise, lower=True))
            covariance += number * kernel.noise * (np.eye(len(inverse)) - kernel.noise * inverse)
            smooth[:, group.layers] -= kernel.noise * differences[:, group.layers] @ inverse
            through[group.layers] = inverse.sum(axis=0)
        found.append(ErrorGroup(group.layers, covariance / share + noise))
    columns = [math.sqrt(_PRIOR_PLACES * kernel.common) * one[:, None]]
    if number:
        in_common = through * math.sqrt(kernel.common / (1 + kernel.common * through.sum()))
        smooth += kernel.noise * np.outer(differences @ in_common, in_common)
        columns += [smooth.T, math.sqrt(number) * kernel.noise * in_common[:, None]]
    return Grouped(tuple(found), np.concatenate(columns, axis=1) / math.sqrt(share))
