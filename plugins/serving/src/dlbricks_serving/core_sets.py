"""Placement of instances: each gets CPU cores of its own."""

from __future__ import annotations

from dlbricks_core.errors import DLBricksError
from dlbricks_core.machine.system import MachineState, physical_cores_available
from dlbricks_core.wording import argument


def core_sets(
    instances: int, threads: int, machine: MachineState | None = None
) -> list[tuple[int, ...]]:
    """CPUs of each instance: one logical CPU on each of its cores. No two instances share a core.

    Args:
        instances: Number of instances.
        threads: Number of cores of each instance.
        machine: Machine to look at; this one by default.

    Raises:
        DLBricksError: If there are too few cores, or the CPU quota of the container allows fewer.
    """
    machine = machine or MachineState()
    first_of_core = {min(machine.siblings(cpu) & machine.cpus) for cpu in machine.cpus}
    usable = physical_cores_available(machine)
    if instances * threads > usable:
        raise DLBricksError(
            f"{instances} x {threads} threads need {instances * threads} cores, and {usable} "
            f"{'is' if usable == 1 else 'are'} usable",
            hint=f"Choose smaller {argument('instances')} or {argument('threads')}.",
        )
    cpus = sorted(first_of_core)
    return [tuple(cpus[i * threads : (i + 1) * threads]) for i in range(instances)]
