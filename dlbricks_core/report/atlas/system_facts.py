"""Facts about a system in words."""

from __future__ import annotations

from dlbricks_core.facts import System
from dlbricks_core.facts.system import Cache
from dlbricks_core.report.html.templating import Fact

_UNKNOWN = "unknown"


def facts_of(system: System) -> list[Fact]:
    """Facts about a system; unknown facts are named as unknown."""
    if not system.cpu:
        return [("Fingerprint", system.fingerprint), ("Facts", "the store holds none")]
    hypervisor = system.hypervisor or "none"
    found = {
        "Fingerprint": system.fingerprint,
        "Processor": system.cpu,
        "Microarchitecture": system.microarchitecture,
        "Instruction sets": ", ".join(system.isa),
        "Cores": f"{system.physical_cores} ({system.logical_cpus} logical CPUs), "
        f"{system.available_cores} usable",
        "Caches": ", ".join(map(_cache, system.caches)),
        "NUMA nodes": str(system.numa_nodes or ""),
        "Memory": _bytes(system.memory),
        "Memory limit": _bytes(system.memory_limit or 0) or "none",
        "Hypervisor": hypervisor,
        "Frequency governors": ", ".join(system.governors),
        "Boost": {True: "on", False: "off", None: ""}[system.boost],
        "Huge pages": system.huge_pages or "",
        "Operating system": f"{system.os}, Linux {system.kernel}",
        "Python": system.python,
    }
    return [(name, text or _UNKNOWN) for name, text in found.items()]


def _cache(cache: Cache) -> str:
    kind = "" if cache.kind == "unified" else f" {cache.kind}"
    return f"L{cache.level}{kind} {_bytes(cache.size)}"


def _bytes(number: int) -> str:
    """A number of bytes in the largest unit that it fills; empty for 0."""
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if number >= size:
            return (
                f"{number / size:.3g} {unit}"
                if number < 1000 * size
                else f"{number // size} {unit}"
            )
    return f"{number} B" if number else ""
