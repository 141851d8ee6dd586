"""Latencies of whole models that follow from their bricks, where nobody timed the models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from dlbricks_core.bricks import BrickSet
from dlbricks_core.compose import Composer
from dlbricks_core.errors import ModelError
from dlbricks_core.facts import LATENCY, Calibration, CalibrationKey, Question, Setup, Subject
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
    found = _composed(atlas, store, observer)
    bricks: dict[str, Bricks] = {}
    networks = dict(atlas.networks)
    for each in found:
        signature = each.entry.subject.signature
        bricks.setdefault(signature, Bricks(each.entry.place, each.shares))
        networks.setdefault(signature, Known(layers=each.operators))
    known = atlas.known_latencies
    new = [
        each.entry
        for each in found
        if (each.entry.place, each.entry.subject.signature) not in known
    ]
    return replace(atlas, entries=[*atlas.entries, *new], networks=networks, bricks_of=bricks)


@dataclass(frozen=True)
class _Composed:
    """A model composed of its bricks.

    Attributes:
        entry: Its latency.
        shares: Its bricks, the one that takes most first.
        operators: Operators of the graph that was cut.
    """

    entry: Entry
    shares: tuple[BrickShare, ...]
    operators: tuple[str, ...]


def _composed(atlas: Atlas, store: ResultStore, observer: Observer) -> list[_Composed]:
    """Models of which the store holds all bricks, at each place where it keeps their graphs."""
    kept = [each for each in store.rewritten() if each[2] in atlas.systems]
    observer.stage("Composing models of their bricks", len(kept))
    composing = _Composing(atlas, store, find_composer(DEFAULT_COMPOSER))
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
            found.append(composing.composed(signature, graph, timed, system))
        observer.advance(signature)
    return [each for each in found if each is not None]


@dataclass(frozen=True)
class _Composing:
    """What composes models.

    Attributes:
        atlas: What is known of systems.
        store: Holds the figures of bricks.
        composer: Cuts and composes.
    """

    atlas: Atlas
    store: ResultStore
    composer: Composer

    def composed(
        self, signature: str, graph: CanonicalModel, setup: Setup, system: str
    ) -> _Composed | None:
        """The model of which a backend made a graph; ``None`` where bricks are missing."""
        composer, calibration = self.composer, self._calibration(setup, system)
        fitted = composer.calibrated(calibration.values) if calibration else composer
        # What was measured of a model must not come back to it by way of a calibration.
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
        latencies = plan.figures(self._figures(plan.timed, setup, system))
        estimate = (composer if own else fitted).compose(cut, latencies)
        if estimate.partial or estimate.value is None or estimate.interval is None:
            return None
        shares = [
            BrickShare(s, brickset.bricks[s].operators, times, times * latencies[s].own)
            for s, times in cut.counts.items()
        ]
        place = Place(system, setup.backend, setup.version, setup.options, setup.threads)
        subject = Subject(signature, "model")
        return _Composed(
            Entry(subject, LATENCY, place, estimate.value, estimate.interval, "composed"),
            tuple(sorted(shares, key=lambda each: -each.ms)),
            tuple(layer.qualified_op for layer in graph.layers),
        )

    def _calibration(self, setup: Setup, system: str) -> Calibration | None:
        """Numbers of the composer that were fitted to a system, if there are some."""
        own = self.composer
        return self.store.calibration(
            CalibrationKey(own.name, own.strategy, own.granularity, LATENCY, setup, system)
        )

    def _figures(
        self, signatures: Iterable[str], setup: Setup, system: str
    ) -> Mapping[str, Figure]:
        """Figures of bricks that the store holds, by signature."""
        keys = [Question(Subject(s, "brick"), LATENCY, setup, system) for s in signatures]
        return {
            key.subject.signature: Measured.of(found, DEFAULT_PROTOCOL)
            for key, found in self.store.get(keys).items()
            if found.values and not found.failure
        }
