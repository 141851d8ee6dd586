"""Atlas: the whole content of a store in one record, for browsing."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, Self, get_args

from dlbricks_prediction.training_data import is_usable, quiet_values

from dlbricks_core.errors import DLBricksError
from dlbricks_core.facts import (
    LATENCY,
    Composition,
    Machine,
    Measurement,
    NetworkFeatures,
    Quantity,
    Sampled,
    Setup,
    Subject,
    System,
)
from dlbricks_core.figures.figure import Measured
from dlbricks_core.figures.protocols import PROTOCOLS
from dlbricks_core.limits import FILES
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore
from dlbricks_core.wording import argument

Basis = Literal["measured", "composed", "predicted"]  #: Basis of a value.

BASES: tuple[Basis, ...] = get_args(Basis)

DEFAULT_PROTOCOL = next(iter(PROTOCOLS.values()))

#: A machine: the fingerprint of its system, and its name if equal machines are separated.
Home = tuple[str, str]


@dataclass(frozen=True, order=True)
class MachineSetup:
    """A machine and a setup under which networks ran."""

    system: str  #: Fingerprint of the machine's system.
    #: Name of the machine as :attr:`~dlbricks_core.facts.Machine.told_apart` gives it.
    machine: str
    backend: str  #: Name of the backend.
    version: str  #: Version of its framework.
    options: str  #: The backend's options as canonical JSON.
    threads: int  #: Number of threads that compute one operator.

    @classmethod
    def of(cls, setup: Setup, machine: Machine) -> Self:
        """The place of a setup, without its protocol and its version of the plugin."""
        how = (setup.backend, setup.version, setup.options, setup.threads)
        return cls(machine.system, machine.told_apart, *how)

    @property
    def home(self) -> Home:
        """The machine."""
        return self.system, self.machine


@dataclass(frozen=True)
class Evidence:
    """Evidence for a measured value."""

    protocol: str  #: Name of the protocol in the store.
    plugin: str  #: Version of the backend's plugin.
    samples: int  #: Number of valid samples.
    begin: str  #: Time of the first observation, as ISO 8601.
    end: str  #: Time of the last observation.


@dataclass(frozen=True)
class NetworkValue:
    """A value of a network at a place."""

    subject: Subject  #: The network.
    quantity: Quantity
    place: MachineSetup
    value: float  #: The value, in the quantity's unit.
    interval: tuple[float, float]  #: 90% interval of the value.
    #: Origin of the value: samples of the network itself, samples of its bricks, or a predictor.
    origin: Basis
    evidence: Evidence | None = None  #: Evidence for a measured value; ``None`` for others.
    #: Share of the CPUs that other programs used while the samples were taken, from 0 to 1.
    load: float = 0.0


@dataclass(frozen=True)
class Failed:
    """A failed measurement."""

    place: MachineSetup
    measurement: Measurement  #: The measurement, with the reason.

    @property
    def subject(self) -> Subject:
        """The network."""
        return self.measurement.question.subject


@dataclass(frozen=True)
class NetworkFacts:
    """Facts about a network in a store, besides its values."""

    name: str = ""  #: Name of the model, where this machine or a calibration has one.
    #: Families of the network, or of the models that it was cut from, without names of files.
    families: tuple[str, ...] = ()
    layers: tuple[str, ...] = ()  #: Operators of its layers.
    #: Features of its layers; ``None`` where the store holds none of this version.
    features: NetworkFeatures | None = None


@dataclass(frozen=True)
class Parts:
    """Predicted breakdown of a network by kind of layer."""

    place: MachineSetup  #: The place of the prediction.
    #: Number of layers and milliseconds, by the kind of layer.
    by_kind: Mapping[str, tuple[int, float]]


@dataclass(frozen=True)
class BrickShare:
    """A brick's share of a model."""

    signature: str  #: Signature of the brick.
    operators: tuple[str, ...]  #: Operators of its layers.
    times: int  #: Number of occurrences in the model.
    ms: float  #: Total milliseconds of all occurrences.


@dataclass(frozen=True)
class ModelBricks:
    """The bricks of a model."""

    place: MachineSetup  #: Place of the timings.
    shares: Sequence[BrickShare]  #: The bricks in descending order of time.


@dataclass(frozen=True)
class Atlas:
    """The content of a store."""

    source: str  #: Location of the store.
    #: Systems by fingerprint. A system without recorded facts has only its fingerprint.
    systems: Mapping[str, System]
    #: Machines of these systems. Equal machines are separated if they have names.
    machines: Mapping[Home, Machine]
    networks: Mapping[str, NetworkFacts]  #: Facts about each network, by signature.
    entries: Sequence[NetworkValue]  #: Values: measured, then composed, then predicted ones.
    failed: Sequence[Failed] = ()  #: Failed measurements.
    #: Predicted breakdown of models by kind of layer, by signature.
    parts: Mapping[str, Parts] = field(default_factory=dict)
    #: Bricks of models, by signature of the model.
    bricks_of: Mapping[str, ModelBricks] = field(default_factory=dict)

    @cached_property
    def places(self) -> list[MachineSetup]:
        """All places in order."""
        found = {each.place for each in self.entries}
        return sorted(found | {each.place for each in self.failed})

    @cached_property
    def models(self) -> list[str]:
        """Signatures of whole models; models with names come first."""
        subjects = [each.subject for each in self.entries]
        subjects += [each.subject for each in self.failed]
        found = {each.signature for each in subjects if each.is_whole}
        return sorted(found, key=self._order)

    @cached_property
    def known_latencies(self) -> set[tuple[MachineSetup, str]]:
        """Places and models whose latency is known or whose measurement failed."""
        found = [(e.place, e.subject) for e in self.entries if e.quantity == LATENCY]
        found += [
            (e.place, e.subject) for e in self.failed if e.measurement.question.quantity == LATENCY
        ]
        return {(place, subject.signature) for place, subject in found if subject.kind == "model"}

    @cached_property
    def refused(self) -> set[tuple[MachineSetup, str]]:
        """Places and networks that the backend does not support, with 0 for any threads."""
        return {
            (replace(e.place, threads=0), e.subject.signature)
            for e in self.failed
            if e.measurement.unsupported
        }

    @cached_property
    def bricks(self) -> int:
        """Number of distinct bricks with a value."""
        subjects = {each.subject for each in self.entries}
        return sum(not each.is_whole for each in subjects)

    def origins(self, kinds: Iterable[str] = ("model", "native")) -> Counter[str]:
        """Number of latencies of given kinds of networks, by origin."""
        wanted = frozenset(kinds)
        latencies = (each for each in self.entries if each.quantity == LATENCY)
        return Counter(each.origin for each in latencies if each.subject.kind in wanted)

    def named(self, names: Mapping[str, str] | None) -> Self:
        """The atlas with further names of models.

        Args:
            names: Names by signature; ``None`` to leave out all names, including names in the
                store.
        """
        found = {
            signature: replace(each, name="" if names is None else names.get(signature, each.name))
            for signature, each in self.networks.items()
        }
        return replace(self, networks=found)

    def _order(self, signature: str) -> tuple[bool, str, str]:
        known = self.networks[signature]
        name = known.name or " ".join(known.families)
        return not name, name, signature


def check_number(pages: int) -> None:
    """Refuses a site of too many pages."""
    if pages > FILES.most:
        raise DLBricksError(f"the site would have {pages:,} pages, {FILES.words}", FILES.hint)


def _check_outlines(outlines: Iterable[Measurement]) -> None:
    """Refuses a store of too many models and systems before all of it is read."""
    pages: set[Subject | str] = set()
    for each in (outline.question for outline in outlines):
        if each.quantity.composition is not Composition.LOAD:
            pages.add(each.system)
            if each.subject.is_whole:
                pages.add(each.subject)
    check_number(len(pages))


def read_atlas(store: ResultStore, observer: Observer) -> Atlas:
    """The content of a store, without predictions."""
    observer.stage(f"Reading {store.place.name}")
    outlines = store.outlines()
    if not outlines:
        raise DLBricksError(
            f"{store.place} holds no measurements", hint=f"Name another one as {argument('store')}."
        )
    _check_outlines(outlines)
    quantities = sorted({each.question.quantity for each in outlines})
    # A measurement whose row is damaged has no facts, though its samples may be readable.
    intact = {each.question for each in outlines}
    sampled = [each for each in _sampled(store, quantities) if each[0].question in intact]
    observer.stage("Finding intervals", len(sampled))
    entries = []
    for each, machine, disturbed in sampled:
        entries.append(_entry(each, machine, disturbed))
        observer.advance()
    failed = _failed(store, outlines, {each.place for each in entries})
    facts, measured = store.systems(), sorted({each.question.system for each in outlines})
    systems = {each: System.from_dict(each, facts.get(each, {})) for each in measured}
    inhabited = {each.place.home for each in entries} | {each.place.home for each in failed}
    machines = {(each.system, each.told_apart): each for each in store.machines()}
    return Atlas(
        source=store.place.name,
        systems=systems,
        machines={
            home: each
            for home, each in machines.items()
            if each.system in systems and (each.alone or home in inhabited)
        },
        networks=_networks(store, outlines),
        entries=entries,
        failed=failed,
    )


def _sampled(
    store: ResultStore, quantities: Iterable[Quantity]
) -> Iterator[tuple[Sampled, Machine, Measurement | None]]:
    """Values of quantities, with the machine that took them; without those of queries.

    Samples that other programs disturbed come with their measurement, which has the load.
    """
    machines = store.machines()
    alone = {each.system: each for each in machines if each.alone}
    recorded = {"", *(each.host for each in store.sessions())}
    equal = [each for each in machines if not each.alone and each.hosts & recorded]
    for quantity in quantities:
        if quantity.composition is not Composition.LOAD:
            every = store.sampled(quantity) if alone else []
            there = [each for each in every if each.question.system in alone]
            for each, disturbed in _with_load(store, there):
                yield each, alone[each.question.system], disturbed
            for machine in equal:
                own = store.within(machine)
                there = own.sampled(quantity, system=machine.system)
                yield from ((each, machine, busy) for each, busy in _with_load(own, there))


def _with_load(
    store: ResultStore, sampled: Sequence[Sampled]
) -> Iterator[tuple[Sampled, Measurement | None]]:
    """Values of questions, those of disturbed samples with their measurement."""
    found = store.get([each.question for each in sampled if any(each.disturbed)])
    return ((each, found.get(each.question)) for each in sampled)


def _failed(
    store: ResultStore, outlines: Iterable[Measurement], measured: Collection[MachineSetup]
) -> list[Failed]:
    """Failed measurements.

    The store does not record which of several equal machines a query is of, so it counts for all
    that measured something in its setup.
    """
    machines: defaultdict[str, list[Machine]] = defaultdict(list)
    for machine in store.machines():
        machines[machine.system].append(machine)
    found = []
    for each in outlines:
        if each.failure:
            setup = each.question.setup
            places = [MachineSetup.of(setup, machine) for machine in machines[each.question.system]]
            likely = [place for place in places if place in measured]
            found += [Failed(place, each) for place in likely or places]
    return found


def _entry(sampled: Sampled, machine: Machine, disturbed: Measurement | None) -> NetworkValue:
    question = sampled.question
    # Whatever its version. Metrics use the default statistic.
    protocol = PROTOCOLS.get(question.setup.protocol.partition("/")[0], DEFAULT_PROTOCOL)
    if disturbed is None:
        figure = Measured(tuple(quiet_values(sampled)[0]), protocol)
    else:
        figure = Measured.of(disturbed, protocol)
    return NetworkValue(
        question.subject,
        question.quantity,
        MachineSetup.of(question.setup, machine),
        figure.value,
        figure.interval,
        "measured",
        Evidence(
            question.setup.protocol,
            question.setup.plugin,
            len(figure.samples),
            sampled.begin,
            sampled.end,
        ),
        figure.disturbance.load,
    )


def _networks(store: ResultStore, outlines: Iterable[Measurement]) -> dict[str, NetworkFacts]:
    names, described = store.model_names(), store.networks(None)
    layers: dict[str, tuple[str, ...]] = {}
    for each in outlines:
        signature = each.question.subject.signature
        layers[signature] = layers.get(signature) or each.layers
    return {
        signature: _facts(names.get(signature, ""), own, described.get(signature))
        for signature, own in layers.items()
    }


def _facts(name: str, layers: tuple[str, ...], described: NetworkFeatures | None) -> NetworkFacts:
    """Facts about a network. Its families stay valid when the features stored with them do not."""
    if described is None:
        return NetworkFacts(name, (), layers)
    # Models from files have hashes instead of families with a name.
    families = sorted(group for group in described.groups if ":" not in group)
    features = described if is_usable(described) else None
    return NetworkFacts(name, tuple(families), layers, features)
