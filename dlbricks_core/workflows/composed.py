"""Composes latencies of whole models that were not timed from their stored bricks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from dlbricks_core.bricks import BrickSet
from dlbricks_core.compose import Composer
from dlbricks_core.errors import ModelError
from dlbricks_core.facts import (
    LATENCY,
    Calibration,
    CalibrationKey,
    Machine,
    Question,
    Setup,
    Subject,
)
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
    """The atlas with composed latencies, and with the bricks of models.

    Graphs that backends rewrote models into are cut as for estimates. A model gets a latency if the
    store holds all of its bricks and no timing of the model itself.

    Args:
        atlas: Measured values.
        store: The store behind the atlas.
        observer: Receives the progress.
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
        entry: Latency of the model.
        shares: Bricks in descending order of time.
        operators: Operators of the graph that was cut.
    """

    entry: Entry
    shares: tuple[BrickShare, ...]
    operators: tuple[str, ...]


def _composed(atlas: Atlas, store: ResultStore, observer: Observer) -> list[_Composed]:
    """Models whose bricks are all in the store, at each place with a stored graph."""
    kept = [each for each in store.rewritten() if each[2] in atlas.systems]
    observer.stage("Composing models from their bricks", len(kept))
    composing = _Composing(atlas, store, find_composer(DEFAULT_COMPOSER))
    machines = [*atlas.machines.values()]
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
                composing.composed(signature, graph, timed, machine)
                for machine in machines
                if machine.system == system
            ]
        observer.advance(signature)
    return [each for each in found if each is not None]


@dataclass(frozen=True)
class _Composing:
    """Composes models from stored bricks.

    Attributes:
        atlas: Source of the systems.
        store: Store with the figures of bricks.
        composer: The composer.
    """

    atlas: Atlas
    store: ResultStore
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
        latencies = plan.figures(self._figures(plan.timed, setup, machine))
        estimate = (composer if own else fitted).compose(cut, latencies)
        if estimate.partial or estimate.value is None or estimate.interval is None:
            return None
        shares = [
            BrickShare(s, brickset.bricks[s].operators, times, times * latencies[s].own)
            for s, times in cut.counts.items()
        ]
        place = Place.of(setup, machine)
        subject = Subject(signature, "model")
        return _Composed(
            Entry(subject, LATENCY, place, estimate.value, estimate.interval, "composed"),
            tuple(sorted(shares, key=lambda each: -each.ms)),
            tuple(layer.qualified_op for layer in graph.layers),
        )

    def _calibration(self, setup: Setup, system: str) -> Calibration | None:
        """Calibration of the composer for a system, if there is one."""
        own = self.composer
        return self.store.calibration(
            CalibrationKey(own.name, own.strategy, own.granularity, LATENCY, setup, system)
        )

    def _figures(
        self, signatures: Iterable[str], setup: Setup, machine: Machine
    ) -> Mapping[str, Figure]:
        """Figures of bricks that a machine measured, by signature."""
        keys = [Question(Subject(s, "brick"), LATENCY, setup, machine.system) for s in signatures]
        return {
            key.subject.signature: Measured.of(found, DEFAULT_PROTOCOL)
            for key, found in self.store.within(machine).get(keys).items()
            if found.values and not found.failure
        }
