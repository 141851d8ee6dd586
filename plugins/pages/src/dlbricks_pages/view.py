"""Content of a store as pages show it: names, links, sentences, axes."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self, TypeVar

from dlbricks_core.bricks.naming import fold, operator_name
from dlbricks_core.facts import LATENCY, Machine, Subject, System
from dlbricks_core.report.heading import quantity_name
from dlbricks_core.report.tables import ms
from dlbricks_core.wording import count
from dlbricks_pages.contents import (
    BASES,
    Atlas,
    Failed,
    Home,
    MachineSetup,
    NetworkValue,
)
from dlbricks_pages.html.templating import Cell

ItemT = TypeVar("ItemT")
KeyT = TypeVar("KeyT", bound=Hashable)

_STEPS = ((1,), (1, 2, 5))  #: Ticks within a decade; axes of many decades have few.

#: Candidate ticks where all values are close together; only every n-th is shown.
_FINE = [step / 10 for step in range(10, 100)]

_MOST_TICKS = 6  #: Maximum ticks of an axis.


@dataclass(frozen=True)
class Mark:
    """A dot with its interval, in a row of its own."""

    label: str  #: Name of the row.
    value: float  #: The value; larger than 0.
    interval: tuple[float, float]  #: The 90% interval.
    text: str  #: The value in words.
    origin: str  #: Origin of the value; each origin has its own shape.


@dataclass(frozen=True)
class Axis:
    """Logarithmic axis over values that are larger than 0."""

    low: float  #: Value at the left end.
    high: float  #: Value at the right end.
    ticks: Sequence[float]  #: Values with a label.

    @classmethod
    def over(cls, marks: Sequence[Mark]) -> Self:
        """The axis that holds all values and intervals of at least one mark."""
        ends = [end for m in marks for end in (m.value, *m.interval) if end > 0]
        low, high = min(ends) * 0.92, max(ends) * 1.08
        return cls(low, high, _ticks(low, high))

    def at(self, value: float) -> float:
        """Place of a value, in percent of the width from the left."""
        share = math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)
        return round(100 * min(share, 1.0), 2)


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers within the limits."""
    for steps in (*_STEPS, _FINE):
        within = _within(low, high, steps)
        if 2 <= len(within) <= _MOST_TICKS:
            return within
    return within[:: math.ceil(len(within) / _MOST_TICKS)] or [low, high]


def _within(low: float, high: float, steps: Sequence[float]) -> list[float]:
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    found = (float(f"{step * 10.0**decade:.3g}") for decade in decades for step in steps)
    return [tick for tick in found if low <= tick <= high]


_SHORT = 8  #: Number of displayed characters of a signature or fingerprint.

#: Names of pages. Some disks take large letters for small ones.
_PLAIN = re.compile(r"[0-9a-z_-]{1,80}")

NAMELESS = (
    "No name of this model is shown: names stay on the machine that measured it. A model of a "
    "collection is known by its family. Its signature distinguishes it from others."
)

#: Phrases for the ends of a network, by the prefix of their kinds.
_ENDS = {"enter:": "handing over an input to ", "leave:": "handing over an output of "}

#: Words for the kinds of networks.
KINDS = {
    "brick": "brick",
    "model": "model",
    "native": "model in its framework's own form",
    "profiled": "brick inside of a running model",
}


def page_name(identity: str) -> str:
    """Name of a page about a network or system, safe as a file name."""
    if _PLAIN.fullmatch(identity):
        return f"{identity}.html"
    digest = hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()
    # The ending distinguishes it from the page of a network whose identity is that hash.
    return f"{digest[:24]}.hash.html"


def short(identity: str) -> str:
    """The first letters of a signature or fingerprint."""
    return identity[:_SHORT]


def page_of(machine: Machine) -> str:
    """Name of the page about a machine: of its system, unless it has equals."""
    equal = "" if machine.alone else f"-{machine.told_apart}"
    return page_name(f"{machine.system}{equal}")


def system_name(system: System, machine: str = "") -> str:
    """Processor and name or short fingerprint: two systems may have one processor."""
    return f"{system.cpu or 'unknown processor'} · {machine or short(system.fingerprint)}"


def options(place: MachineSetup) -> str:
    """Options of a place's backend: ``compile=off, memory_format=contiguous``."""
    try:
        values = json.loads(place.options)
    except ValueError:
        return place.options
    if not isinstance(values, dict):
        return place.options
    return ", ".join(f"{name}={value}" for name, value in values.items()) or "none"


def version(place: MachineSetup) -> tuple[str, str, str]:
    """Backend, version and options of a place."""
    return place.backend, place.version, place.options


def hardware(system: System) -> str:
    """Whether a system is a virtual machine."""
    if not system.cpu:
        return "unknown"
    return "virtual" if system.hypervisor else "real"


def quantity(entry: NetworkValue) -> str:
    """Quantity of an entry with its unit: ``latency in ms``."""
    return f"{quantity_name(entry.quantity)} in {entry.quantity.unit}"


def setup(entry: NetworkValue) -> str:
    """Protocol and version of the plugin; a dash for a value that was not measured."""
    if entry.evidence is None:
        return "–"
    return f"{entry.evidence.protocol}, plugin {entry.evidence.plugin}"


def beside(entry: NetworkValue) -> str:
    """Load by other programs in words, behind a comma; empty for none."""
    return f", while others used {entry.load:.0%} of the CPUs" if entry.load else ""


def latencies(number: int) -> str:
    """A number of latencies: ``1 latency``, ``1,713 latencies``."""
    return f"{number:,} {'latency' if number == 1 else 'latencies'}"


def number(entry: NetworkValue) -> str:
    """The value of an entry, with a mark if it was not measured."""
    return ms(entry.value) if entry.origin == "measured" else f"≈ {ms(entry.value)}"


def origin(atlas: Atlas) -> str:
    """Shares of the models' latencies by origin."""
    found = atlas.origins()
    every = found.total()
    if not every:
        return "No latency of a whole model is known: only bricks were timed."
    shares = [
        f"{found[each]:,} {each} ({100 * found[each] / every:.0f}%)"
        for each in BASES
        if found[each]
    ]
    return f"Origin of the {latencies(every)} of whole models: {', '.join(shares)}."


def holdings(atlas: Atlas) -> str:
    """A sentence on the content of the store."""
    backends = {each.backend for each in atlas.places}
    held = f"{count(len(atlas.models), 'model')} and {count(atlas.bricks, 'brick')}"
    where = f"{count(len(atlas.machines), 'system')} and {count(len(backends), 'backend')}"
    return f"{held} on {where}."


def plain(kind: str) -> str:
    """Kind of layer in plain words: ``convolution, dense``."""
    for begin, meaning in _ENDS.items():
        kind = kind.replace(begin, meaning, 1) if kind.startswith(begin) else kind
    return kind.replace("@", " after ").replace(":", ", ")


def grouped(items: Iterable[ItemT], key: Callable[[ItemT], KeyT]) -> dict[KeyT, list[ItemT]]:
    """Items by a key, in their order. A key without items has an empty list."""
    found: defaultdict[KeyT, list[ItemT]] = defaultdict(list)
    for each in items:
        found[key(each)].append(each)
    return found


@dataclass(frozen=True)
class View:
    """An atlas with the names that its pages show."""

    atlas: Atlas

    @cached_property
    def backends(self) -> dict[MachineSetup, str]:
        """Backend and version of each place, with options where only these distinguish it."""
        versions = Counter((each[0], each[1]) for each in self.places_by_version)
        return {
            place: f"{place.backend} {place.version}"
            + (f" ({options(place)})" if versions[place.backend, place.version] > 1 else "")
            for place in self.atlas.places
        }

    @cached_property
    def places_of(self) -> dict[Home, list[MachineSetup]]:
        """Places of each machine, in order."""
        return grouped(self.atlas.places, lambda place: place.home)

    @cached_property
    def places_by_version(self) -> dict[tuple[str, str, str], list[MachineSetup]]:
        """Places by :func:`version`, in order."""
        return dict(sorted(grouped(self.atlas.places, version).items()))

    @cached_property
    def systems(self) -> dict[Home, str]:
        """Name of each machine's system."""
        systems = self.atlas.systems
        return {home: system_name(systems[home[0]], home[1]) for home in self.atlas.machines}

    @cached_property
    def models(self) -> dict[str, str]:
        """Distinguishing name of each model, by signature: of a nameless one, its families."""
        networks = self.atlas.networks
        named = {
            each: networks[each].name or " ".join((*networks[each].families, short(each)))
            for each in self.atlas.models
        }
        shared = Counter(named.values())
        return {
            each: name if shared[name] == 1 else f"{name} {short(each)}"
            for each, name in named.items()
        }

    @cached_property
    def by_model(self) -> dict[str, list[NetworkValue]]:
        """Values of each whole model, by signature; latencies and measured values first."""
        whole = (each for each in self.atlas.entries if each.subject.is_whole)
        return grouped(sorted(whole, key=_order), lambda each: each.subject.signature)

    @cached_property
    def by_place(self) -> dict[MachineSetup, list[NetworkValue]]:
        """Values at each place."""
        return grouped(self.atlas.entries, lambda each: each.place)

    @cached_property
    def failures(self) -> dict[MachineSetup, list[Failed]]:
        """Measurements that failed, by place."""
        return grouped(self.atlas.failed, lambda each: each.place)

    @cached_property
    def failures_of_model(self) -> dict[str, list[Failed]]:
        """Measurements of whole models that failed, by signature."""
        whole = (each for each in self.atlas.failed if each.subject.is_whole)
        return grouped(whole, lambda each: each.subject.signature)

    def fastest(self, entries: Iterable[NetworkValue]) -> NetworkValue | None:
        """The lowest latency of a whole model; ``None`` where there is none.

        A measured one comes before all composed ones, and these before predicted ones: the least of
        many inexact values is mostly one that is too low.
        """
        latencies = [e for e in entries if e.quantity == LATENCY and e.subject.is_whole]
        return min(latencies, key=surest_first, default=None)

    def where(self, place: MachineSetup) -> str:
        """A place in words: system, backend and threads."""
        return f"{self.systems[place.home]} · {self.how(place)}"

    def how(self, place: MachineSetup) -> str:
        """Backend and threads of a place in words."""
        threads = count(place.threads, "thread").replace(" ", "\u00a0")
        return f"{self.backends[place]} · {threads}"

    def mark(self, label: str, entry: NetworkValue) -> Mark:
        """An entry as a dot of a plot."""
        return Mark(
            f"{label}{beside(entry)}", entry.value, entry.interval, number(entry), entry.origin
        )

    def name(self, subject: Subject) -> str:
        """Name of a model, or the folded operators of a brick with its short signature."""
        signature = subject.signature
        if subject.is_whole:
            return self.models[signature]
        layers = map(operator_name, self.atlas.networks[signature].layers)
        return f"{fold(list(layers), 48)} · {short(signature)}"

    def network(self, entry: NetworkValue, root: str) -> Cell:
        """The network of an entry; a model leads to its page."""
        if entry.subject.is_whole:
            return self.model(entry.subject.signature, root)
        return Cell(self.name(entry.subject))

    def model(self, signature: str, root: str) -> Cell:
        """A model with a link to its page."""
        return Cell(self.models[signature], link=f"{root}models/{page_name(signature)}")

    def system(self, home: Home, root: str) -> Cell:
        """A machine's system with a link to its page."""
        link = f"{root}systems/{page_of(self.atlas.machines[home])}"
        return Cell(self.systems[home], "whole", link=link)


def value(entry: NetworkValue) -> Cell:
    """The value of an entry."""
    return Cell(number(entry), "" if entry.evidence else "guess", key=entry.value)


def load(entry: NetworkValue) -> Cell:
    """Load by other programs during the measurement of an entry; a dash for none."""
    if not entry.load:
        return Cell("–", key=0.0)
    return Cell(f"{entry.load:.0%}", "busy", key=entry.load)


def ends(entry: NetworkValue) -> Cell:
    """The interval of an entry, sorted by its width relative to the value."""
    low, high = entry.interval
    return Cell(f"{ms(low)}–{ms(high)}", key=(high - low) / entry.value if entry.value else 0.0)


def day(moment: str) -> Cell:
    """Day of a time in ISO 8601; a dash where there is none."""
    return Cell(moment[:10] or "–", "whole", key=moment)


def span(entries: Sequence[NetworkValue]) -> tuple[Cell, Cell]:
    """Days of the first and the last observation of some entries."""
    taken = [each.evidence for each in entries if each.evidence]
    first, last = min((e.begin for e in taken), default=""), max((e.end for e in taken), default="")
    return day(first), day(last)


def surest_first(entry: NetworkValue) -> tuple[int, float]:
    """Key that sorts measured values before composed and predicted ones, the lowest first."""
    return BASES.index(entry.origin), entry.value


def _order(entry: NetworkValue) -> tuple[bool, str, int, float]:
    return entry.quantity != LATENCY, entry.quantity.name, *surest_first(entry)
