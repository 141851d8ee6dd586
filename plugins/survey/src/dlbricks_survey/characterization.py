"""Probes: a few informative networks, timed to characterize a system."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from types import MappingProxyType

import numpy as np
import scipy
from dlbricks_prediction import Contribution
from dlbricks_prediction.atlas import SURVEYED, LayerTable, counts_matrix
from dlbricks_prediction.features import Features, joined
from dlbricks_prediction.from_atlas import believed
from dlbricks_prediction.kernel import kernel_of
from dlbricks_prediction.layer_posterior import LayerPosterior
from dlbricks_prediction.nearness import distance
from dlbricks_prediction.rates import surveyed
from dlbricks_prediction.robust import doubt
from dlbricks_prediction.training_data import training_data

from dlbricks_core.bricks import Brick, BrickSet
from dlbricks_core.bricks.families import family_of
from dlbricks_core.estimation.adaptive.probing import BATCH, WIDENS_FROM
from dlbricks_core.facts import Note
from dlbricks_core.figures.figure import Measured
from dlbricks_core.figures.statistics import WIDENS, FloatArray
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.measure.cutting import Target, alike_together
from dlbricks_core.measure.ledger import Ledger
from dlbricks_core.measure.measuring import look_up, measure, open_worker
from dlbricks_core.measure.request import Request
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore
from dlbricks_survey.notes import note, warning
from dlbricks_survey.probes import LEAST_GAIN, choose_probes, gain, half_widths

_TOGETHER = 64
_ENOUGH_S = 0.5
"""Number of runs of each probe at the end, or seconds after which fewer runs suffice. A shared
machine is 15% faster or slower from one second to the next, so all probes run once more side by
side, for a longer time.
"""

_FEW_TOGETHER = 24
_FEW_ENOUGH_S = 0.1
"""Number of runs of each network at the end, or seconds after which fewer runs suffice, where
fixed networks alone are timed: two seconds in all.
"""

_DRAWN = 100
"""Number of the survey's networks among the candidates."""

_MOST_ASKED, _MOST_LAYERS = 40, 40
"""Maximum number of networks that probes characterize, if the user names none, and maximum number
of different layers in each network. The time of choosing grows with the square and the cube of the
number of layers.
"""

_STRATEGY, _GRANULARITY = "short-segments", 128
"""Split strategy and granularity for candidates: bricks as estimates use them."""


@dataclass(frozen=True)
class TimedProbe:
    """A network that was timed.

    Attributes:
        name: Family that the network was drawn from, or model that it is part of.
        brick: The network.
        expected_ms: Latency in milliseconds that was expected before any probe.
        measured: Measured figure of the network.
    """

    name: str
    brick: Brick
    expected_ms: float
    measured: Measured


@dataclass(frozen=True)
class Characterization:
    """Results of probing a system.

    Attributes:
        request: How the probes ran.
        probes: The probes in the order of their timing.
        asked: Names of the networks to predict.
        before: Half-width of the 90% interval of each of these networks without probes, relative to
            the latency.
        after: Half-widths with the probes.
        known: Number of networks that had been measured here before.
        elsewhere: Descriptions of the systems behind the expectations.
        ledger: Measurements and failures.
        dropped: Notes on timed networks that are not used: other programs disturbed them, or they
            would widen the intervals of other networks.
    """

    request: Request
    probes: Sequence[TimedProbe]
    asked: Sequence[str]
    before: FloatArray
    after: FloatArray
    known: int
    elsewhere: Sequence[str]
    ledger: Ledger
    dropped: Sequence[Note] = ()

    @property
    def seconds(self) -> float:
        """Seconds of measuring, without the start of the framework."""
        return sum(self.ledger.effort.seconds.values())


def characterize(
    models: Sequence[CanonicalModel],
    most: int,
    request: Request,
    store: ResultStore,
    observer: Observer,
    first: Mapping[str, Target] = MappingProxyType({}),
) -> Characterization:
    """Times and stores the networks that yield most information about a system per second.

    It ends before ``most`` probes if further probes would hardly narrow any interval.

    Args:
        models: Models to predict. Their bricks are candidates, too. Without models, the probes
            improve predictions of networks in the atlas.
        most: Maximum number of probes.
        request: How networks are measured, with a fixed number of runs.
        store: Store of the measurements.
        observer: Receives the progress.
        first: Networks by signature that are timed before any is chosen, beside ``most`` others.
    """
    observer.stage("Choosing probes")
    search = _Search.of(models, request, training_data(store, request.setup.backend), first)
    search.recall(look_up((request.key(s, "brick") for s in first), request, store))
    before, fixed = search.half_widths(), [s for s in first if s not in search.tried]
    with open_worker(request) as worker:
        if fixed and most:  # the choice of the others rests on them
            ledger = measure(search.targets(fixed), request, store, observer, worker=worker)
            search.learn(fixed, ledger)
        total = most + len(search.found)
        while left := total - len(search.found):
            chosen = search.choose(min(left, BATCH))
            if not chosen:
                break
            if search.gain(chosen) < LEAST_GAIN:
                search.stop(total)
                break
            ledger = measure(search.targets(chosen), request, store, observer, worker=worker)
            search.learn(chosen, ledger)
        runs, enough_s = (_TOGETHER, _ENOUGH_S) if most else (_FEW_TOGETHER, _FEW_ENOUGH_S)
        longer = replace(request, runs=max(request.runs, runs), enough_s=enough_s)
        found = search.targets([*search.found, *(s for s in fixed if s not in search.tried)])
        search.learn(fixed, measure(found, longer, store, observer, worker=worker))
    return Characterization(
        request,
        search.probes(),
        tuple(search.asked),
        before,
        search.half_widths(),
        search.known,
        search.elsewhere,
        search.ledger,
        search.drop(store),
    )


@dataclass
class _Search:
    """The state of a search for probes.

    Attributes:
        request: How probes run.
        candidates: Networks that may be timed, by signature.
        asked: Layers of each network to predict, by name.
        layers: Layers of each candidate, with its ends.
        prior: Prior beliefs about all layers, before any probe.
        names: Name of each candidate, for the user.
        known: Number of networks that had been measured here before.
        elsewhere: Descriptions of the systems behind the prior.
        found: Figures of the probes so far.
        tried: Signatures of candidates that were timed, or failed.
        ledger: All measurements and failures.
        widening: Signatures of probes that contradict the others.
    """

    request: Request
    candidates: Mapping[str, Target]
    asked: Mapping[str, Mapping[int, int]]
    layers: Mapping[str, Mapping[int, int]]
    prior: LayerPosterior
    names: Mapping[str, str]
    known: int
    elsewhere: Sequence[str]
    found: dict[str, Measured] = field(default_factory=dict)
    tried: set[str] = field(default_factory=set)
    ledger: Ledger = field(default_factory=Ledger)
    widening: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self.belief = self.prior
        self.noise = kernel_of(self.request.setup.backend).noise

    @classmethod
    def of(
        cls,
        models: Sequence[CanonicalModel],
        request: Request,
        atlas: Sequence[Contribution],
        first: Mapping[str, Target],
    ) -> _Search:
        """A new search, before any timing."""
        here = [each for each in atlas if _is_here(each, request)]
        others = [each for each in atlas if each not in here]
        known = {signature for each in here for signature in each.signatures}
        table = LayerTable()
        candidates, names = _candidates(models, first)
        layers = {s: table.add(_features_alone(each.brick)) for s, each in candidates.items()}
        asked = _networks(models, others or here, request, table) or {
            names[signature]: counts for signature, counts in layers.items()
        }
        search = cls(
            request,
            candidates,
            asked,
            layers,
            believed(table.features, request.setup, request.target, atlas),
            names,
            len(known),
            tuple(dict.fromkeys(each.system.cpu for each in others)),
        )
        search.tried |= known
        return search

    def recall(self, stored: Ledger) -> None:
        """Takes networks for timed that the store has, even if no other network rests on them."""
        new = {key.subject.signature for key in stored.figures} - self.tried
        self.tried |= new
        self.known += len(new)

    def half_widths(self) -> FloatArray:
        """Half-width of the 90% interval of each network to predict, relative to its latency."""
        return half_widths(self.belief, self._matrix(self.asked.values()))

    def choose(self, most: int) -> list[str]:
        """Signatures of the candidates with most information per second."""
        able = [s for s in self.candidates if s not in self.tried]
        if not able:
            return []
        found = choose_probes(
            self.belief,
            self._matrix(self.layers[s] for s in able),
            self._matrix(self.asked.values()),
            self.noise,
            self.request.runs,
            most,
        )
        return [able[i] for i in found]

    def gain(self, chosen: Sequence[str]) -> float:
        """Expected share by which each of these probes narrows the median interval."""
        probes, asked = (self.layers[s] for s in chosen), self.asked.values()
        return gain(self.belief, self._matrix(probes), self._matrix(asked), self.noise)

    def stop(self, most: int) -> None:
        """A note if fewer probes than requested narrow intervals."""
        found = note("no-further-probe-helps", probes=len(self.found), of_probes=most)
        self.ledger = self.ledger.noting(found)

    def targets(self, chosen: Iterable[str]) -> list[Target]:
        """Chosen candidates in the order in which they run."""
        wanted = {*chosen}
        return alike_together(each for s, each in self.candidates.items() if s in wanted)

    def learn(self, chosen: Sequence[str], ledger: Ledger) -> None:
        """Updates the beliefs with the measurements of chosen candidates."""
        self.tried |= set(chosen)
        for key, figure in ledger.figures.items():
            if figure.samples:
                self.found[key.subject.signature] = figure
        self.ledger |= ledger
        quiet = {s: each for s, each in self.found.items() if each.teaches}
        self.belief = self._conditioned(quiet)
        self.widening = self._widening(quiet)
        if self.widening:
            self.belief = self._conditioned(
                {s: each for s, each in quiet.items() if s not in self.widening}
            )

    def _conditioned(self, figures: Mapping[str, Measured]) -> LayerPosterior:
        """Beliefs about all layers, with figures of networks by signature."""
        if not figures:
            return self.prior
        log_ms = np.log([max(each.value, each.overhead, 1e-6) for each in figures.values()])
        noise = np.array([each.log_variance for each in figures.values()]) + self.noise
        counts = self._matrix(self.layers[s] for s in figures)
        call_ms = np.array([min(each.overhead, each.value) for each in figures.values()])
        extra = doubt(self.prior, counts, log_ms, noise, call_ms)
        return self.prior.observed(counts, log_ms, noise + extra, call_ms)

    def _widening(self, figures: Mapping[str, Measured]) -> frozenset[str]:
        """Networks that contradict all others, so that intervals are narrower without them."""
        width = self._median_width(self.belief)
        if width <= WIDENS_FROM * self._median_width(self.prior):
            return frozenset()
        found: set[str] = set()
        for signature in figures:
            rest = {s: e for s, e in figures.items() if s != signature and s not in found}
            without = self._median_width(self._conditioned(rest))
            if without < width:
                found.add(signature)
                width = without
        return frozenset(found)

    def _median_width(self, belief: LayerPosterior) -> float:
        return float(np.median(half_widths(belief, self._matrix(self.asked.values()))))

    def drop(self, store: ResultStore) -> list[Note]:
        """Notes on networks that are used for no other network. The store marks their samples."""
        notes = []
        if disturbed := [self.names[s] for s, each in self.found.items() if not each.teaches]:
            notes.append(warning("probes-disturbed", networks=disturbed))
        if widening := [self.names[s] for s in sorted(self.widening)]:
            store.mark([self.request.key(s, "brick") for s in self.widening], WIDENS)
            notes.append(warning("widens-others", networks=widening))
        return notes

    def probes(self) -> list[TimedProbe]:
        """The probes in the order of their timing."""
        ms = np.exp(self.prior.mean)
        return [
            TimedProbe(
                self.names[s],
                self.candidates[s].brick,
                float(sum(ms[layer] * number for layer, number in self.layers[s].items())),
                figure,
            )
            for s, figure in self.found.items()
        ]

    def _matrix(self, networks: Iterable[Mapping[int, int]]) -> scipy.sparse.csr_array:
        return counts_matrix(networks, len(self.prior.mean))


def _is_here(contribution: Contribution, request: Request) -> bool:
    """Whether a contribution was measured under the request's setup, on its system."""
    own, asked = contribution.setup, request.setup
    return contribution.system.fingerprint == request.fingerprint and (
        (own.version, own.options, own.threads) == (asked.version, asked.options, asked.threads)
    )


def _candidates(
    models: Sequence[CanonicalModel], first: Mapping[str, Target]
) -> tuple[dict[str, Target], dict[str, str]]:
    """Networks that may be timed, and their names, by signature.

    The candidates are networks of the survey, those that come first, and bricks of the models.
    """
    found = {**surveyed(_DRAWN), **first}
    names = {s: each.group.removeprefix(SURVEYED) for s, each in found.items()}
    bricks = BrickSet.of(models, _GRANULARITY, _STRATEGY)
    for cut in bricks.models:
        for signature in cut.counts:
            brick = bricks.bricks[signature]
            if not brick.opaque:
                found[signature] = Target(brick, "brick", family_of(cut.model))
                names[signature] = cut.model.name
    return found, names


def _features_alone(brick: Brick) -> Features:
    """Features of a network that runs alone: of its layers, and of its ends."""
    return joined([Features.of(brick.model), Features.of_ends(brick.model)])


def _networks(
    models: Sequence[CanonicalModel],
    atlas: Sequence[Contribution],
    request: Request,
    table: LayerTable,
) -> dict[str, Mapping[int, int]]:
    """Layers of the networks to predict, by name.

    These networks are the models, or else the largest network of each family in the nearest
    contribution, among those with few different layers.
    """
    if models:
        return {each.name: table.add(Features.of(each)) for each in models}
    if not atlas:
        return {}
    nearest = min(atlas, key=lambda each: distance(each.system, request.target))
    sizes = np.asarray(nearest.counts.sum(axis=1)).ravel()
    different = np.diff(nearest.counts.indptr)
    largest: dict[str, int] = {}
    for i in np.argsort(-sizes, kind="stable"):
        if different[i] > _MOST_LAYERS:
            continue
        # A group that several families share is not a separate network.
        if not nearest.groups[i].startswith(SURVEYED) and "," not in nearest.groups[i]:
            largest.setdefault(nearest.groups[i], int(i))
    chosen = dict(islice(largest.items(), _MOST_ASKED))
    rows = _rows(nearest.only(list(chosen.values())), table)
    return dict(zip(chosen, rows, strict=True))


def _rows(contribution: Contribution, table: LayerTable) -> list[dict[int, int]]:
    """Occurrences of each layer in each network of a contribution, by the layer's row."""
    features, counts = contribution.features, contribution.counts
    places = [
        next(iter(table.add(Features((kind,), row[np.newaxis]))))
        for kind, row in zip(features.kinds, features.numbers, strict=True)
    ]
    spans = zip(counts.indptr[:-1], counts.indptr[1:], strict=True)
    return [
        {places[i]: int(n) for i, n in zip(counts.indices[a:b], counts.data[a:b], strict=True)}
        for a, b in spans
    ]
