"""Whether this machine is ready to measure: one small check for each known disturbance."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Literal

from dlbricks_core.machine.cores import APART, MAX_APART, watched
from dlbricks_core.machine.load import MAX_OTHERS, MAX_STEAL, LoadSampler, MachineLoad
from dlbricks_core.machine.system import CPUS, MachineState, largest_cache, near_caches

Status = Literal["ok", "warn", "unknown"]

#: Bytes of memory that should be free for a run, and bytes of swap whose use does no harm.
ENOUGH_MEMORY = 2 * 2**30
LITTLE_SWAP = 64 * 2**20
#: Number of times that the distance of cores is measured, and the seconds in between.
LOOKS, LOOK_EACH_S = 20, 0.02
#: Clocks that are read without a system call, or nearly so.
FAST_CLOCKS = frozenset(
    {
        "tsc",
        "kvm-clock",
        "arch_sys_counter",
        "hyperv_clocksource_tsc_page",
        "timebase",
        "riscv_clocksource",
    }
)


@dataclass(frozen=True)
class Check:
    """Answer to one question about the machine.

    Attributes:
        name: Name of the fact that was checked.
        status: ``"ok"``, ``"warn"``, or ``"unknown"`` if the machine does not state the fact.
        finding: The fact, in one line.
        advice: Advice with the command to type; empty if there is nothing to do.
    """

    name: str
    status: Status
    finding: str
    advice: str = ""


def check_readiness(machine: MachineState | None = None, window_s: float = 0.5) -> list[Check]:
    """Checks for all known disturbances of measurements.

    Args:
        machine: Machine to check; this one by default.
        window_s: Seconds for which the load is watched; this process should be idle meanwhile.
    """
    machine = machine or MachineState()
    sampler = LoadSampler(machine)
    time.sleep(window_s)
    load = sampler.load()
    return [check(machine) for check in CHECKS] + [check(load) for check in LOAD_CHECKS]


def _governor(machine: MachineState) -> Check:
    found = machine.frequency_governors()
    if not found:
        return Check("frequency governor", "unknown", "not visible", _ask_host(machine))
    if found == ["performance"]:
        return Check("frequency governor", "ok", "performance")
    return Check(
        "frequency governor",
        "warn",
        f"{', '.join(found)}: the frequency follows the load",
        "sudo cpupower frequency-set --governor performance",
    )


def _turbo(machine: MachineState) -> Check:
    boost = machine.boost()
    if boost is None:
        return Check("turbo", "unknown", "not visible", _ask_host(machine))
    if not boost:
        return Check("turbo", "ok", "off")
    switches = (
        (f"{CPUS}/intel_pstate/no_turbo", "1", ""),
        (f"{CPUS}/cpufreq/boost", "0", ""),
        (f"{CPUS}/cpu*/cpufreq/boost", "0", " > /dev/null"),
    )
    advice = next(
        f"echo {value} | sudo tee /{path}{quiet}"
        for path, value, quiet in switches
        if any(machine.root.glob(path))
    )
    finding = "on: the frequency depends on temperature and on how many cores work"
    return Check("turbo", "warn", finding, advice)


def _smt(machine: MachineState) -> Check:
    active = machine.number(f"{CPUS}/smt/active")
    if active:
        return Check(
            "hyper-threading",
            "warn",
            "on: two hardware threads share each core",
            f"echo off | sudo tee /{CPUS}/smt/control (or use no more threads than cores)",
        )
    if machine.hypervisor():
        finding = "not visible: two virtual CPUs may share a core"
        return Check("hyper-threading", "unknown", finding, _ask_host(machine))
    if active is None:
        return Check("hyper-threading", "unknown", "not visible", _ask_host(machine))
    return Check("hyper-threading", "ok", "off")


def _cores(machine: MachineState) -> Check:
    online = machine.online()
    finding = (
        f"{machine.cores(machine.cpus)} of {machine.cores(online)} cores usable"
        f" ({len(machine.cpus)} of {len(online)} CPUs)"
    )
    foreign = {
        sibling
        for cpu in machine.cpus
        for sibling in machine.siblings(cpu) & online
        if sibling not in machine.cpus
    }
    if not foreign:
        return Check("cores", "ok", finding)
    listed = ",".join(map(str, sorted(machine.cpus | foreign)))
    return Check(
        "cores",
        "warn",
        f"{finding}; others may run on the second thread of a core in use",
        f"take whole cores: taskset --cpu-list {listed} dlbricks ..., or --cpuset-cpus={listed}"
        " for the container",
    )


def _quota(machine: MachineState) -> Check:
    quota = machine.cpu_quota()
    if quota is None:
        return Check("CPU quota", "ok", "none")
    return Check(
        "CPU quota",
        "warn",
        f"{quota:g} CPUs: the container is stopped whenever it has used them up"
        f" ({machine.throttled():.1f} s so far)",
        "give it CPUs of its own instead of a quota: docker run --cpuset-cpus=0-3, no --cpus",
    )


def _memory(machine: MachineState) -> Check:
    available, limit = machine.memory_available(), machine.memory_limit()
    if available is None:
        return Check("memory", "unknown", "not visible")
    limited = f", container limited to {_gib(limit)}" if limit is not None else ""
    finding = f"{_gib(available)} available{limited}"
    if available >= ENOUGH_MEMORY:
        return Check("memory", "ok", finding)
    advice = "end other programs (ps aux --sort=-%mem | head)"
    if limit is not None:
        advice += ", or give the container more: docker run --memory=8g"
    return Check("memory", "warn", finding, advice)


def _swap(machine: MachineState) -> Check:
    memory = machine.memory()
    if "SwapTotal" not in memory:
        return Check("swap", "unknown", "not visible")
    used = memory["SwapTotal"] - memory.get("SwapFree", 0)
    if used <= LITTLE_SWAP:
        return Check("swap", "ok", "not in use" if memory["SwapTotal"] else "none")
    advice = "end other programs, then: sudo swapoff --all && sudo swapon --all"
    return Check("swap", "warn", f"{_gib(used)} in use", advice)


def _caches(machine: MachineState) -> Check:
    private, largest = near_caches(1, machine), largest_cache(machine)
    if private is None or largest is None:
        finding = "their sizes are not visible, so estimates may be less exact"
        return Check("caches", "unknown", finding)
    finding = f"{_mib(private)} of its own for each core, the largest {_mib(largest)}"
    return Check("caches", "ok", finding)


def _temperature(machine: MachineState) -> Check:
    counts = machine.per_cpu("thermal_throttle/core_throttle_count")
    if not counts:
        return Check("temperature", "unknown", "throttling is not counted here")
    highest = max(int(count) for count in counts.values())
    if not highest:
        return Check("temperature", "ok", "never throttled since the system started")
    return Check(
        "temperature",
        "warn",
        f"a core was throttled {highest} times since the system started",
        f"improve the cooling; does it still rise? watch cat /{CPUS}/cpu0/thermal_throttle/*count",
    )


def _clock(machine: MachineState) -> Check:
    folder = "sys/devices/system/clocksource/clocksource0"
    current = machine.text(f"{folder}/current_clocksource")
    if current is None:
        return Check("clock", "unknown", "not visible")
    if current in FAST_CLOCKS:
        return Check("clock", "ok", current)
    offered = (machine.text(f"{folder}/available_clocksource") or "").split()
    better = next((name for name in offered if name in FAST_CLOCKS), None)
    return Check(
        "clock",
        "warn",
        f"{current}: reading the time is slow",
        f"echo {better} | sudo tee /{folder}/current_clocksource"
        if better
        else "restart the system with the kernel parameter tsc=reliable",
    )


def _virtual(machine: MachineState) -> Check:
    hypervisor = machine.hypervisor()
    if hypervisor is None:
        return Check("virtualization", "ok", "none found")
    name = "" if hypervisor == "unknown" else f" ({hypervisor})"
    return Check(
        "virtualization",
        "unknown",
        f"virtual machine{name}: the host sets the frequency, and runs others",
        "prefer a bare-metal or dedicated host, and repeat runs at other times",
    )


def _distance(machine: MachineState) -> Check:
    distance = watched(len(machine.cpus), machine)
    if machine.hypervisor() is not None and largest_cache(machine) is None:
        finding = "the sizes of the caches are not visible"
        return Check("distance", "unknown", finding)
    if distance is None:
        return Check("distance", "ok", "no hypervisor moves CPUs that share a cache")
    found = []
    try:
        for _ in range(LOOKS):
            time.sleep(LOOK_EACH_S)
            found.append(distance())
    except OSError as error:
        finding = f"the system does not let a thread choose its CPU ({error.strerror})"
        return Check("distance", "unknown", finding)
    apart = sum(each >= APART for each in found)
    finding = (
        f"virtual CPUs were far apart in {apart} of {LOOKS} checks: a CPU reads a value that the "
        f"other wrote in {median(found):.1f} times the time of a value in memory"
    )
    if apart <= MAX_APART * LOOKS:
        return Check("distance", "ok", finding)
    advice = "use a quiet host; runs wait until they are near, and report if they stay apart"
    return Check("distance", "warn", finding, advice)


def _load_check(load: MachineLoad) -> Check:
    if load.others is None:
        return Check("load", "unknown", "not visible")
    finding = f"other processes use {load.others:.2f} of {load.cpus} CPUs"
    if load.others <= MAX_OTHERS * load.cpus:
        return Check("load", "ok", finding)
    return Check("load", "warn", finding, "end other programs; 'top -o %CPU' lists them")


def _steal(load: MachineLoad) -> Check:
    if load.steal is None:
        return Check("steal", "unknown", "not visible")
    finding = f"the hypervisor takes away {load.steal / load.cpus:.1%} of the CPU time"
    if load.steal <= MAX_STEAL * load.cpus:
        return Check("steal", "ok", finding)
    return Check("steal", "warn", finding, "use a dedicated host, or a less busy one")


def _ask_host(machine: MachineState) -> str:
    where = "the host of the virtual machine" if machine.hypervisor() else "the BIOS settings"
    return f"see {where}, or ask the administrator"


def _mib(size: int) -> str:
    return f"{size / 2**20:g} MiB"


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"


#: Checks in the order in which they are reported.
CHECKS: tuple[Callable[[MachineState], Check], ...] = (
    _governor,
    _turbo,
    _smt,
    _cores,
    _quota,
    _caches,
    _memory,
    _swap,
    _temperature,
    _clock,
    _virtual,
    _distance,
)
LOAD_CHECKS: tuple[Callable[[MachineLoad], Check], ...] = (_load_check, _steal)
