"""The predictor that starts from the atlas and learns from measurements on this system."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path

import numpy as np
import scipy

from dlbricks_core.bricks import Brick
from dlbricks_core.facts import Setup, System
from dlbricks_core.figures.figure import RESAMPLES, Discrepancy, Figure, Predicted
from dlbricks_core.figures.statistics import FloatArray
from dlbricks_core.passes.contrib.expand import as_run_by
from dlbricks_core.predict.atlas import Contribution, LayerTable, counts_matrix
from dlbricks_core.predict.base import Predictor
from dlbricks_core.predict.baseline import Processor, doubted, expected_ms
from dlbricks_core.predict.belief import Belief
from dlbricks_core.predict.features import Features, joined
from dlbricks_core.predict.kernel import Kernel
from dlbricks_core.predict.nearness import distance
from dlbricks_core.predict.parts import Part, parts_of
from dlbricks_core.predict.robust import doubt
from dlbricks_core.predict.sampling import agreeing_draws, centred
from dlbricks_core.predict.transfer import Expected, transferred

MOST_NETWORKS = 800
"""Maximum number of a contribution's networks behind a covariance: those nearest to the wanted
layers.
"""

MOST_STORED = 250
"""Maximum number of a store's own networks behind a prediction. With 250 instead of 800, a
prediction takes a third to half of the time, is as exact, and has intervals 6% wider (eight
networks whose families were left out of 3,500 networks of ONNX Runtime).
"""

MOST_CONTRIBUTIONS = 6
"""Maximum number of contributions behind a prediction: those of the nearest systems."""

DISCREPANCY = Discrepancy(predicted=0.033, measured=0.025)
"""Errors that the bricks of one model share, in addition to the error of composing. They were
fitted to families of models that were left out of the atlas, for all backends together
(benchmarks/predictor/intervals.py), while a contribution mixed sessions. Today's contributions
give 1.9% and 4.2% on ONNX Runtime, 0.1% and 2.6% on the other backends.
"""

_HERE = 0.003
"""Share of the kernel by which a system may differ from its own contribution, because machines
drift from day to day.
"""

_THREADS = 0.5
"""Distance between setups whose numbers of threads differ by a factor of two."""

_OTHERWISE = 0.1
"""Distance between setups that differ in the version of the framework or in options."""

_KERNELS = Path(__file__).parent / "kernels.json"


class FromAtlas(Predictor):
    """Gaussian process over layers, conditioned on the atlas and on measurements here.

    Contributions of other systems are transferred to this one. The differences among them become an
    uncertainty that layers share, which the first measurements here resolve.
    """

    name = "atlas"

    def __init__(self) -> None:
        self._last: tuple[tuple[object, ...], Belief] | None = None

    def predict(
        self,
        bricks: Mapping[str, Brick],
        setup: Setup,
        system: System,
        known: Mapping[str, Figure],
        atlas: Sequence[Contribution] = (),
    ) -> Mapping[str, Predicted]:
        """Latencies of all bricks, in milliseconds.

        For known bricks, they are the believed latencies inside a model. Their measured figures
        also include the cost of handing over their inputs and outputs.
        """
        table = LayerTable()
        run = {s: as_run_by(setup.backend, brick.model) for s, brick in bricks.items()}
        inside = {s: table.add(Features.of(model)) for s, model in run.items()}
        # The layers of all bricks: so they stay the same when more bricks are known.
        ends = {s: table.add(Features.of_ends(model)) for s, model in run.items()}
        layers = len(table.kinds)
        belief = self._believed(table.features, setup, system, atlas)
        networks = counts_matrix(inside.values(), layers)
        timed = counts_matrix((_sum(inside[s], ends[s]) for s in known), layers)
        log_ms = np.log([figure.value for figure in known.values()])
        noise = np.array([figure.log_variance for figure in known.values()])
        noise += kernel_of(setup.backend).noise
        call_ms = np.array([figure.overhead for figure in known.values()])
        doubted = noise + doubt(belief, timed, log_ms, noise, call_ms)
        measured = timed, log_ms, doubted, call_ms
        layer_ms = np.exp(belief.observed(*measured).mean)
        found = np.exp(agreeing_draws(centred(belief, networks), *measured, count=RESAMPLES))
        likely, draws = networks @ layer_ms, found @ networks.T.toarray()
        # What contradicts all others tells little about them, and everything about itself.
        own_ms = np.maximum(np.exp(log_ms) - call_ms, 0.0)
        errors = np.random.default_rng(1).standard_normal((RESAMPLES, len(known)))
        place = {signature: i for i, signature in enumerate(inside)}
        own = [place[signature] for signature in known]
        likely[own] *= own_ms / (timed @ layer_ms)
        draws[:, own] *= own_ms * np.exp(np.sqrt(noise) * errors) / (found @ timed.T.toarray())
        return {
            signature: Predicted(float(value), each, discrepancy=DISCREPANCY)
            for signature, value, each in zip(inside, likely, draws.T, strict=True)
        }

    def _believed(
        self, asked: Features, setup: Setup, system: System, atlas: Sequence[Contribution]
    ) -> Belief:
        """Belief from the atlas, cached until the arguments change."""
        question = (asked.kinds, asked.numbers.tobytes(), setup, system, *map(id, atlas))
        if self._last is None or self._last[0] != question:
            self._last = question, believed(asked, setup, system, atlas)
        return self._last[1]


@dataclass(frozen=True, eq=False)
class Told:
    """Prediction for a network from its features alone.

    Attributes:
        figure: Latency of the whole network in milliseconds.
        parts: Number of layers and milliseconds by the kind of layer; the network's ends are
            kinds of their own.
    """

    figure: Predicted
    parts: Mapping[str, tuple[int, float]]


def told(
    networks: Mapping[str, Features],
    setup: Setup,
    system: System,
    atlas: Sequence[Contribution],
    call_ms: float = 0.0,
) -> dict[str, Told]:
    """Predictions for networks from their features, without their graphs.

    Args:
        networks: Features of all layers and ends of each network, by its signature.
        setup: How the networks run.
        system: System on which the networks run.
        atlas: Measurements, here and elsewhere.
        call_ms: Cost of a call of the timer, in milliseconds, which each latency includes.
    """
    table = LayerTable()
    counts = {name: table.add(features) for name, features in networks.items()}
    matrix = counts_matrix(counts.values(), len(table.kinds))
    belief = believed(table.features, setup, system, atlas)
    layer_ms = np.exp(belief.mean)
    draws = np.exp(centred(belief, matrix).draws(RESAMPLES)) @ matrix.T.toarray()
    # Each of these networks counts as a model, with an error of its own.
    own = np.random.default_rng(0).standard_normal(draws.shape)
    draws *= np.maximum(1 + DISCREPANCY.predicted * own, 0.0)
    found = {}
    for (name, own), likely, each in zip(counts.items(), matrix @ layer_ms, draws.T, strict=True):
        parts: dict[str, tuple[int, float]] = {}
        for place, number in own.items():
            times, ms = parts.get(table.kinds[place], (0, 0.0))
            parts[table.kinds[place]] = times + number, ms + number * float(layer_ms[place])
        figure = Predicted(float(likely) + call_ms, each + call_ms, call_ms)
        found[name] = Told(figure, parts)
    return found


def believed(
    asked: Features, setup: Setup, system: System, atlas: Sequence[Contribution]
) -> Belief:
    """Belief from the atlas about the latencies of layers on a system.

    Args:
        asked: Features of the layers.
        setup: How the layers run.
        system: System on which the layers run.
        atlas: Contributions of any systems and setups. A contribution of this very system and setup
            without pulls is a store's own, and counts as additional measurements.

    Returns:
        Belief about the logarithms of the layers' latencies in milliseconds.
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
    belief = _from_bases(every, setup, system, bases)
    begin = len(asked.kinds)
    for each in besides:
        counts = _among(each.counts, begin, len(every.kinds))
        begin += len(each.features.kinds)
        noise = each.noise + kernel.noise
        noise += doubt(belief, counts, each.log_ms, noise, each.call_ms)
        belief = belief.observed(counts, each.log_ms, noise, each.call_ms)
    return belief.of(range(len(asked.kinds)))


def _from_bases(
    asked: Features, setup: Setup, system: System, bases: Sequence[tuple[Contribution, float]]
) -> Belief:
    """Belief about layers here, from contributions of this system or else of others."""
    kernel, processor = kernel_of(setup.backend), Processor.of(system, setup.threads)
    here = bool(bases) and not bases[0][1]
    parts = parts_of(asked, processor, [each for each, _ in bases], here=here)
    found = []
    for part in parts:
        layers = asked if len(part.layers) == len(asked.kinds) else asked.part(part.layers)
        chosen = [bases[i][0] for i in part.told_by]
        if not chosen:
            found.append(prior_of(layers, kernel, processor))
            continue
        beliefs = [_belief_of(each, layers, kernel) for each in chosen]
        if here and part.told_by == (0,):
            found.append(beliefs[0].widened(_HERE * kernel.covariance(layers, layers)))
            continue
        places = [(each.system, each.setup) for each in chosen]
        new = transferred(beliefs, places, layers, expectation(layers), (system, setup))
        if part.doubted:
            doubted(new.covariance, layers, layers, processor)
        found.append(new)
    return found[0] if len(found) == 1 else _joined(parts, found)


def _joined(parts: Sequence[Part], beliefs: Sequence[Belief]) -> Belief:
    """The belief about all parts, whose errors have nothing in common."""
    size = sum(len(part.layers) for part in parts)
    mean, covariance = np.zeros(size), np.zeros((size, size))
    for part, belief in zip(parts, beliefs, strict=True):
        mean[part.layers] = belief.mean
        covariance[np.ix_(part.layers, part.layers)] = belief.covariance
    return Belief(mean, covariance)


def _belief_of(base: Contribution, layers: Features, kernel: Kernel) -> Belief:
    """Belief from one contribution, from memory if it can be."""
    if base.pulls.size:
        return _belief_of_atlas(base, _Wanted(layers), kernel)
    return belief_from(base, layers, kernel)


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


def prior_of(layers: Features, kernel: Kernel, processor: Processor) -> Belief:
    """Belief about layers on a processor before any measurement."""
    expected = np.log(expected_ms(layers, processor))
    return Belief(expected, covariance(layers, layers, kernel, processor))


def covariance(
    rows: Features, columns: Features, kernel: Kernel, processor: Processor
) -> FloatArray:
    """Covariance of the logarithms of layers' latencies before any measurement.

    Args:
        rows: Features of layers.
        columns: Features of layers.
        kernel: Covariance of the baseline's errors.
        processor: The processor, which may compute in short types or not.

    Returns:
        Array of shape (layers of ``rows``, layers of ``columns``).
    """
    return doubted(kernel.covariance(rows, columns), rows, columns, processor)


class _Wanted:
    """Features of wanted layers, equal if the layers are."""

    def __init__(self, features: Features) -> None:
        self.features = features
        self._key = features.kinds, features.numbers.tobytes()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Wanted) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


@lru_cache(maxsize=2 * MOST_CONTRIBUTIONS)
def _belief_of_atlas(contribution: Contribution, wanted: _Wanted, kernel: Kernel) -> Belief:
    """As :func:`belief_from`, once for all systems that a prediction is asked for in turn.

    It is for contributions with pulls, which stay in memory. A store's own are read anew each time.
    """
    return belief_from(contribution, wanted.features, kernel)


def belief_from(contribution: Contribution, asked: Features, kernel: Kernel) -> Belief:
    """Belief from one contribution about the latencies of layers on its own system.

    The mean rests on all networks if the contribution has pulls. The covariance rests on the
    networks nearest to the wanted layers; with fewer networks it is larger.

    Args:
        contribution: Measured networks.
        asked: Features of the layers.
        kernel: Covariance of the baseline's errors.

    Returns:
        Belief about the logarithms of the layers' latencies in milliseconds.
    """
    near = contribution.only(nearest(contribution, asked, kernel, MOST_NETWORKS))
    every = joined([near.features, asked])
    processor = processor_of(contribution)
    prior = prior_of(every, kernel, processor)
    counts = _among(near.counts, 0, len(every.kinds))
    begin = len(near.features.kinds)
    found = prior.observed(
        counts,
        near.log_ms,
        near.noise + kernel.noise,
        near.call_ms,
        of=range(begin, len(every.kinds)),
    )
    # Pulls of another kernel do not apply.
    if contribution.kernel != kernel.identity or len(near) == len(contribution):
        return found
    pulled = covariance(asked, contribution.features, kernel, processor) @ contribution.pulls
    return replace(found, mean=prior.mean[begin:] + pulled)


def with_pulls(contribution: Contribution, kernel: Kernel) -> Contribution:
    """The contribution with pulls. Their cost grows with the cube of the number of networks."""
    prior = prior_of(contribution.features, kernel, processor_of(contribution))
    noise = contribution.noise + kernel.noise
    pulls = prior.pulls(contribution.counts, contribution.log_ms, noise, contribution.call_ms)
    return replace(contribution, pulls=pulls, kernel=kernel.identity)


def nearest(
    contribution: Contribution, asked: Features, kernel: Kernel, most: int
) -> Sequence[int]:
    """Networks of a contribution with the layers most similar to given ones."""
    if len(contribution) <= most:
        return range(len(contribution))
    alike = kernel.covariance(asked, contribution.features).max(axis=0)
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
    kernels = json.loads(_KERNELS.read_text())
    return Kernel.from_dict(kernels.get(backend, kernels["*"]))
