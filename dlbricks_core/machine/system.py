"""Facts about the system that this process runs on."""

from __future__ import annotations

import hashlib
import hmac
import math
import os
import platform
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import archspec.cpu

from dlbricks_core.facts import Cache, System
from dlbricks_core.machine.speed import generation_of
from dlbricks_core.worker import memory

# Reads facts that Linux states about the machine in ``/proc``, ``/sys`` and control groups.

CPUS = "sys/devices/system/cpu"

_CONTAINER = (".dockerenv", "run/.containerenv", "run/systemd/container")
"""Files whose presence shows a container of Docker, Podman or systemd."""

_CACHES = 8
"""Maximum number of caches of one CPU."""


def parse_cpus(text: str) -> frozenset[int]:
    """CPU numbers from a list as the kernel writes it.

    >>> sorted(parse_cpus("0-2,8"))
    [0, 1, 2, 8]
    """
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)


@dataclass(frozen=True)
class MachineState:
    """The machine as this process sees it; facts that cannot be read are ``None``.

    Attributes:
        root: Folder that holds ``/proc`` and ``/sys``.
        cpus: Logical CPUs that this process may use.
    """

    root: Path = Path("/")
    cpus: frozenset[int] = field(default_factory=lambda: frozenset(os.sched_getaffinity(0)))

    def text(self, path: str | Path) -> str | None:
        """Content of a file, without blanks around it."""
        try:
            return (self.root / path).read_text(errors="replace").strip()
        except OSError:
            return None

    def number(self, path: str | Path) -> int | None:
        """Content of a file as a whole number; ``None`` if it is none."""
        try:
            return int(self.text(path) or "")
        except ValueError:
            return None

    def per_cpu(self, path: str) -> dict[int, str]:
        """Content of a file of each usable CPU, by the CPU's number."""
        found = {cpu: self.text(f"{CPUS}/cpu{cpu}/{path}") for cpu in sorted(self.cpus)}
        return {cpu: text for cpu, text in found.items() if text is not None}

    def table(self, path: str) -> dict[str, str]:
        """The first block of ``name: value`` lines of a file."""
        found: dict[str, str] = {}
        try:
            # Only the first block is read: the kernel computes /proc/cpuinfo as it is read.
            with (self.root / path).open(errors="replace") as lines:
                for line in lines:
                    name, colon, value = line.partition(":")
                    if not colon and found:
                        break
                    found[name.strip()] = value.strip()
        except OSError:
            pass
        return found

    def counters(self, path: str | Path) -> dict[str, int]:
        """Numbers by name, from the ``name number`` lines of a control group's statistics."""
        pairs = (line.split() for line in (self.text(path) or "").splitlines())
        return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2}

    def memory(self) -> dict[str, int]:
        """Figures of /proc/meminfo in bytes."""
        return {
            name: int(value.removesuffix("kB")) * 1024
            for name, value in self.table("proc/meminfo").items()
            if value.endswith("kB")
        }

    def is_container(self) -> bool:
        """Whether this process runs in a container of a usual kind."""
        return any((self.root / path).exists() for path in _CONTAINER)

    def built_in_addresses(self) -> list[str]:
        """Permanent addresses of built-in network interfaces, sorted.

        Interfaces that are plugged in (USB), made by software, or have a random or configured
        address are left out.
        """
        found = []
        for folder in sorted((self.root / "sys/class/net").glob("*")):
            device = (folder / "device").resolve()
            is_built_in = (folder / "device").exists() and "usb" not in str(device)
            permanent = self.number(folder / "addr_assign_type") == 0
            if is_built_in and permanent and (address := self.text(folder / "address")):
                found.append(address)
        return sorted(found)

    def online(self) -> frozenset[int]:
        """Logical CPUs of the system, including CPUs that this process may not use."""
        return parse_cpus(self.text(f"{CPUS}/online") or "") or self.cpus

    def siblings(self, cpu: int) -> frozenset[int]:
        """Logical CPUs on the same physical core, itself included."""
        for name in ("core_cpus_list", "thread_siblings_list"):
            if text := self.text(f"{CPUS}/cpu{cpu}/topology/{name}"):
                return parse_cpus(text)
        return frozenset({cpu})

    def cache_folders(self, cpu: int) -> list[str]:
        """Folders that may describe the caches of a CPU; some need not exist."""
        return [f"{CPUS}/cpu{cpu}/cache/index{index}" for index in range(_CACHES)]

    def sharing(self, cpu: int) -> frozenset[int]:
        """Logical CPUs that share a cache of any level with this one, itself included."""
        folders = self.cache_folders(cpu)
        lists = (self.text(f"{folder}/shared_cpu_list") or "" for folder in folders)
        return frozenset({cpu}).union(*map(parse_cpus, lists))

    def cores(self, cpus: frozenset[int]) -> int:
        """Number of physical cores that the given CPUs are on."""
        return len({self.siblings(cpu) for cpu in cpus})

    def cgroup_files(self, controller: str, name: str) -> Iterator[Path]:
        """A control file of this process's group and of the groups that hold it.

        Args:
            controller: Name of the controller, such as ``cpu``; empty for version 2.
            name: Name of the file.
        """
        return memory.cgroup_files(controller, name, self.root)

    def cpu_quota(self) -> float | None:
        """CPU seconds that the container may use per second; ``None`` without a limit."""
        quotas = []
        for path in self.cgroup_files("", "cpu.max"):
            limit, period = (self.text(path) or "max 1").split()
            if limit != "max":
                quotas.append(int(limit) / int(period))
        for path in self.cgroup_files("cpu", "cpu.cfs_quota_us"):
            micros = self.number(path) or 0
            span = self.number(path.with_name("cpu.cfs_period_us")) or 100_000
            if micros > 0:
                quotas.append(micros / span)
        return min(quotas, default=None)

    def throttled(self) -> float:
        """Seconds for which the quota has stopped this container so far."""
        units = {"throttled_usec": 1e-6, "throttled_time": 1e-9}
        total = 0.0
        for controller in ("", "cpu"):
            for path in self.cgroup_files(controller, "cpu.stat"):
                counters = self.counters(path)
                total += sum(counters.get(name, 0) * unit for name, unit in units.items())
        return total

    def memory_limit(self) -> int | None:
        """Maximum bytes that the container may use; ``None`` without a limit."""
        return memory.container_limit(self.root)

    def memory_available(self) -> int | None:
        """Bytes that could be used now without swapping."""
        return memory.available(self.root)

    def frequency_governors(self) -> list[str]:
        """Names of the frequency governors in use."""
        return sorted(set(self.per_cpu("cpufreq/scaling_governor").values()))

    def boost(self) -> bool | None:
        """Whether cores may run above their nominal frequency."""
        if (no_turbo := self.number(f"{CPUS}/intel_pstate/no_turbo")) is not None:
            return not no_turbo
        if (boost := self.number(f"{CPUS}/cpufreq/boost")) is not None:
            return bool(boost)
        each = self.per_cpu("cpufreq/boost")
        return any(text == "1" for text in each.values()) if each else None

    def hypervisor(self) -> str | None:
        """Name of the hypervisor; ``"unknown"`` if it has no name, ``None`` without one."""
        flagged = "hypervisor" in self.table("proc/cpuinfo").get("flags", "").split()
        named = self.text("sys/hypervisor/type")
        product = self.text("sys/class/dmi/id/product_name")
        emulated = self.text("sys/class/dmi/id/sys_vendor") == "QEMU"
        if flagged or named or emulated:
            return named or product or "unknown"
        return None


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
