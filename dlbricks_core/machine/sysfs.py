"""Reads facts that Linux states about the machine in ``/proc``, ``/sys`` and control groups."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from dlbricks_core.worker import memory

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
