"""Latencies of whole models that follow from their bricks, where nobody timed the models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from dlbricks_core.bricks import BrickSet
from dlbricks_core.compose import Composer, Estimate
from dlbricks_core.errors import DLBricksError
from dlbricks_core.facts import LATENCY, CalibrationKey, Kind, Question, Setup, Subject
from dlbricks_core.figures.figure import Figure, Measured
from dlbricks_core.ir import CanonicalModel, unpacked
from dlbricks_core.store import ResultStore
from dlbricks_core.workflows.atlas import (
    DEFAULT_PROTOCOL,
    Atlas,
    Bricks,
    BrickShare,
    Entry,
    Known,
    Place,
)
from dlbricks_core.workflows.composing import DEFAULT_COMPOSER, find_composer
from dlbricks_core.workflows.observer import Observer


def with_composed(atlas: Atlas, store: ResultStore, observer: Observer) -> Atlas:
    """The atlas with latencies composed of bricks, and the bricks that models consist of.

    Graphs that backends made of models are cut as estimates cut them. A model counts where the
    store holds all of its bricks; where the model itself was timed, that latency stays alone.

    Args:
        atlas: What was measured.
        store: The store that it is from.
        observer: Hears of progress.
    """
    kept = store.rewritten()
    observer.stage("Composing models of their bricks", len(kept))
    composer = find_composer(DEFAULT_COMPOSER)
    measured = atlas.known_latencies
    entries, networks = list(atlas.entries), dict(atlas.networks)
    bricks = dict(atlas.bricks_of)
    for signature, setup, system in kept:
        observer.advance(signature)
        place = Place(system, setup.backend, setup.version, setup.options, setup.threads)
        data = store.rewrite(signature, setup, system)
        if system not in atlas.systems or data is None:
            continue
        setup = replace(setup, protocol=DEFAULT_PROTOCOL.identity)
        try:
            graph = unpacked(data, name=signature)
            found = _Composed.of(graph, composer, setup, atlas, place, store)
        except DLBricksError as error:
            observer.note(f"{signature} is not composed for {place.backend}: {error.message}")
            continue
        if found.estimate.value is None or found.estimate.interval is None:
            continue
        if found.estimate.partial:
            continue
        bricks.setdefault(signature, Bricks(place, found.shares))
        operators = tuple(layer.qualified_op for layer in graph.layers)
        networks.setdefault(signature, Known(layers=operators))
        if (place, signature) not in measured:
            subject, value = Subject(signature, "model"), found.estimate.value
            ends = found.estimate.interval
            entries.append(Entry(subject, LATENCY, place, value, ends, "composed"))
    return replace(atlas, entries=entries, networks=networks, bricks_of=bricks)


@dataclass(frozen=True)
class _Composed:
    """A model composed of its bricks.

    Attributes:
        estimate: Its latency.
        shares: Its bricks, the one that takes most first.
    """

    estimate: Estimate
    shares: tuple[BrickShare, ...]

    @classmethod
    def of(
        cls,
        graph: CanonicalModel,
        composer: Composer,
        setup: Setup,
        atlas: Atlas,
        place: Place,
        store: ResultStore,
    ) -> _Composed:
        """Cuts a graph, and composes it of what the store holds of its bricks."""
        brickset = BrickSet.of(
            [graph],
            composer.granularity,
            composer.strategy,
            {0: graph},
            rereading=composer.rereading,
        )
        (cut,) = brickset.models
        key = CalibrationKey(
            DEFAULT_COMPOSER, composer.strategy, composer.granularity, LATENCY, setup, place.system
        )
        calibration = store.calibration(key)
        fitted = composer.calibrated(calibration.values) if calibration else composer
        plan = fitted.plan(brickset.bricks, setup, atlas.systems[place.system])
        latencies = plan.figures(_figures([*plan.timed], setup, place, store))
        shares = [
            BrickShare(s, brickset.bricks[s].operators, times, times * latencies[s].own)
            for s, times in cut.counts.items()
            if s in latencies
        ]
        shares.sort(key=lambda each: -each.ms)
        return cls(fitted.compose(cut, latencies), tuple(shares))


def _figures(
    signatures: list[str], setup: Setup, place: Place, store: ResultStore
) -> Mapping[str, Figure]:
    """Figures of bricks that the store holds, by signature."""
    kind: Kind = "brick"
    keys = [Question(Subject(s, kind), LATENCY, setup, place.system) for s in signatures]
    return {
        key.subject.signature: Measured.of(found, DEFAULT_PROTOCOL)
        for key, found in store.get(keys).items()
        if found.values and not found.failure
    }
