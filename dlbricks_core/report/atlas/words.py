"""Words of the site: names of networks, systems and places, and kinds of values."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable

from dlbricks_core.bricks.naming import fold, operator_name
from dlbricks_core.facts import Machine, Subject, System
from dlbricks_core.report.heading import count, quantity_name
from dlbricks_core.report.tables import ms
from dlbricks_core.workflows.atlas import BASES, Atlas, Entry, Known, Place
from dlbricks_core.workflows.systems import told_apart

_SHORT = 8
"""Number of displayed characters of a signature or fingerprint."""

_PLAIN = re.compile(r"[0-9A-Za-z_-]{1,80}")

NAMELESS = (
    "The store keeps no name of this model: names of files stay with their owners, and a model of "
    "a collection is known by its family. Its signature tells it from others."
)

_ENDS = {"enter:": "handing over an input to ", "leave:": "handing over an output of "}
"""Phrases for the ends of a network, by the prefix of their kinds."""

KINDS = {
    "brick": "brick",
    "model": "model",
    "native": "model in its framework's own form",
    "profiled": "brick inside of a running model",
}
"""Words for the kinds of networks."""


def page_name(identity: str) -> str:
    """Name of a page about a network or system, safe as a file name."""
    if _PLAIN.fullmatch(identity):
        return f"{identity}.html"
    return f"{hashlib.sha256(identity.encode('utf-8', 'replace')).hexdigest()[:16]}.html"


def short(identity: str) -> str:
    """The first letters of a signature or fingerprint."""
    return identity[:_SHORT]


def model_name(signature: str, known: Known) -> str:
    """Name of a model: its own name, or its family and short signature, or the signature alone."""
    if known.name:
        return known.name
    return " ".join((*known.families, short(signature)))


def network_name(subject: Subject, known: Known) -> str:
    """Name of a model, or the folded operators of a brick with its short signature."""
    signature = subject.signature
    if subject.is_whole:
        return model_name(signature, known)
    return f"{fold([operator_name(each) for each in known.layers], 48)} · {short(signature)}"


def page_of(machine: Machine) -> str:
    """Name of the page about a machine: of its system, unless it has equals."""
    equal = "" if machine.alone else f"-{told_apart(machine)}"
    return page_name(f"{machine.system}{equal}")


def system_name(system: System, machine: str = "") -> str:
    """Processor and name or short fingerprint: two systems may have one processor."""
    return f"{system.cpu or 'unknown processor'} · {machine or short(system.fingerprint)}"


def backend_name(place: Place, places: Iterable[Place]) -> str:
    """Backend and version, with options where only these distinguish it from another."""
    same = {p.options for p in places if (p.backend, p.version) == (place.backend, place.version)}
    name = f"{place.backend} {place.version}"
    return f"{name} ({options(place)})" if len(same) > 1 else name


def options(place: Place) -> str:
    """Options of a place's backend: ``compile=off, memory_format=contiguous``."""
    try:
        values = json.loads(place.options)
    except ValueError:
        return place.options
    if not isinstance(values, dict):
        return place.options
    return ", ".join(f"{name}={value}" for name, value in values.items()) or "none"


def version(place: Place) -> tuple[str, str, str]:
    """Backend, version and options of a place."""
    return place.backend, place.version, place.options


def hardware(system: System) -> str:
    """Whether a system is a virtual machine."""
    if not system.cpu:
        return "unknown"
    return "virtual" if system.hypervisor else "real"


def quantity(entry: Entry) -> str:
    """Quantity of an entry with its unit: ``latency in ms``."""
    return f"{quantity_name(entry.quantity)} in {entry.quantity.unit}"


def setup(entry: Entry) -> str:
    """Protocol and version of the plugin; a dash for a value that was not measured."""
    if entry.evidence is None:
        return "–"
    return f"{entry.evidence.protocol}, plugin {entry.evidence.plugin}"


def latencies(number: int) -> str:
    """A number of latencies: ``1 latency``, ``1,713 latencies``."""
    return f"{number:,} {'latency' if number == 1 else 'latencies'}"


def number(entry: Entry) -> str:
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
