"""Predicts latencies of whole models at places where they were not measured."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from dlbricks_core.facts import LATENCY, NetworkFeatures, Setup, Subject
from dlbricks_core.figures.figure import interval
from dlbricks_core.predict import Contribution
from dlbricks_core.predict.from_atlas import Told, told
from dlbricks_core.store import ResultStore
from dlbricks_core.workflows.atlas import DEFAULT_PROTOCOL, Atlas, Entry, Home, Parts, Place
from dlbricks_core.workflows.knowledge import features_of, knowledge
from dlbricks_core.workflows.observer import Observer

_LAYERS = 1000
"""Maximum number of layers that are predicted together: time and memory grow with its square."""


def with_unmeasured(atlas: Atlas, store: ResultStore, observer: Observer) -> Atlas:
    """The atlas with predicted latencies of models, and with their breakdown by kind of layer.

    A model is predicted at every place where other networks were measured and it was not, if the
    store holds the features of its layers. Where it failed, or is not supported, it gets
    no latency.

    Args:
        atlas: Measured values.
        store: The store behind the atlas.
        observer: Receives the progress.
    """
    homes = _homes(atlas)
    asked = _asked(atlas, homes)
    observer.stage("Predicting latencies that were not measured", len(asked))
    predicted: list[Entry] = []
    parts: dict[str, Parts] = {}
    measured = atlas.known_latencies
    known: dict[tuple[Home | None, str], list[Contribution]] = {}
    for place, signatures in asked.items():
        machine = atlas.machines[place.home]
        key = (None if machine.alone else place.home, place.backend)
        if key not in known:
            known[key] = knowledge(store.within(machine), place.backend)
        for signature, each in _told(atlas, place, signatures, known[key]):
            if (place, signature) not in measured:
                predicted.append(_entry(place, signature, each))
            if homes[signature] == place:
                parts[signature] = Parts(place, each.parts)
        observer.advance(place.backend)
    return replace(atlas, entries=[*atlas.entries, *predicted], parts=parts)


def _homes(atlas: Atlas) -> dict[str, Place]:
    """First place of each model whose features are known."""
    found: dict[str, Place] = {}
    for each in atlas.entries:
        signature = each.subject.signature
        if each.subject.kind == "model" and atlas.networks[signature].features:
            found.setdefault(signature, each.place)
    return found


def _asked(atlas: Atlas, homes: Mapping[str, Place]) -> dict[Place, list[str]]:
    """Models to predict, by place."""
    measured, refused = atlas.known_latencies, atlas.refused
    found: defaultdict[Place, list[str]] = defaultdict(list)
    for place in sorted({each.place for each in atlas.entries if each.quantity == LATENCY}):
        for signature, home in homes.items():
            if (replace(place, threads=0), signature) in refused:
                continue
            if home == place or (place, signature) not in measured:
                found[place].append(signature)
    return found


def _told(
    atlas: Atlas, place: Place, signatures: Sequence[str], known: Sequence[Contribution]
) -> Iterator[tuple[str, Told]]:
    """Predictions for models at a place."""
    setup = Setup(
        place.backend, place.version, place.options, place.threads, DEFAULT_PROTOCOL.identity, ""
    )
    call_ms = _call_ms(place, known)
    for batch in _batches(atlas, signatures):
        features = {signature: features_of(each) for signature, each in batch.items()}
        yield from told(features, setup, atlas.systems[place.system], known, call_ms).items()


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
    """The distinct layers of a network."""
    size = len(network.numbers) // max(len(network.kinds), 1)
    return {
        (kind, network.numbers[i * size : (i + 1) * size]) for i, kind in enumerate(network.kinds)
    }


def _call_ms(place: Place, known: Sequence[Contribution]) -> float:
    """Cost of a call of the timer in milliseconds: measured on the system, or else elsewhere."""
    here = [each.call_ms for each in known if each.system.fingerprint == place.system]
    costs = here or [each.call_ms for each in known]
    return float(np.median(np.concatenate(costs))) if costs else 0.0


def _entry(place: Place, signature: str, found: Told) -> Entry:
    figure = found.figure
    ends = interval(figure.plausible)
    return Entry(Subject(signature, "model"), LATENCY, place, figure.value, ends, "predicted")
