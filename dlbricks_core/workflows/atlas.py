"""Everything that a store holds, in one record: for people who look around in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Self, get_args

from dlbricks_core.errors import DLBricksError
from dlbricks_core.facts import (
    LATENCY,
    Composition,
    Measurement,
    NetworkFeatures,
    Quantity,
    Question,
    Sampled,
    Subject,
    System,
)
from dlbricks_core.figures.figure import Measured, interval
from dlbricks_core.figures.protocols import PROTOCOLS, Protocol
from dlbricks_core.store import ResultStore
from dlbricks_core.wording import argument
from dlbricks_core.workflows.knowledge import FEATURES, quiet_values
from dlbricks_core.workflows.observer import Observer

Basis = Literal["measured", "composed", "predicted"]
"""What a value rests on."""

BASES: tuple[Basis, ...] = get_args(Basis)

DEFAULT_PROTOCOL = next(iter(PROTOCOLS.values()))


@dataclass(frozen=True, order=True)
class Place:
    """Where networks ran, and what ran them.

    Attributes:
        system: Fingerprint of the system.
        backend: Name of the backend.
        version: Version of its framework.
        options: The backend's options as canonical JSON.
        threads: Number of threads that compute one operator.
    """

    system: str
    backend: str
    version: str
    options: str
    threads: int

    @classmethod
    def of(cls, question: Question) -> Self:
        """The place of a question; protocol and version of the plugin make no difference."""
        setup = question.setup
        return cls(question.system, setup.backend, setup.version, setup.options, setup.threads)


@dataclass(frozen=True)
class Evidence:
    """What a measured value rests on.

    Attributes:
        protocol: How it was measured, as the store names it.
        plugin: Version of the backend's plugin.
        samples: Number of samples that count.
        begin: Time of the first observation, as ISO 8601.
        end: Time of the last observation.
    """

    protocol: str
    plugin: str
    samples: int
    begin: str
    end: str


@dataclass(frozen=True)
class Entry:
    """A value of a network at a place.

    Attributes:
        subject: The network.
        quantity: What the value is of.
        place: Where it holds.
        value: The value, in the quantity's unit.
        interval: Its 90% interval.
        origin: Where it comes from: samples of the network itself, those of its bricks, or a
            predictor.
        evidence: What a measured value rests on; ``None`` for others.
    """

    subject: Subject
    quantity: Quantity
    place: Place
    value: float
    interval: tuple[float, float]
    origin: Basis
    evidence: Evidence | None = None


@dataclass(frozen=True)
class Known:
    """What a store knows of a network beside its values.

    Attributes:
        name: Name that a calibration tells; empty where none does.
        families: Families of models that it is, or was cut from; names of files are not among
            them.
        layers: Operators of its layers.
        features: Features of its layers; ``None`` where this version has none.
    """

    name: str = ""
    families: tuple[str, ...] = ()
    layers: tuple[str, ...] = ()
    features: NetworkFeatures | None = None


@dataclass(frozen=True)
class Parts:
    """What a network is made of, as far as a predictor tells.

    Attributes:
        place: Where it would run.
        by_kind: Number of layers and milliseconds, by the kind of layer.
    """

    place: Place
    by_kind: Mapping[str, tuple[int, float]]


@dataclass(frozen=True)
class BrickShare:
    """A brick as a part of a model.

    Attributes:
        signature: Signature of the brick.
        operators: Operators of its layers.
        times: How often it occurs in the model.
        ms: Milliseconds of all occurrences together.
    """

    signature: str
    operators: tuple[str, ...]
    times: int
    ms: float


@dataclass(frozen=True)
class Bricks:
    """Bricks that a model consists of.

    Attributes:
        place: Where they were timed.
        shares: The bricks, the one that takes most first.
    """

    place: Place
    shares: Sequence[BrickShare]


@dataclass(frozen=True)
class Atlas:
    """Everything that a store holds.

    Attributes:
        source: Where the store is.
        systems: Systems by fingerprint; those without facts have none but it.
        networks: What is known of each network, by signature.
        entries: Values: the measured ones first, then the composed and the predicted ones.
        failed: Measurements that failed.
        parts: Kinds of layers that models are made of, by signature.
        bricks_of: Bricks that models consist of, by signature of the model.
    """

    source: str
    systems: Mapping[str, System]
    networks: Mapping[str, Known]
    entries: Sequence[Entry]
    failed: Sequence[Measurement] = ()
    parts: Mapping[str, Parts] = field(default_factory=dict)
    bricks_of: Mapping[str, Bricks] = field(default_factory=dict)

    @property
    def places(self) -> list[Place]:
        """Every place, in order."""
        found = {each.place for each in self.entries}
        return sorted(found | {Place.of(each.question) for each in self.failed})

    @property
    def models(self) -> list[str]:
        """Signatures of whole models, those with names first."""
        subjects = [each.subject for each in self.entries]
        subjects += [each.question.subject for each in self.failed]
        found = {each.signature for each in subjects if each.kind != "brick"}
        return sorted(found, key=self._order)

    @property
    def known_latencies(self) -> set[tuple[Place, str]]:
        """Places and models whose latency needs no further source: it is known, or it failed."""
        found = [(e.place, e.subject) for e in self.entries if e.quantity == LATENCY]
        found += [
            (Place.of(e.question), e.question.subject)
            for e in self.failed
            if e.question.quantity == LATENCY
        ]
        return {(place, subject.signature) for place, subject in found if subject.kind == "model"}

    @property
    def bricks(self) -> int:
        """Number of different bricks with a value."""
        subjects = {each.subject for each in self.entries}
        return sum(each.kind == "brick" for each in subjects)

    def origins(self, kinds: Iterable[str] = ("model", "native")) -> Counter[str]:
        """Number of latencies of some kinds of networks by where they come from."""
        wanted = frozenset(kinds)
        latencies = (each for each in self.entries if each.quantity == LATENCY)
        return Counter(each.origin for each in latencies if each.subject.kind in wanted)

    def _order(self, signature: str) -> tuple[bool, str, str]:
        known = self.networks[signature]
        name = known.name or " ".join(known.families)
        return not name, name, signature


def read_atlas(store: ResultStore, observer: Observer) -> Atlas:
    """What a store holds, nothing predicted.

    Args:
        store: The store.
        observer: Hears of progress.

    Raises:
        DLBricksError: If nothing was measured.
    """
    observer.stage(f"Reading {store.place.name}")
    outlines = store.outlines()
    if not outlines:
        raise DLBricksError(
            f"{store.place} holds no measurements", hint=f"Name another one as {argument('store')}."
        )
    sampled = [
        each
        for quantity in sorted({each.question.quantity for each in outlines})
        if quantity.composition is not Composition.LOAD
        for each in store.sampled(quantity)
    ]
    observer.stage("Finding intervals", len(sampled))
    entries = []
    for each in sampled:
        entries.append(_entry(each))
        observer.advance()
    return Atlas(
        source=store.place.name,
        systems=_systems(store, outlines),
        networks=_networks(store, outlines),
        entries=entries,
        failed=[each for each in outlines if each.failure],
    )


def _entry(sampled: Sampled) -> Entry:
    question = sampled.question
    values, _ = quiet_values(sampled)
    figure = Measured(tuple(values), _protocol(question.setup.protocol))
    return Entry(
        question.subject,
        question.quantity,
        Place.of(question),
        figure.value,
        interval(figure.replicates),
        "measured",
        Evidence(
            question.setup.protocol, question.setup.plugin, len(values), sampled.begin, sampled.end
        ),
    )


def _protocol(identity: str) -> Protocol:
    """The protocol of that name, whatever its version; probes have the statistic of the default."""
    return PROTOCOLS.get(identity.partition("/")[0], DEFAULT_PROTOCOL)


def _systems(store: ResultStore, outlines: Iterable[Measurement]) -> dict[str, System]:
    facts = store.systems()
    measured = {each.question.system for each in outlines}
    return {each: System.from_dict(each, facts.get(each, {})) for each in sorted(measured)}


def _networks(store: ResultStore, outlines: Iterable[Measurement]) -> dict[str, Known]:
    names, described = store.model_names(), store.networks(None)
    layers: dict[str, tuple[str, ...]] = {}
    for each in outlines:
        signature = each.question.subject.signature
        layers[signature] = layers.get(signature) or each.layers
    return {
        signature: _known(names.get(signature, ""), own, described.get(signature))
        for signature, own in layers.items()
    }


def _known(name: str, layers: tuple[str, ...], described: NetworkFeatures | None) -> Known:
    """What is known of a network; families outlast the features that they were kept with."""
    if described is None:
        return Known(name, (), layers)
    families = sorted(group for group in described.groups if _told(group))
    features = described if described.version == FEATURES else None
    return Known(name, tuple(families), layers, features)


def _told(group: str) -> bool:
    """Whether a group is a family of models that has a name; hashes stand for those of files."""
    return ":" not in group
