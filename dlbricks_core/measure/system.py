"""The system that measurements are made on, and its fingerprint."""

from __future__ import annotations

import hashlib
import math
import platform
import re
import warnings
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import archspec.cpu

from dlbricks_core.measure.machine import Machine, parse_cpus
from dlbricks_core.store import canonical_json

#: Instruction-set extensions that decide which kernels a framework picks, by the name that
#: /proc/cpuinfo gives their list (on x86 and on Arm; the same word can mean two things).
_ISA = {
    "flags": re.compile(r"sse4_2|avx.*|fma|f16c|amx.*"),
    "Features": re.compile(r"asimd.*|sve.*|sme.*|bf16|i8mm"),
}

#: Facts that do not make a difference to latency, or only for models that hardly fit.
#: Updates of the kernel and of Python's patch level would part measurements for nothing;
#: the amount of memory differs a little from boot to boot, and the microarchitecture's
#: name is only archspec's reading of the facts that do count.
_NOT_IDENTITY = frozenset(
    {"os", "kernel", "python", "memory", "memory_limit", "microarchitecture", "hypervisor"}
)


_USUAL_CACHE = 32_000_000
"""Bytes of the largest cache where the system does not tell."""

_NEAR_LEVEL = 2
_USUAL_NEAR_CACHE = 2**20


@dataclass(frozen=True)
class Cache:
    """One cache, seen from one CPU: its size in bytes, and how many CPUs share it."""

    level: int
    kind: str
    size: int
    shared_by: int


@dataclass(frozen=True)
class System:
    """Facts about hardware and its settings; None and empty where they are not visible.

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

    cpu: str
    vendor: str
    family: str
    model: str
    stepping: str
    microarchitecture: str
    architecture: str
    isa: tuple[str, ...]
    physical_cores: int
    logical_cpus: int
    available_cpus: int
    available_cores: int
    cpu_quota: float | None
    caches: tuple[Cache, ...]
    numa_nodes: int
    memory: int
    memory_limit: int | None
    governors: tuple[str, ...]
    boost: bool | None
    max_mhz: tuple[int, ...]
    huge_pages: str | None
    hypervisor: str | None
    os: str
    kernel: str
    python: str

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


def physical_cores_available(machine: Machine | None = None) -> int:
    """How many threads compute best: the physical cores that this process may use.

    Counts a core with two hardware threads once, leaves out what affinity forbids, and
    stays within the CPU quota of the container.
    """
    machine = machine or Machine()
    cores = machine.cores(machine.cpus)
    quota = machine.cpu_quota()
    return max(1, cores if quota is None else min(cores, math.floor(quota)))


def current_system(machine: Machine | None = None) -> System:
    """Facts about the machine that this process runs on."""
    machine = machine or Machine()
    cpu = machine.table("proc/cpuinfo")
    with warnings.catch_warnings():
        # Without /proc it says so, and knows no more than the generic level.
        warnings.simplefilter("ignore")
        uarch = archspec.cpu.host()
    isa = {
        flag
        for name, wanted in _ISA.items()
        for flag in cpu.get(name, "").split()
        if wanted.fullmatch(flag)
    }
    online = machine.online()
    nodes = parse_cpus(machine.text("sys/devices/system/node/online") or "0")
    huge_pages = re.search(
        r"\[(\w+)\]", machine.text("sys/kernel/mm/transparent_hugepage/enabled") or ""
    )
    max_khz = {int(text) for text in machine.per_cpu("cpufreq/scaling_max_freq").values()}
    return System(
        cpu=cpu.get("model name") or uarch.name,
        vendor=cpu.get("vendor_id") or uarch.vendor,
        family=cpu.get("cpu family") or cpu.get("CPU architecture") or "",
        model=cpu.get("model") or cpu.get("CPU part") or "",
        stepping=cpu.get("stepping") or cpu.get("CPU revision") or "",
        microarchitecture=uarch.name,
        architecture=platform.machine(),
        isa=tuple(sorted(isa)),
        physical_cores=machine.cores(online),
        logical_cpus=len(online),
        available_cpus=len(machine.cpus),
        available_cores=physical_cores_available(machine),
        cpu_quota=machine.cpu_quota(),
        caches=_caches(machine),
        numa_nodes=len(nodes),
        memory=machine.memory().get("MemTotal", 0),
        memory_limit=machine.memory_limit(),
        governors=tuple(machine.frequency_governors()),
        boost=machine.boost(),
        max_mhz=tuple(sorted(khz // 1000 for khz in max_khz)),
        huge_pages=huge_pages and huge_pages[1],
        hypervisor=machine.hypervisor(),
        os=_os_name(),
        kernel=platform.release(),
        python=platform.python_version(),
    )


def largest_cache(machine: Machine | None = None) -> int:
    """Bytes of the largest cache; 32 MB, as is usual, where the system does not tell."""
    sizes = [cache.size for cache in _caches(machine or Machine())]
    return max(sizes, default=_USUAL_CACHE)


def near_caches(cores: int, machine: Machine | None = None) -> int:
    """Bytes of the second-level caches of so many cores; 1 MB each where the system does not tell.

    They are the cores' own on all processors that are usual in servers.
    """
    sizes = [cache.size for cache in _caches(machine or Machine()) if cache.level == _NEAR_LEVEL]
    return cores * max(sizes, default=_USUAL_NEAR_CACHE)


def _caches(machine: Machine) -> tuple[Cache, ...]:
    """Caches of the first CPU that this process may use."""
    units = {"K": 2**10, "M": 2**20, "G": 2**30}
    found = []
    for folder in machine.cache_folders(min(machine.cpus)):
        level, size = machine.number(f"{folder}/level"), machine.text(f"{folder}/size")
        if level is None or not size or not size[:-1].isdigit():
            continue
        found.append(
            Cache(
                level=level,
                kind=(machine.text(f"{folder}/type") or "").lower(),
                size=int(size[:-1]) * units.get(size[-1], 1),
                shared_by=len(parse_cpus(machine.text(f"{folder}/shared_cpu_list") or "")),
            )
        )
    return tuple(found)


def _os_name() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.system()
