"""The predictor that starts from the atlas and learns from measurements on this system."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any

import numpy as np
import scipy

from dlbricks_core import fitted
from dlbricks_core.bricks import Brick
from dlbricks_core.facts import Setup, System
from dlbricks_core.figures.figure import RESAMPLES, Figure
from dlbricks_core.figures.predicted import Predicted, SpreadFactor
from dlbricks_core.figures.statistics import FloatArray, Indices
from dlbricks_core.predict.atlas import Contribution, LayerTable, counts_matrix
from dlbricks_core.predict.base import Predictor
from dlbricks_core.predict.baseline import Processor, doubted, expected_ms, shares_of_terms
from dlbricks_core.predict.features import Features, distinct, joined
from dlbricks_core.predict.fitting import ObservedNetworks, fitted_pulls
from dlbricks_core.predict.grouped import ErrorGroup, Grouped
from dlbricks_core.predict.kernel import Kernel
from dlbricks_core.predict.layer_posterior import LayerPosterior, joined_beliefs
from dlbricks_core.predict.nearness import distance
from dlbricks_core.predict.parts import parts_of
from dlbricks_core.predict.robust import doubt
from dlbricks_core.predict.sampling import agreeing_draws, centred
from dlbricks_core.predict.sites import sites_of
from dlbricks_core.predict.transfer import Expected, transferred
from dlbricks_core.predict.warm import cold_twins, warmed, warmth_of
from dlbricks_core.predict.whole_errors import discrepancy_of, spread_of_wholes

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

MOST_STORED = 250
"""Maximum number of a store's own networks behind a prediction. With 250 instead of 800, a
prediction takes a third to half of the time, is as exact, and has intervals 6% wider (eight
networks whose families were left out of 3,500 networks of ONNX Runtime).
"""

MOST_CONTRIBUTIONS = 6
"""Maximum number of contributions behind a prediction: those of the nearest systems."""

MOST_KNOWN = 2 * MOST_CONTRIBUTIONS
"""Maximum number of posteriors from contributions that are kept for the next predictions."""

_HERE = 0.003
"""Share of the kernel by which a system may differ from its own contribution, because machines
drift from day to day.
"""

_THREADS = 0.5
"""Distance between setups whose numbers of threads differ by a factor of two."""

_OTHERWISE = 0.1
"""Distance between setups that differ in the version of the framework or in options."""


class FromAtlas(Predictor):
    """Gaussian process over layers, conditioned on the atlas and on measurements here.

    Contributions of other systems are transferred to this one. The differences among them become an
    uncertainty that layers share, which the first measurements here resolve.
    """

    name = "atlas"

    def __init__(self) -> None:
        self._last: tuple[tuple[object, ...], LayerPosterior] | None = None

    def predict(
        self,
        bricks: Mapping[str, Brick],
        setup: Setup,
        system: System,
        known: Mapping[str, Figure],
        atlas: Sequence[Contribution] = (),
    ) -> Mapping[str, Predicted]:
        """Latencies of all bricks, in milliseconds.

        For known bricks, these are posterior latencies inside a model. The measured figures also
        include the cost of passing inputs and outputs.
        """
        table = LayerTable()
        inside = {s: table.add(Features.of(brick.model)) for s, brick in bricks.items()}
        # With one brick that ran alone, the ends of all: the layers then stay the same with more.
        alone = {s for s, figure in known.items() if figure.origin != "profiled"}
        ends = {s: table.add(Features.of_ends(bricks[s].model)) for s in (bricks if alone else ())}
        layers = len(table.kinds)
        belief = self._believed(table.features, setup, system, atlas)
        networks = counts_matrix(inside.values(), layers)
        parts = (_sum(inside[s], ends[s]) if s in alone else inside[s] for s in known)
        timed = counts_matrix(parts, layers)
        log_ms = np.log([figure.value for figure in known.values()])
        noise = np.array([figure.log_variance for figure in known.values()])
        noise += kernel_of(setup.backend).noise
        call_ms = np.array([figure.overhead for figure in known.values()])
        doubted = noise + doubt(belief, timed, log_ms, noise, call_ms)
        measured = timed, log_ms, doubted, call_ms
        layer_ms = np.exp(belief.likely(*measured))
        found = np.exp(agreeing_draws(centred(belief, networks), *measured, count=RESAMPLES))
        # What was measured here has narrowed the draws, so that the factor does not fit them.
        spread = SpreadFactor() if known else spread_of_wholes(setup, system, atlas)
        discrepancy = replace(discrepancy_of(setup.backend), spread=spread)
        likely, draws = networks @ layer_ms, (networks @ found.T).T
        # A measurement that contradicts all others is trusted for its own brick, and hardly changes
        # other bricks.
        own_ms = np.maximum(np.exp(log_ms) - call_ms, 0.0)
        errors = np.random.default_rng(1).standard_normal((RESAMPLES, len(known)))
        place = {signature: i for i, signature in enumerate(inside)}
        own = [place[signature] for signature in known]
        likely[own] *= own_ms / (timed @ layer_ms)
        draws[:, own] *= own_ms * np.exp(np.sqrt(noise) * errors) / (timed @ found.T).T
        return {
            signature: Predicted(float(value), each, discrepancy=discrepancy)
            for signature, value, each in zip(inside, likely, draws.T, strict=True)
        }

    def _believed(
        self, asked: Features, setup: Setup, system: System, atlas: Sequence[Contribution]
    ) -> LayerPosterior:
        """Posterior from the atlas, cached until the arguments change."""
        question = (asked.kinds, asked.numbers.tobytes(), setup, system, *map(id, atlas))
        if self._last is None or self._last[0] != question:
            self._last = question, believed(asked, setup, system, atlas)
        return self._last[1]


def believed(
    asked: Features, setup: Setup, system: System, atlas: Sequence[Contribution]
) -> LayerPosterior:
    """Posterior, from the atlas, of the latencies of layers on a system.

    Args:
        asked: Features of the layers.
        setup: How the layers run.
        system: System on which the layers run.
        atlas: Contributions of any systems and setups. A contribution of this very system and setup
            without pulls is a store's own, and counts as additional measurements.

    Returns:
        Posterior of the logarithms of the layers' latencies in milliseconds.
    """
    kernel = kernel_of(setup.backend)
    near = _near(setup, system, atlas)
    besides = [
        each.only(nearest(each, asked, kernel, MOST_STORED))
        for each, far in near
        if not far and not each.pulls.size
    ]
    bases = [(each, far) for each, far in near if far or each.pulls.size]
    every = joined([asked, *(each.features for each in besides)])
    cold = _from_bases(cold_twins(every), setup, system, bases)
    processor = Processor.of(system, setup.threads)
    belief = warmed(cold, every, warmth_of(setup.backend), processor)
    begin = len(asked.kinds)
    for each in besides:
        counts = _among(each.counts, begin, len(every.kinds))
        begin += len(each.features.kinds)
        noise = each.noise + kernel.noise
        noise += doubt(belief, counts, each.log_ms, noise, each.call_ms)
        belief = belief.observed(counts, each.log_ms, noise, each.call_ms)
    return belief.of(range(len(asked.kinds)))


def _narrowed(
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


@lru_cache(maxsize=MOST_CONTRIBUTIONS)
def _large(contribution: Contribution) -> Contribution:
    """The networks of many layers in a contribution."""
    return contribution.only(np.flatnonzero(~_is_small(contribution)))


def _from_bases(
    asked: Features, setup: Setup, system: System, bases: Sequence[tuple[Contribution, float]]
) -> LayerPosterior:
    """Posterior of layers here, from contributions of this system or else of others."""
    kernel, processor = kernel_of(setup.backend), Processor.of(system, setup.threads)
    here = bool(bases) and not bases[0][1]
    found = []
    parts = parts_of(asked, processor, [each for each, _ in bases], here=here)
    for part in parts:
        layers = asked.part(part.layers)
        chosen = [bases[i][0] for i in part.told_by]
        if not chosen:
            found.append(prior_of(layers, kernel, processor))
            continue
        beliefs = _beliefs_of(chosen, layers, kernel)
        if here and part.told_by == (0,):
            belief = _narrowed(beliefs[0], layers, chosen[0], kernel)
            found.append(belief.widened(_HERE, spread_of(layers, kernel)))
            continue
        places = [(each.system, each.setup) for each in chosen]
        shares = shares_of_terms(layers, processor)
        new = transferred(
            beliefs, places, layers, expectation(layers), (system, setup), shares=shares
        )
        if part.doubted:
            new = replace(new, spread=doubting(new.spread, layers, processor))
        found.append(new)
    return joined_beliefs([part.layers for part in parts], found)


def _beliefs_of(
    bases: Sequence[Contribution], layers: Features, kernel: Kernel
) -> list[LayerPosterior]:
    """Posteriors from several contributions, from memory where they can be.

    Posteriors from contributions with pulls stay in memory, so that predictions for several systems
    in turn find them again. Those from a store's own contributions are computed each time.
    """
    wanted = _RequestedLayers(layers)
    new = [each for each in bases if (each, wanted, kernel) not in _KNOWN]
    found = dict(zip(new, beliefs_from(new, layers, kernel), strict=True))
    found |= {each: _KNOWN[each, wanted, kernel] for each in bases if each not in found}
    _KNOWN.update({(each, wanted, kernel): found[each] for each in new if each.pulls.size})
    for oldest in [*_KNOWN][: max(len(_KNOWN) - MOST_KNOWN, 0)]:
        del _KNOWN[oldest]
    return [found[each] for each in bases]


def expectation(asked: Features) -> Expected:
    """The baseline's expectation of layers: a function of the system and the number of threads."""
    return lambda system, threads: np.log(expected_ms(asked, Processor.of(system, threads)))


def _near(
    setup: Setup, system: System, atlas: Sequence[Contribution]
) -> list[tuple[Contribution, float]]:
    """Contributions of the backend, the nearest first, each with its distance."""
    found = [
        (each, _distance(each, setup, system))
        for each in atlas
        if each.setup.backend == setup.backend
    ]
    return sorted(found, key=lambda pair: pair[1])[:MOST_CONTRIBUTIONS]


def _distance(contribution: Contribution, setup: Setup, system: System) -> float:
    other = contribution.setup
    alike = (other.version, other.options) == (setup.version, setup.options)
    octaves = abs(math.log2(other.threads / setup.threads))
    far = distance(contribution.system, system) + _THREADS * octaves
    return far if alike else far + _OTHERWISE


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


class _RequestedLayers:
    """Features of wanted layers, equal if the layers are."""

    def __init__(self, features: Features) -> None:
        self.features = features
        self._key = features.kinds, features.numbers.tobytes()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _RequestedLayers) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


_KNOWN: dict[tuple[Contribution, _RequestedLayers, Kernel], LayerPosterior] = {}
"""Posteriors of the last predictions, the oldest first."""


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


def _among(counts: scipy.sparse.csr_array, begin: int, layers: int) -> scipy.sparse.csr_array:
    """Counts among more layers; the networks' own layers begin at position ``begin``."""
    parts = (counts.data, counts.indices + begin, counts.indptr)
    return scipy.sparse.csr_array(parts, shape=(counts.shape[0], layers))


def _sum(one: Mapping[int, int], other: Mapping[int, int]) -> Mapping[int, int]:
    return {place: one.get(place, 0) + other.get(place, 0) for place in {**one, **other}}


@cache
def kernel_of(backend: str) -> Kernel:
    """The kernel fitted to a backend; for an unknown backend, the kernel fitted to all."""
    return Kernel.from_dict(fitted.of_backend(__file__, "kernel", backend))
