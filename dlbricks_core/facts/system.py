"""The system that measurements are made on, and its fingerprint."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any, Self

from dlbricks_core.facts.checks import canonical_json

#: Facts that do not make a difference to latency, or only for models that hardly fit.
#: Updates of the kernel and of Python's patch level would part measurements for nothing;
#: the amount of memory differs a little from boot to boot, and the microarchitecture's
#: name is only archspec's reading of the facts that do count.
_NOT_IDENTITY = frozenset(
    {"os", "kernel", "python", "memory", "memory_limit", "microarchitecture", "hypervisor"}
)


@dataclass(frozen=True)
class Cache:
    """One cache, seen from one CPU: its size in bytes, and how many CPUs share it."""

    level: int
    kind: str
    size: int
    shared_by: int


@dataclass(frozen=True)
class System:
    """Facts about hardware and its settings; ``None``, 0 or empty where they are not known.

    No name or address of the machine is among them.

    Attributes:
        cpu: Brand name.
        microarchitecture: As archspec names it, or the generic level (``x86_64_v4``).
        isa: Instruction-set extensions that matter for deep learning.
        physical_cores: Of the machine, online.
        logical_cpus: Of the machine, online.
        available_cpus: Logical CPUs that this process may run on.
        available_cores: Physical cores that these are on, no more than the quota.
        cpu_quota: CPUs' worth of time that the container may use.
        memory: Bytes; 0 where the system does not tell.
        memory_limit: Of the container, in bytes.
        governors: Frequency governors in use.
        boost: Whether cores may run above their nominal frequency.
        max_mhz: Highest frequencies that the governor may choose.
        huge_pages: Mode of transparent huge pages.
        hypervisor: Its name, or ``unknown``.
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
        """Hash of the facts that change latency: the same for machines built and set alike.

        It covers the processor with its caches and instruction sets, how much of it this
        process may use, and how its frequency is governed: a machine with turbo off is
        another system than the same one with turbo on.
        """
        facts = {name: value for name, value in asdict(self).items() if name not in _NOT_IDENTITY}
        facts["virtual"] = self.hypervisor is not None
        facts["python"] = self.python.split(".")[:2]
        return hashlib.sha256(canonical_json(facts).encode()).hexdigest()[:16]

    def describe(self) -> str:
        """One line for people."""
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
        """The system that facts of a store describe, as far as this version knows such facts.

        Args:
            fingerprint: What the store knows the system by. It stays the system's own, though
                another version of DLBricks may have computed it from other facts.
            data: As :meth:`to_dict` wrote it.
        """
        names = {each.name for each in fields(cls)}
        known = {name: _frozen(value) for name, value in data.items() if name in names}
        caches = (Cache(**cache) for cache in data.get("caches", ()))
        found = cls(**{**known, "caches": tuple(caches)})
        vars(found)["fingerprint"] = fingerprint
        return found


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
