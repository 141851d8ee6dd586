"""The predictor that starts from the atlas and learns from measurements on this system."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import scipy

from dlbricks_core.bricks import Brick
from dlbricks_core.facts import Note, Setup, System
from dlbricks_core.figures.figure import RESAMPLES, Figure
from dlbricks_core.figures.predicted import Predicted, SpreadFactor
from dlbricks_core.predict import Predictor
from dlbricks_core.store import ResultStore
from dlbricks_prediction import training_data
from dlbricks_prediction.atlas import Contribution, LayerTable, counts_matrix, shipped
from dlbricks_prediction.baseline import Processor, expected_ms, shares_of_terms
from dlbricks_prediction.features import Features, joined
from dlbricks_prediction.from_contribution import (
    beliefs_from,
    doubting,
    narrowed,
    nearest,
    prior_of,
    spread_of,
)
from dlbricks_prediction.kernel import Kernel, kernel_of
from dlbricks_prediction.layer_posterior import LayerPosterior, joined_beliefs
from dlbricks_prediction.nearness import distance
from dlbricks_prediction.parts import parts_of
from dlbricks_prediction.robust import doubt
from dlbricks_prediction.sampling import agreeing_draws, centred
from dlbricks_prediction.transfer import Expected, transferred
from dlbricks_prediction.warm import cold_twins, warmed, warmth_of
from dlbricks_prediction.whole_errors import discrepancy_of, is_stranger, spread_of_wholes

MOST_STORED = 250
"""Maximum number of a store's own networks behind a prediction. With 250 instead of 800, a
prediction takes a third to half of the time, is as exact, and has intervals 6% wider (eight
networks whose families were left out of 3,500 networks of ONNX Runtime).
"""

MOST_CONTRIBUTIONS = 6
"""Maximum number of contributions behind a prediction: those of the nearest systems."""

MOST_KNOWN = 2 * MOST_CONTRIBUTIONS
"""Maximum number of posteriors from contributions that are kept for the next predictions."""

_PROBES = 60
"""Number of the survey's networks that may be probes, besides the bricks of the models. All of them
are predicted at each turn.
"""

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
        # No layer is of the kind of an end.
        parts = ({**inside[s], **(ends[s] if s in alone else {})} for s in known)
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
        stranger = is_stranger(setup, system, atlas)
        discrepancy = replace(discrepancy_of(setup.backend, stranger=stranger), spread=spread)
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

    def training_data(
        self, store: ResultStore, backend: str | None = None
    ) -> Sequence[Contribution]:
        """Contributions of the store, and of the package."""
        return training_data.training_data(store, backend)

    def shipped(self, backend: str | None = None) -> Sequence[Contribution]:
        """Contributions of the package."""
        return shipped(backend)

    def remember(
        self, store: ResultStore, bricks: Mapping[str, Brick], groups: Mapping[str, Collection[str]]
    ) -> None:
        """Stores features of networks."""
        training_data.remember(store, bricks, groups)

    def probes(self) -> Sequence[tuple[Brick, str]]:
        """The first networks of the survey."""
        from dlbricks_prediction.rates import surveyed  # few estimates are on unknown systems

        return [(each.brick, each.group) for each in surveyed(_PROBES).values()]

    def rates(self) -> Sequence[tuple[Brick, str]]:
        """The networks of the survey that show one kind of work each."""
        from dlbricks_prediction.rates import rated

        return [(each.brick, each.group) for each in rated().values()]

    def doubts(
        self,
        bricks: Sequence[Brick],
        setup: Setup,
        system: System,
        atlas: Sequence[Contribution],
        *,
        here: bool,
    ) -> Iterator[Note]:
        """Notes on the system, on element types and on operators unlike all measured ones."""
        from dlbricks_prediction.doubts import far_operators, far_systems, far_types

        yield from far_systems(setup, system, atlas, here=here)
        yield from far_types(bricks, setup, system, atlas)
        yield from far_operators(bricks, setup.backend, atlas)

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
            belief = narrowed(beliefs[0], layers, chosen[0], kernel)
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
    wanted = layers.kinds, layers.numbers.tobytes()
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


_KNOWN: dict[tuple[Contribution, tuple[tuple[str, ...], bytes], Kernel], LayerPosterior] = {}
"""Posteriors of the last predictions, the oldest first."""


def _among(counts: scipy.sparse.csr_array, begin: int, layers: int) -> scipy.sparse.csr_array:
    """Counts among more layers; the networks' own layers begin at position ``begin``."""
    parts = (counts.data, counts.indices + begin, counts.indptr)
    return scipy.sparse.csr_array(parts, shape=(counts.shape[0], layers))
