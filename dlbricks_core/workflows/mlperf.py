"""Describes a system with the fields of MLPerf's system descriptions."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dlbricks_core.facts import Cache, System


def described(system: System) -> dict[str, str]:
    """The hardware fields of a system description, as texts.

    Unknown fields stay empty. MLCommons' submission checkers require these names.
    """
    return {name: tell(system) for name, tell in _FIELDS.items()}


def _nothing(_system: System) -> str:
    return ""


def _one_processor(system: System) -> bool:
    """Whether the machine has one processor for certain: its NUMA nodes prove it."""
    return system.numa_nodes == 1


def _of_processor(total: int, system: System) -> str:
    """A number per processor, as MLPerf counts it, derived from that of the whole machine."""
    return _number(total) if _one_processor(system) else ""


def _number(value: int) -> str:
    return str(value) if value else ""


def _frequency(system: System) -> str:
    return f"{max(system.max_mhz)} MHz" if system.max_mhz else ""


def _caches(system: System) -> str:
    return ", ".join(map(_cache, system.caches))


def _cache(cache: Cache) -> str:
    kind = {"data": "d", "instruction": "i"}.get(cache.kind, "")
    return f"L{cache.level}{kind} {cache.size // 2**10} KiB shared by {cache.shared_by} threads"


def _memory(system: System) -> str:
    return f"{system.memory / 2**30:.1f} GiB" if system.memory else ""


def _notes(system: System) -> str:
    """Facts that affect latency and have no field of their own."""
    boost = {True: "on", False: "off", None: ""}[system.boost]
    told = {
        "cores of the machine": _number(system.physical_cores),
        "hardware threads": _number(system.logical_cpus),
        "usable cores": _number(system.available_cores),
        "CPU quota": "" if system.cpu_quota is None else f"{system.cpu_quota:g}",
        "instruction sets": " ".join(system.isa),
        "NUMA nodes": _number(system.numa_nodes),
        "governor": " ".join(system.governors),
        "boost": boost,
        "huge pages": system.huge_pages or "",
        "hypervisor": system.hypervisor or "",
    }
    return "; ".join(f"{name}: {text}" for name, text in told.items() if text)


_FIELDS: Mapping[str, Callable[[System], str]] = {
    "system_name": _nothing,
    "number_of_nodes": lambda system: "1",
    "host_processor_model_name": lambda system: system.cpu,
    "host_processors_per_node": lambda system: _of_processor(1, system),
    "host_processor_core_count": lambda system: _of_processor(system.physical_cores, system),
    "host_processor_vcpu_count": lambda system: _of_processor(system.logical_cpus, system),
    "host_processor_frequency": _frequency,
    "host_processor_caches": _caches,
    "host_processor_interconnect": _nothing,
    "host_memory_capacity": _memory,
    "host_memory_configuration": _nothing,
    "host_storage_type": _nothing,
    "host_storage_capacity": _nothing,
    "host_networking": _nothing,
    "host_networking_topology": _nothing,
    "accelerators_per_node": _nothing,
    "accelerator_model_name": _nothing,
    "hw_notes": _notes,
}
"""Text of each field."""
