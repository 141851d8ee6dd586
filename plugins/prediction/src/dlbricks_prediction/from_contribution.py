"""Posteriors of layers on one contribution's own system, from its networks alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import scipy

from dlbricks_core.figures.statistics import FloatArray, Indices
from dlbricks_prediction.atlas import Contribution
from dlbricks_prediction.baseline import Processor, doubted, expected_ms
from dlbricks_prediction.features import Features, distinct
from dlbricks_prediction.fitting import ObservedNetworks, fitted_pulls
from dlbricks_prediction.grouped import ErrorGroup, Grouped
from dlbricks_prediction.kernel import Kernel
from dlbricks_prediction.layer_posterior import LayerPosterior
from dlbricks_prediction.sites import sites_of

MOST_NETWORKS = 800
"""Maximum number of networks behind a prediction from a contribution without pulls: the networks
nearest to the requested layers.
"""

MOST_SITES = 600
"""Maximum number of sites of one class behind a covariance: the sites with most information about
the requested layers.
"""

FEW_LAYERS = 20
"""Maximum number of layers of a network whose information sites represent. A network of more layers
has information about their sum, which is used directly on the contribution's own system.
"""

MOST_REST = 0.2
"""Maximum share of other than requested layers in such a network's latency."""

_REST_ERROR = 0.5
"""Standard deviation of the logarithm of that share."""

_MOST_LARGE = 6
"""Maximum number of contributions whose networks of many layers are kept."""


def processor_of(contribution: Contribution) -> Processor:
    """The baseline's model of a contribution's system."""
    return Processor.of(contribution.system, contribution.setup.threads)


def prior_of(layers: Features, kernel: Kernel, processor: Processor) -> LayerPosterior:
    """Posterior of layers on a processor before any measurement."""
    spread = doubting(spread_of(layers, kernel), layers, processor)
    return LayerPosterior.untold(np.log(expected_ms(layers, processor)), spread)


def spread_of(layers: Features, kernel: Kernel) -> Grouped:
    """Covariance of the baseline's errors at layers, with a group for each class."""
    groups = tuple(
        ErrorGroup(places, kernel.within(part, part))
        for places in layers.classes.values()
        for part in [layers.part(places)]
    )
    return Grouped(groups, np.full((len(layers.kinds), 1), math.sqrt(kernel.common)))


def doubting(spread: Grouped, layers: Features, processor: Processor) -> Grouped:
    """A covariance of layers' errors, plus the uncertainty about short types."""
    parts = [(group, layers.part(group.layers)) for group in spread.groups]
    groups = tuple(
        ErrorGroup(group.layers, doubted(group.covariance.copy(), part, part, processor))
        for group, part in parts
    )
    return replace(spread, groups=groups)


def beliefs_from(
    contributions: Sequence[Contribution], asked: Features, kernel: Kernel
) -> list[LayerPosterior]:
    """Posteriors, from each of several contributions, of the latencies of layers on its own system.

    The mean uses the pulls of all layers, the covariance the sites of layers with most information
    about the requested layers. Without pulls of this kernel, both rest on the networks nearest to
    the wanted layers.

    Args:
        contributions: Measured networks.
        asked: Features of the layers.
        kernel: Covariance of the baseline's errors.

    Returns:
        Posterior of the logarithms of the layers' latencies in milliseconds, for each contribution.
    """
    found = [
        _Conditioned(_with_pulls_of(each, asked, kernel), asked, kernel) for each in contributions
    ]
    for name, places in asked.classes.items():
        layers = asked.part(places)
        within = kernel.within(layers, layers)
        for each in found:
            each.add_class(places, layers, within)
        telling = [each for each in found if name in each.contribution.features.classes]
        if len(places) < _WORTH_SORTING:
            for each in telling:
                each.learn(name, places, layers, kernel.within(each.layers(name), layers))
        elif telling:
            # Most contributions measured the same layers.
            every, rows = distinct([each.layers(name) for each in telling])
            between = kernel.within(every, layers)
            for each, own in zip(telling, rows, strict=True):
                each.learn(name, places, layers, between[own])
    return [each.posterior for each in found]


_WORTH_SORTING = 100
"""Minimum number of requested layers of a class for which equal layers of several contributions are
compared only once: finding equal layers takes as long as comparing with so many layers."""


def _with_pulls_of(contribution: Contribution, asked: Features, kernel: Kernel) -> Contribution:
    """A contribution with pulls of a kernel; without them, that of the networks nearest to layers.

    Args:
        contribution: Measured networks.
        asked: Features of the layers.
        kernel: Covariance of the baseline's errors.
    """
    if contribution.kernel == kernel.identity:
        return contribution
    near = contribution.only(nearest(contribution, asked, kernel, MOST_NETWORKS))
    return with_pulls(near, kernel)


class _Conditioned:
    """Posterior from one contribution, which grows class by class.

    Args:
        contribution: Measured networks, with pulls of the kernel.
        asked: Features of the requested layers.
        kernel: Covariance of the baseline's errors.

    Attributes:
        contribution: Measured networks.
    """

    def __init__(self, contribution: Contribution, asked: Features, kernel: Kernel) -> None:
        self.contribution = contribution
        self._kernel = kernel
        self._processor = processor_of(contribution)
        mean = np.log(expected_ms(asked, self._processor))
        self._mean = mean + kernel.common * contribution.pulls.sum()
        self._shared = np.ones(len(asked.kinds))
        self._groups: list[ErrorGroup] = []

    @property
    def posterior(self) -> LayerPosterior:
        """The posterior, once all classes were added."""
        common = math.sqrt(self._kernel.common * self.contribution.common)
        spread = Grouped(tuple(self._groups), common * self._shared[:, None])
        return LayerPosterior.untold(self._mean, spread)

    def layers(self, name: str) -> Features:
        """Features of the contribution's layers of a class."""
        features = self.contribution.features
        return features.part(features.classes[name])

    def add_class(self, places: Indices, layers: Features, within: FloatArray) -> None:
        """Adds the requested layers of a class, before they are conditioned.

        Args:
            places: Positions of the layers.
            layers: Their features.
            within: Covariance of the baseline's errors among them.
        """
        spread = doubted(within.copy(), layers, layers, self._processor)
        self._groups.append(ErrorGroup(places, spread))

    def learn(self, name: str, places: Indices, layers: Features, between: FloatArray) -> None:
        """Conditions the class that was added last on the contribution's layers of that class.

        Args:
            name: Name of the class.
            places: Positions of the requested layers.
            layers: Their features.
            between: Covariance of the baseline's errors between the contribution's layers and the
                requested ones, which is changed.
        """
        own, of_class = self.layers(name), self.contribution.features.classes[name]
        doubted(between, own, layers, self._processor)
        self._mean[places] += self.contribution.pulls[of_class] @ between
        sites = self.contribution.sites[of_class]
        informative = _informative(between, sites)
        part = own.part(informative)
        among = doubted(_lower(self._kernel, part), part, part, self._processor)
        among[np.diag_indices_from(among)] += sites[informative]
        factor = scipy.linalg.cholesky(among, lower=True, overwrite_a=True, check_finite=False)
        sides = np.column_stack([between[informative], np.ones(len(informative))])
        half = scipy.linalg.solve_triangular(factor, sides, lower=True, check_finite=False)
        spread = self._groups[-1].covariance
        spread -= half[:, :-1].T @ half[:, :-1]
        self._shared[places] -= half[:, -1] @ half[:, :-1]


def _lower(kernel: Kernel, layers: Features) -> FloatArray:
    """Covariance among layers of one class, of which at least the lower triangle is filled."""
    size = len(layers.kinds)
    found = np.zeros((size, size))
    for begin in range(0, size, _STRIP):
        end = min(begin + _STRIP, size)
        found[begin:end, :end] = kernel.within(
            layers.part(range(begin, end)), layers.part(range(end))
        )
    return found


_STRIP = 150
"""Number of rows of a triangle that are computed at once."""


def _informative(between: FloatArray, sites: FloatArray) -> Indices:
    """Positions of the sites with most information about the requested layers.

    Args:
        between: Covariance of the sites' layers with the requested layers.
        sites: Variance of each site.
    """
    if len(sites) <= MOST_SITES:
        return np.arange(len(sites))
    # Covariances are relative to the largest of each requested layer, even if all are small.
    near = (between / between.max(axis=0)).max(axis=1)
    order = np.argsort(-(near**2) / (between.max() + sites), kind="stable")
    half = MOST_SITES // 2
    others = np.linspace(half, len(sites) - 1, half).round().astype(np.intp)
    return np.sort(order[np.concatenate([np.arange(half), others])])


def with_pulls(contribution: Contribution, kernel: Kernel) -> Contribution:
    """The contribution with updated pulls, and with sites.

    Their cost grows with the cube of the number of networks.
    """
    prior = prior_of(contribution.features, kernel, processor_of(contribution))
    noise = contribution.noise + kernel.noise
    observed = ObservedNetworks(
        contribution.counts, contribution.log_ms, noise, contribution.call_ms
    )
    begin = contribution.pulls if contribution.pulls.size else None
    pulls = fitted_pulls(prior, observed, begin)
    return with_sites(replace(contribution, pulls=pulls, kernel=kernel.identity), kernel)


def with_sites(contribution: Contribution, kernel: Kernel) -> Contribution:
    """The contribution with the sites of its small networks; its pulls must be known."""
    prior = prior_of(contribution.features, kernel, processor_of(contribution))
    mean = prior.mean + prior.spread.times(contribution.pulls)
    small = np.flatnonzero(_is_small(contribution))
    found = sites_of(
        prior,
        contribution.counts[small],
        contribution.noise[small] + kernel.noise,
        contribution.call_ms[small],
        mean,
    )
    return replace(contribution, sites=found.variances, common=found.common)


def _is_small(contribution: Contribution) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Whether each network has few layers, so that sites represent its information."""
    return np.diff(contribution.counts.indptr) <= FEW_LAYERS


def nearest(
    contribution: Contribution, asked: Features, kernel: Kernel, most: int
) -> Sequence[int]:
    """Networks of a contribution whose layers are most similar to the given layers."""
    if len(contribution) <= most:
        return range(len(contribution))
    alike = np.full(len(contribution.features.kinds), kernel.common)
    known = contribution.features.classes
    for name, places in asked.classes.items():
        if name in known:
            own = contribution.features.part(known[name])
            alike[known[name]] += kernel.within(own, asked.part(places)).max(axis=1)
    counts = contribution.counts
    score = (counts @ alike) / np.asarray(counts.sum(axis=1)).ravel()
    return [int(i) for i in np.sort(np.argsort(-score, kind="stable")[:most])]


def narrowed(
    belief: LayerPosterior, asked: Features, base: Contribution, kernel: Kernel
) -> LayerPosterior:
    """The belief after an observation of a contribution's networks of many layers.

    Sites do not represent these networks. A network is used if it consists mostly of requested
    layers; its other layers get the remaining latency.

    Args:
        belief: Posterior of the requested layers, whose mean accounts for the networks.
        asked: Features of the requested layers.
        base: The contribution of the system itself.
        kernel: Covariance of the baseline's errors.
    """
    large = _large(base)
    wanted = {key: place for place, key in enumerate(asked.keys)}
    places = np.array([wanted.get(key, -1) for key in large.features.keys], dtype=np.intp)
    (shared,) = np.nonzero(places >= 0)
    parts = scipy.sparse.coo_array(large.counts[:, shared])
    counts = scipy.sparse.csr_array(
        (parts.data, (parts.row, places[shared][parts.col])), shape=(len(large), len(asked.kinds))
    )
    ms = np.exp(large.log_ms)
    rest = np.clip(1 - (counts @ np.exp(belief.mean)) / ms, 0.0, 1.0)
    made = np.flatnonzero(rest <= MOST_REST)
    noise = large.noise + kernel.noise + (_REST_ERROR * rest) ** 2
    return belief.narrowed(counts[made], noise[made], (rest * ms)[made])


@lru_cache(maxsize=_MOST_LARGE)
def _large(contribution: Contribution) -> Contribution:
    """The networks of many layers in a contribution."""
    return contribution.only(np.flatnonzero(~_is_small(contribution)))
