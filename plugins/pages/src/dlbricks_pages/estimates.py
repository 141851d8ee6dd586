"""Estimates on pages: models composed from bricks, and predictions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
from dlbricks_prediction import Contribution
from dlbricks_prediction.training_data import features_of, training_data

from dlbricks_core.bricks import BrickSet
from dlbricks_core.compose import Composer
from dlbricks_core.compose.options import DEFAULT_COMPOSER, find_composer
from dlbricks_core.errors import ModelError
from dlbricks_core.facts import (
    LATENCY,
    Calibration,
    CalibrationKey,
    Machine,
    Measurement,
    NetworkFeatures,
    Question,
    Setup,
    Subject,
)
from dlbricks_core.figures.figure import Measured, interval
from dlbricks_core.figures.protocols import between_hours
from dlbricks_core.figures.statistics import Disturbance
from dlbricks_core.ir import CanonicalModel, unpacked
from dlbricks_core.limits import ESTIMATES
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore
from dlbricks_pages.contents import (
    DEFAULT_PROTOCOL,
    Atlas,
    BrickShare,
    Home,
    MachineSetup,
    ModelBricks,
    NetworkFacts,
    NetworkValue,
    Parts,
)
from dlbricks_pages.from_features import FeaturePrediction, predicted_from_features


def with_composed(atlas: Atlas, store: ResultStore, observer: Observer) -> Atlas:
    """The atlas with composed latencies, and with the bricks of models.

    Graphs that backends rewrote models into are cut as for estimates. A model gets a latency if the
    store holds all of its bricks and no timing of the model itself.
    """
    found = _composed(atlas, store, observer)
    bricks: dict[str, ModelBricks] = {}
    networks = dict(atlas.networks)
    for each in found:
        signature = each.entry.subject.signature
        bricks.setdefault(signature, ModelBricks(each.entry.place, each.shares))
        networks.setdefault(signature, NetworkFacts(layers=each.operators))
    known = atlas.known_latencies
    new = [
        each.entry
        for each in found
        if (each.entry.place, each.entry.subject.signature) not in known
    ]
    return replace(atlas, entries=[*atlas.entries, *new], networks=networks, bricks_of=bricks)


@dataclass(frozen=True)
class _Composed:
    """A model composed of its bricks."""

    entry: NetworkValue  #: Latency of the model.
    shares: tuple[BrickShare, ...]  #: Bricks in descending order of time.
    operators: tuple[str, ...]  #: Operators of the graph that was cut.


def _composed(atlas: Atlas, store: ResultStore, observer: Observer) -> list[_Composed]:
    """Models whose bricks are all in the store, at each place with a stored graph."""
    every = [each for each in store.rewritten() if each[2] in atlas.systems]
    kept = every[: ESTIMATES.most]
    if left := len(every) - len(kept):
        _note_limit(observer, f"{left:,} graphs of models are not composed")
    observer.stage("Composing models from their bricks", len(kept))
    composing = _Composing(atlas, store, find_composer(DEFAULT_COMPOSER))
    machines: defaultdict[str, list[Machine]] = defaultdict(list)
    for machine in atlas.machines.values():
        machines[machine.system].append(machine)
    found = []
    for signature, setup, system in kept:
        data = store.rewrite(signature, setup, system)
        try:
            graph = None if data is None else unpacked(data, name=signature)
        except ModelError as error:
            observer.note(f"{signature} on {setup.backend} is not composed: {error.message}")
            graph = None
        if graph is not None:
            timed = replace(setup, protocol=DEFAULT_PROTOCOL.identity)
            found += [
                composing.composed(signature, graph, timed, machine) for machine in machines[system]
            ]
        observer.advance(signature)
    return [each for each in found if each is not None]


@dataclass(frozen=True)
class _Composing:
    atlas: Atlas  #: Source of the systems.
    store: ResultStore  #: Store with the figures of bricks.
    composer: Composer

    def composed(
        self, signature: str, graph: CanonicalModel, setup: Setup, machine: Machine
    ) -> _Composed | None:
        """A model, composed from a graph of the backend; ``None`` if bricks are missing."""
        system = machine.system
        composer, calibration = self.composer, self._calibration(setup, system)
        fitted = composer.calibrated(calibration.values) if calibration else composer
        # A model's own measurement must not influence its estimate by way of a calibration.
        own = calibration is not None and signature in calibration.signatures
        brickset = BrickSet.of(
            [graph],
            composer.granularity,
            composer.strategy,
            {0: graph},
            rereading=composer.rereading,
        )
        (cut,) = brickset.models
        plan = fitted.plan(brickset.bricks, setup, self.atlas.systems[system])
        measurements = self._measurements(plan.timed, setup, machine)
        latencies = plan.figures(
            {s: Measured.of(found, DEFAULT_PROTOCOL) for s, found in measurements.items()}
        )
        estimate = (composer if own else fitted).compose(cut, latencies)
        interval = estimate.in_any_hour(
            between_hours(
                measurements.values(),
                DEFAULT_PROTOCOL.statistic,
                virtual=self.atlas.systems[system].hypervisor is not None,
            ),
            measured=True,
        ).interval
        if estimate.partial or estimate.value is None or interval is None:
            return None
        shares = [
            BrickShare(s, brickset.bricks[s].operators, times, times * latencies[s].own)
            for s, times in cut.counts.items()
        ]
        place = MachineSetup.of(setup, machine)
        subject = Subject(signature, "model")
        load = Disturbance.worst([latencies[s].disturbance for s in cut.counts]).load
        return _Composed(
            NetworkValue(subject, LATENCY, place, estimate.value, interval, "composed", load=load),
            tuple(sorted(shares, key=lambda each: -each.ms)),
            tuple(layer.qualified_op for layer in graph.layers),
        )

    def _calibration(self, setup: Setup, system: str) -> Calibration | None:
        own = self.composer
        return self.store.calibration(
            CalibrationKey(own.name, own.strategy, own.granularity, LATENCY, setup, system)
        )

    def _measurements(
        self, signatures: Iterable[str], setup: Setup, machine: Machine
    ) -> Mapping[str, Measurement]:
        keys = [Question(Subject(s, "brick"), LATENCY, setup, machine.system) for s in signatures]
        return {
            key.subject.signature: found
            for key, found in self.store.within(machine).get(keys).items()
            if found.values and not found.failure
        }


#: Maximum number of layers that are predicted together: time and memory grow with its square.
_LAYERS = 1000


def with_unmeasured(atlas: Atlas, store: ResultStore, observer: Observer) -> Atlas:
    """The atlas with predicted latencies of models, and with their breakdown by kind of layer.

    A model is predicted at every place where other networks were measured and it was not, if the
    store holds the features of its layers. Where it failed, or is not supported, it gets
    no latency.
    """
    homes = _homes(atlas)
    wanted = list(islice(_unmeasured_models(atlas, homes), ESTIMATES.most + 1))
    if len(wanted) > ESTIMATES.most:
        wanted.pop()
        _note_limit(observer, "further models are not predicted")
    asked: defaultdict[MachineSetup, list[str]] = defaultdict(list)
    for place, signature in wanted:
        asked[place].append(signature)
    observer.stage("Predicting latencies that were not measured", len(asked))
    predicted: list[NetworkValue] = []
    parts: dict[str, Parts] = {}
    measured = atlas.known_latencies
    known: dict[tuple[Home | None, str], list[Contribution]] = {}
    for place, signatures in asked.items():
        machine = atlas.machines[place.home]
        key = (None if machine.alone else place.home, place.backend)
        if key not in known:
            known[key] = training_data(store.within(machine), place.backend)
        for signature, each in _predictions(atlas, place, signatures, known[key]):
            if (place, signature) not in measured:
                predicted.append(_entry(place, signature, each))
            if homes[signature] == place:
                parts[signature] = Parts(place, each.parts)
        observer.advance(place.backend)
    return replace(atlas, entries=[*atlas.entries, *predicted], parts=parts)


def _note_limit(observer: Observer, what: str) -> None:
    observer.note(f"{what}: there are {ESTIMATES.words}. {ESTIMATES.hint}")


def _homes(atlas: Atlas) -> dict[str, MachineSetup]:
    """First place of each model whose features are known."""
    found: dict[str, MachineSetup] = {}
    for each in atlas.entries:
        signature = each.subject.signature
        if each.subject.kind == "model" and atlas.networks[signature].features:
            found.setdefault(signature, each.place)
    return found


def _unmeasured_models(
    atlas: Atlas, homes: Mapping[str, MachineSetup]
) -> Iterator[tuple[MachineSetup, str]]:
    measured, refused = atlas.known_latencies, atlas.refused
    for place in sorted({each.place for each in atlas.entries if each.quantity == LATENCY}):
        for signature, home in homes.items():
            if (replace(place, threads=0), signature) in refused:
                continue
            if home == place or (place, signature) not in measured:
                yield place, signature


def _predictions(
    atlas: Atlas, place: MachineSetup, signatures: Sequence[str], known: Sequence[Contribution]
) -> Iterator[tuple[str, FeaturePrediction]]:
    setup = Setup(
        place.backend, place.version, place.options, place.threads, DEFAULT_PROTOCOL.identity, ""
    )
    call_ms = _call_ms(place, known)
    for batch in _batches(atlas, signatures):
        features = {signature: features_of(each) for signature, each in batch.items()}
        yield from predicted_from_features(
            features, setup, atlas.systems[place.system], known, call_ms
        ).items()


def _batches(atlas: Atlas, signatures: Sequence[str]) -> Iterator[dict[str, NetworkFeatures]]:
    """Features of models, in batches that can be predicted together."""
    batch: dict[str, NetworkFeatures] = {}
    layers: set[tuple[str, bytes]] = set()
    for signature in signatures:
        own = atlas.networks[signature].features
        assert own is not None
        new = layers | _layers(own)
        if batch and len(new) > _LAYERS:
            yield batch
            batch, new = {}, _layers(own)
        batch[signature], layers = own, new
    if batch:
        yield batch


def _layers(network: NetworkFeatures) -> set[tuple[str, bytes]]:
    size = len(network.numbers) // max(len(network.kinds), 1)
    return {
        (kind, network.numbers[i * size : (i + 1) * size]) for i, kind in enumerate(network.kinds)
    }


def _call_ms(place: MachineSetup, known: Sequence[Contribution]) -> float:
    """Cost of a call of the timer in milliseconds: measured on the system, or else elsewhere."""
    here = [each.call_ms for each in known if each.system.fingerprint == place.system]
    costs = here or [each.call_ms for each in known]
    return float(np.median(np.concatenate(costs))) if costs else 0.0


def _entry(place: MachineSetup, signature: str, found: FeaturePrediction) -> NetworkValue:
    figure = found.figure
    ends = interval(figure.plausible)
    return NetworkValue(
        Subject(signature, "model"), LATENCY, place, figure.value, ends, "predicted"
    )
