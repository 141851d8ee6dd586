"""Systems: facts about the machine that measurements are made on, and their fingerprint."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Self

from dlbricks_core.facts.checks import (
    TINIEST,
    canonical_json,
    checked,
    flat,
    moment,
    number,
    number_if_known,
    text,
)

_NOT_IDENTITY = frozenset(
    {"os", "kernel", "python", "memory", "memory_limit", "microarchitecture", "hypervisor"}
)
"""Facts that are not part of the fingerprint.

Updates of the kernel, and of Python's patch level, hardly change latency, but would separate
measurements. The amount of memory differs a little from boot to boot, and matters only to models
that hardly fit. The name of the microarchitecture follows from other facts.
"""


@dataclass(frozen=True)
class Cache:
    """One cache of a processor.

    Attributes:
        level: Level of the cache; 1 is the fastest.
        kind: ``data``, ``instruction`` or ``unified``.
        size: Size in bytes.
        shared_by: Number of logical CPUs that share the cache.
    """

    level: int
    kind: str
    size: int
    shared_by: int


@dataclass(frozen=True)
class System:
    """Facts about hardware and its settings; ``None``, 0 or empty where they are not known.

    No name or address of the machine is among them.

    Attributes:
        cpu: Brand name of the processor.
        vendor: Maker of the processor.
        family: Family of the processor, as its maker numbers it.
        model: Model within the family.
        stepping: Revision of the model.
        microarchitecture: Name as archspec spells it, or the generic level (``x86_64_v4``).
        architecture: Instruction set, such as ``x86_64``.
        isa: Instruction-set extensions that matter for deep learning.
        physical_cores: Number of the machine's cores that are online.
        logical_cpus: Number of the machine's logical CPUs that are online.
        available_cpus: Number of logical CPUs that this process may run on.
        available_cores: Number of physical cores under those CPUs, at most the quota.
        cpu_quota: Number of CPUs whose time the container may use.
        caches: Caches of the first CPU that this process may run on.
        numa_nodes: Number of NUMA nodes.
        memory: Memory of the machine in bytes; 0 if the system does not report it.
        memory_limit: Memory that the container may use, in bytes.
        governors: Frequency governors in use.
        boost: Whether cores may run above their nominal frequency.
        max_mhz: Highest frequencies that the governor may choose, in MHz.
        huge_pages: Mode of transparent huge pages.
        hypervisor: Name of the hypervisor, or ``unknown``; ``None`` on real hardware.
        os: Name and version of the operating system.
        kernel: Version of the kernel.
        python: Version of Python.
    """

    cpu: str = ""
    vendor: str = ""
    family: str = ""
    model: str = ""
    stepping: str = ""
    microarchitecture: str = ""
    architecture: str = ""
    isa: tuple[str, ...] = ()
    physical_cores: int = 0
    logical_cpus: int = 0
    available_cpus: int = 0
    available_cores: int = 0
    cpu_quota: float | None = None
    caches: tuple[Cache, ...] = ()
    numa_nodes: int = 0
    memory: int = 0
    memory_limit: int | None = None
    governors: tuple[str, ...] = ()
    boost: bool | None = None
    max_mhz: tuple[int, ...] = ()
    huge_pages: str | None = None
    hypervisor: str | None = None
    os: str = ""
    kernel: str = ""
    python: str = ""

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the facts that change latency; machines that are built and set alike share it.

        It covers the processor with its caches and instruction sets, the share of it that this
        process may use, and how its frequency is governed. A machine with turbo off is another
        system than the same machine with turbo on.
        """
        facts = {name: value for name, value in asdict(self).items() if name not in _NOT_IDENTITY}
        facts["virtual"] = self.hypervisor is not None
        facts["python"] = self.python.split(".")[:2]
        return hashlib.sha256(canonical_json(facts).encode()).hexdigest()[:16]

    def describe(self) -> str:
        """Summary in one line, for people."""
        cores = f"{self.physical_cores} cores"
        if self.logical_cpus != self.physical_cores:
            cores += f" ({self.logical_cpus} threads)"
        if self.available_cores != self.physical_cores:
            cores += f", {self.available_cores} usable"
        parts = [
            f"{self.cpu} ({self.microarchitecture})",
            cores,
            *([f"{self.memory / 2**30:.1f} GiB"] if self.memory else []),
            *(["virtual machine"] if self.hypervisor else []),
            f"{self.os}, Linux {self.kernel}",
        ]
        return ", ".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """All facts and the fingerprint, for JSON."""
        return {"fingerprint": self.fingerprint, **asdict(self)}

    @classmethod
    def from_dict(cls, fingerprint: str, data: Mapping[str, Any]) -> Self:
        """System that stored facts describe; facts that this version does not know are left out.

        Args:
            fingerprint: Fingerprint under which the facts are stored. The system keeps it, even
                if another version of DLBricks computed it from other facts.
            data: Facts as :meth:`to_dict` gives them.

        Raises:
            TypeError: If the facts have another structure.
        """
        caches = checked(checked(data, Mapping, "facts").get("caches", []), (list, tuple), "caches")
        found = cls(
            **{
                **_field_values(cls, data),
                "caches": tuple(Cache(**_field_values(Cache, each)) for each in caches),
            }
        )
        vars(found)["fingerprint"] = fingerprint
        return found


_KINDS: Mapping[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "None": (type(None),),
}
"""Types that a field's value may have, by the words of its annotation."""

_MOST = 2.0**63
_NUMBERS = frozenset((int, float))


def _field_values(record: type[System] | type[Cache], data: Mapping[str, Any]) -> dict[str, Any]:
    """Checked values of the record's fields, lists as tuples; ``caches`` are left to the caller."""
    allowed = _ALLOWED[record]
    return {
        name: value if name == "caches" else _fact(value, *allowed[name], name)
        for name, value in checked(data, Mapping, "facts").items()
        if name in allowed
    }


def _allowed(annotation: str) -> tuple[frozenset[type], bool]:
    """Types of ``"int | None"`` or ``"tuple[str, ...]"``, and whether there may be several."""
    part = annotation.removeprefix("tuple[").removesuffix(", ...]")
    kinds = (each for word in part.split(" | ") for each in _KINDS.get(word, ()))
    return frozenset(kinds), part != annotation


_ALLOWED: Mapping[object, Mapping[str, tuple[frozenset[type], bool]]] = {
    record: {each.name: _allowed(str(each.type)) for each in fields(record)}
    for record in (System, Cache)
}
"""Types that each field of a record allows, and whether it has several values."""


def _fact(value: Any, allowed: frozenset[type], several: bool, name: str) -> Any:
    """The value of a field, or its values as a tuple, once they are checked."""
    every = checked(value, (list, tuple), name) if several else (value,)
    for each in every:
        kind = type(each)
        if kind not in allowed or (kind in _NUMBERS and not abs(each) <= _MOST):
            raise TypeError(f"{name} is {each!r:.40}")
    return tuple(every) if several else value


# Machines of one fingerprint, separated by names that their owners chose.


@dataclass(frozen=True, slots=True)
class MachineName:
    """Name that an owner gave to one host of a system.

    Attributes:
        system: Fingerprint of the system.
        host: Host as in :class:`~dlbricks_core.facts.Session`; empty for observations of an unknown
            host.
        name: Name of the machine. Several hosts may share it, because each restart of a container
            creates another host.
        named_at: Time at which the name was given, with time zone. The latest name counts.
    """

    system: str
    host: str
    name: str
    named_at: datetime = field(default_factory=lambda: datetime.now(UTC))

    def to_dict(self) -> dict[str, Any]:
        """The name as plain data for JSON."""
        return {**flat(self), "named_at": self.named_at.isoformat()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Reverses :meth:`to_dict`; for errors see :mod:`~dlbricks_core.facts.checks`."""
        texts = {name: text(data[name], name) for name in ("system", "host", "name")}
        return cls(**texts, named_at=moment(data["named_at"]))


HOST_MARK = "@"
"""Separator between a fingerprint and a host."""

_SHORT = 8
"""Number of characters of a fingerprint or a host in short references."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine whose measurements a store holds: some or all hosts of a system.

    Attributes:
        system: Fingerprint of the system.
        name: Name that its owner gave it; empty if none did.
        hosts: Its hosts.
        alone: Whether the store knows no other hosts of the system.
    """

    system: str
    name: str
    hosts: frozenset[str]
    alone: bool = True

    @property
    def reference(self) -> str:
        """Short text that names it: ``lab``, ``71bff16a``, ``71bff16a@09ad3c2b``."""
        if self.name or self.alone:
            return self.name or self.system[:_SHORT]
        return HOST_MARK.join((self.system[:_SHORT], min(self.hosts)[:_SHORT]))

    @property
    def told_apart(self) -> str:
        """Its reference if it has a name or equal machines; empty for any other machine."""
        return self.reference if self.name or not self.alone else ""


# Sessions: who measured when, and how busy the machine was.


@dataclass(frozen=True, slots=True)
class Pulse:
    """Summary of a session's pulses: how long a fixed piece of work takes.

    Attributes:
        ms: Median of the pulses, in milliseconds.
        spread: Standard deviation of their logarithm; ``None`` if there are too few.
    """

    ms: float
    spread: float | None = None


@dataclass(frozen=True, slots=True)
class Session:
    """One run of DLBricks that measured.

    Attributes:
        id: Unique text, which the session's observations name.
        host: Hash that separates machines of one fingerprint; empty if unknown.
            It is neither a network name nor an address.
        system: Fingerprint of the system.
        version: Version of DLBricks.
        started_at: Start of measuring, with time zone.
        load: Share of the processors' time that other programs used during the session, from 0 to
            1; ``None`` if the session did not end, or the system does not report it.
        pulse_ms: Milliseconds of a fixed piece of work, the median over the session; ``None`` if it
            was not timed.
        pulse_spread: Standard deviation of the logarithm of these milliseconds within the session;
            ``None`` if they were timed too seldom.
    """

    id: str
    host: str
    system: str
    version: str
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    load: float | None = None
    pulse_ms: float | None = None
    pulse_spread: float | None = None

    def __post_init__(self) -> None:
        if self.started_at.tzinfo is None:
            raise ValueError("started_at needs a time zone")
        if self.load is not None and not 0 <= self.load <= 1:
            raise ValueError(f"load is {self.load}")

    def to_dict(self) -> dict[str, Any]:
        """The session as plain data for JSON."""
        return {**flat(self), "started_at": self.started_at.isoformat()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Reverses :meth:`to_dict`; for errors see :mod:`~dlbricks_core.facts.checks`."""
        pulse_ms, spread = data.get("pulse_ms"), data.get("pulse_spread")  # older exports lack both
        return cls(
            **{name: text(data[name], name) for name in _TEXTS},
            started_at=moment(data["started_at"]),
            load=number_if_known(data["load"], "load", most=1.0),
            pulse_ms=None if pulse_ms is None else number(pulse_ms, "pulse_ms", least=TINIEST),
            pulse_spread=None if spread is None else number(spread, "pulse_spread", least=0.0),
        )


_TEXTS = ("id", "host", "system", "version")
