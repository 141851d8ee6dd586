"""Cores that a hypervisor moves apart are waited for, but not for ever."""

import os

import pytest

from dlbricks_core.machine.cores import FAR as FAR_NOTE
from dlbricks_core.machine.cores import Cores, Memory, distance, watched
from dlbricks_core.machine.system import CPUS, MachineState

NEAR, FAR, LOOK_S = 0.8, 2.3, 0.002


class Host:
    """Cores that are apart in some spans of a simulated time."""

    def __init__(self, *apart):
        self.apart, self.now_s, self.looks = apart, 0.0, 0

    def distance(self):
        self.now_s += LOOK_S
        self.looks += 1
        return FAR if any(begin <= self.now_s < end for begin, end in self.apart) else NEAR

    def nap(self, seconds):
        self.now_s += seconds

    def cores(self):
        return Cores(self.distance, lambda: self.now_s, self.nap)


def test_cores_that_are_apart_are_waited_for():
    host = Host((0, 0.2), (1.2, 1.7))
    cores = host.cores()
    assert cores.gather()
    assert 0.2 <= host.now_s < 0.3
    host.now_s = 1
    cores.gather()
    assert host.now_s == pytest.approx(1 + LOOK_S)
    host.now_s = 1.3
    cores.gather()
    assert 1.7 <= host.now_s < 1.8
    assert (cores.checks, cores.apart) == (3, 0)
    assert cores.waited_s == pytest.approx(0.6, abs=0.05)
    assert cores.warnings == ()


def test_waiting_in_vain_ends_and_is_reported():
    host = Host((0, 1000))
    cores = host.cores()
    waits = []
    for _ in range(400):
        host.now_s += 0.5
        begin = host.now_s
        assert not cores.gather()
        waits.append(host.now_s - begin)
    assert waits[0] == pytest.approx(2, abs=0.1)
    assert 0.08 < sum(waits) / host.now_s < 0.15
    (warning,) = cores.warnings
    assert warning.code == FAR_NOTE
    assert warning.values == {"share": 1.0, "times": FAR}


def test_cores_that_come_together_again_are_waited_for_each_time():
    host = Host(*((second, second + 0.6) for second in range(0, 200, 2)))
    cores = host.cores()
    while host.now_s < 200:
        cores.gather()
        host.now_s += 0.1
    assert cores.apart < 0.03 * cores.checks
    assert 45 < cores.waited_s < 60  # a look comes some time after they parted
    assert cores.warnings == ()


def test_waiting_takes_half_of_the_time_at_most():
    """They part as soon as anything runs."""
    host = Host()
    cores = host.cores()
    while host.now_s < 200:
        host.apart = ((host.now_s, host.now_s + 1),)
        cores.gather()
        host.now_s += 0.2
    assert cores.waited_s == pytest.approx(100, rel=0.1)


def test_a_system_that_forbids_looking_is_named():
    looks = []

    def refused():
        looks.append(1)
        raise PermissionError(1, "Operation not permitted")

    cores = Cores(refused)
    cores.gather()
    cores.gather()
    assert (len(looks), cores.checks, cores.apart) == (1, 0, 0)
    (warning,) = cores.warnings
    assert warning.values == {"reason": "Operation not permitted"}


def test_distances_seen_before_a_refusal_are_reported():
    host = Host((0, 1000))

    def until_refused():
        if host.now_s > 100:
            raise PermissionError(1, "Operation not permitted")
        return host.distance()

    cores = Cores(until_refused, lambda: host.now_s, host.nap)
    assert not cores.gather()
    host.now_s = 101
    assert cores.gather()
    unknown, disturbed = cores.warnings
    assert unknown.values == {"reason": "Operation not permitted"}
    assert disturbed.values["share"] == 1.0


def test_looking_takes_a_hundredth_of_the_time():
    host = Host()
    cores = host.cores()
    cores.gather()
    while host.now_s < 100:
        host.now_s += 0.01
        cores.gather()
    assert host.looks * LOOK_S == pytest.approx(1, rel=0.1)


def test_only_cores_that_a_hypervisor_moves_are_watched(server, monkeypatch):
    asked = []
    monkeypatch.setattr(
        "dlbricks_core.machine.cores.distance", lambda *pair: asked.append(pair[:2]) or NEAR
    )
    Cores.of(2, server.machine(0, 1, 2, 3)).gather()
    server.virtual()
    Cores.of(1, server.machine(0, 1, 2, 3)).gather()
    Cores.of(2, server.machine(0)).gather()
    Cores.of(2, server.machine(0, 2)).gather()  # threads of one core
    assert asked == []

    def watched(threads):
        asked.clear()
        Cores.of(threads, server.machine(0, 1, 2, 3)).gather()
        return {other for _, other in asked}

    assert (watched(2), watched(3), watched(9)) == ({1}, {1, 3}, {1, 3})
    shared = "cpu0/cache/index2/shared_cpu_list"
    server.write(f"{CPUS}/{shared}", "0,2-3")
    assert (watched(2), watched(9)) == ({3}, {3})  # CPU 1 is meant to be apart
    server.write(f"{CPUS}/{shared}", "0,2")
    assert (watched(2), watched(9)) == ({1}, {1, 3})  # nothing is known


def test_the_farthest_of_several_cores_counts(server, monkeypatch):
    found = {1: NEAR, 3: FAR}
    monkeypatch.setattr("dlbricks_core.machine.cores.distance", lambda _, other, __: found[other])
    look = watched(3, server.virtual().machine(0, 1, 2, 3))
    assert look is not None
    assert look() == FAR


def test_each_part_of_the_memory_is_read_once():
    memory = Memory(2**20)
    parts = [memory.next() for _ in range(16)]
    assert {part.nbytes for part in parts} == {2**16}
    places = [part.__array_interface__["data"][0] for part in parts]
    assert len(set(places)) == 16
    assert places != sorted(places)
    assert memory.next() is parts[0]
    assert Memory(1).next().nbytes == 2**16


@pytest.mark.skipif(len(MachineState().cpus) < 2, reason="takes two CPUs")
def test_the_distance_of_real_cores_is_plausible():
    allowed = os.sched_getaffinity(0)
    one, other = sorted(allowed)[:2]
    memory = Memory(2**26)
    assert 0.1 < distance(one, other, memory) < 100
    with pytest.raises(OSError, match="Invalid argument"):
        distance(one, 10**5, memory)
    assert os.sched_getaffinity(0) == allowed
