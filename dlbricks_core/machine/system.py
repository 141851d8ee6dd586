"""Facts about the system that this process runs on."""

from __future__ import annotations

import hashlib
import hmac
import math
import platform
import re
import warnings

import archspec.cpu

from dlbricks_core.facts import Cache, System
from dlbricks_core.machine.speed import generation_of
from dlbricks_core.machine.sysfs import MachineState, parse_cpus

#: Instruction-set extensions that decide which kernels a framework picks, by the name that
#: /proc/cpuinfo gives their list (on x86 and on Arm; the same word can mean two things).
_ISA = {
    "flags": re.compile(r"sse4_2|avx.*|fma|f16c|amx.*"),
    "Features": re.compile(r"asimd.*|sve.*|sme.*|bf16|i8mm"),
}


_NEAR_LEVEL = 2
"""Level of the caches that belong to one core each, on all processors that are usual in servers."""


def physical_cores_available(machine: MachineState | None = None) -> int:
    """Number of physical cores that this process may use, with which most frameworks are fastest.

    A core with two hardware threads counts once. Cores that affinity forbids do not count, and the
    CPU quota of the container is an upper bound.
    """
    machine = machine or MachineState()
    cores = machine.cores(machine.cpus)
    quota = machine.cpu_quota()
    return max(1, cores if quota is None else min(cores, math.floor(quota)))


def current_host(machine: MachineState | None = None) -> str:
    """Hash that separates this machine from equal ones; empty without ``/proc``.

    It stays when the machine is restarted: it comes from ``/etc/machine-id`` and the addresses of
    the network interfaces that are built in, since copies of a virtual machine share the former.
    The id is the key of the hash (HMAC, as systemd does for applications), so that neither can be
    found out. In a container, whose id may be that of its image, and where no such interface is
    seen, it comes from the random number that the kernel draws when it starts. All containers of a
    machine share that, and a restart changes it.
    """
    machine = machine or MachineState()
    identity, addresses = machine.text("etc/machine-id"), machine.built_in_addresses()
    if identity and addresses and not machine.is_container():
        text = " ".join(("dlbricks", *addresses))
        return hmac.new(identity.encode(), text.encode(), "sha256").hexdigest()[:16]
    drawn = machine.text("proc/sys/kernel/random/boot_id")
    return hashlib.sha256(f"dlbricks {drawn}".encode()).hexdigest()[:16] if drawn else ""


def current_system(machine: MachineState | None = None) -> System:
    """Facts about the machine that this process runs on."""
    machine = machine or MachineState()
    cpu = machine.table("proc/cpuinfo")
    with warnings.catch_warnings():
        # Without /proc, archspec warns and returns a generic processor.
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
    vendor = cpu.get("vendor_id") or uarch.vendor
    family = cpu.get("cpu family") or cpu.get("CPU architecture") or ""
    model = cpu.get("model") or cpu.get("CPU part") or ""
    return System(
        cpu=cpu.get("model name") or uarch.name,
        vendor=vendor,
        family=family,
        model=model,
        stepping=cpu.get("stepping") or cpu.get("CPU revision") or "",
        # A virtual machine hides some instruction sets, by which archspec distinguishes
        # generations.
        microarchitecture=generation_of(vendor, family, model).name or uarch.name,
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


def largest_cache(machine: MachineState | None = None) -> int | None:
    """Bytes of the largest cache; ``None`` if it is unknown."""
    return max((cache.size for cache in _caches(machine or MachineState())), default=None)


def near_caches(cores: int, machine: MachineState | None = None) -> int | None:
    """Bytes of the second-level caches of some cores together.

    Args:
        cores: Number of cores that compute together.
        machine: Machine to look at; this one by default.

    Returns:
        The number of bytes; ``None`` if it is unknown.
    """
    sizes = [
        cache.size for cache in _caches(machine or MachineState()) if cache.level == _NEAR_LEVEL
    ]
    return cores * max(sizes) if sizes else None


def _caches(machine: MachineState) -> tuple[Cache, ...]:
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
