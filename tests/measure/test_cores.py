"""Cores that a hypervisor moves apart are waited for, but not for ever."""

import os

import pytest

from dlbricks_core.measure.cores import Cores, distance
from dlbricks_core.measure.machine import Machine

NEAR, FAR, LOOK_S = 1.5, 5.0, 0.002


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


def test_they_are_waited_for():
    host = Host((0, 0.2), (1, 1.7))
    cores = host.cores()
    cores.gather()
    assert (cores.apart, cores.waited_s) == (0, 0)
    host.now_s = 1.2
    cores.gather()
    assert 1.7 <= host.now_s < 1.8
    assert (cores.checks, cores.apart) == (2, 0)
    assert cores.waited_s == pytest.approx(0.5, abs=0.05)
    assert cores.warnings == ()


def test_waiting_ends_and_is_reported():
    host = Host((1, 1000))
    cores = host.cores()
    cores.gather()
    waits = []
    for _ in range(400):
        host.now_s += 0.5
        begin = host.now_s
        cores.gather()
        waits.append(host.now_s - begin)
    assert waits[0] == pytest.approx(2, abs=0.1)
    assert 0.08 < sum(waits) / host.now_s < 0.15
    (warning,) = cores.warnings
    assert "100% of the time" in warning
    assert "3.3 times as late" in warning


def test_what_was_never_near_is_not_waited_for():
    host = Host((0, 1000))
    cores = host.cores()
    for _ in range(100):
        cores.gather()
        host.now_s += 1
    assert (cores.checks, cores.apart, cores.waited_s, cores.warnings) == (100, 0, 0, ())


def test_a_system_that_lets_nobody_look_is_named():
    looks = []

    def refused():
        looks.append(1)
        raise PermissionError(1, "Operation not permitted")

    cores = Cores(refused)
    cores.gather()
    cores.gather()
    assert (len(looks), cores.checks, cores.apart) == (1, 0, 0)
    (warning,) = cores.warnings
    assert "Operation not permitted" in warning


def test_looking_takes_a_hundredth_of_the_time():
    host = Host()
    cores = host.cores()
    cores.gather()
    learned, begin = host.looks, host.now_s
    while host.now_s < begin + 100:
        host.now_s += 0.01
        cores.gather()
    assert (host.looks - learned) * LOOK_S == pytest.approx(1, rel=0.1)


def virtual(server):
    text = (server.root / "proc/cpuinfo").read_text()
    return server.write("proc/cpuinfo", text.replace("fpu", "fpu hypervisor"))


def test_only_cores_that_a_hypervisor_moves_are_watched(server, monkeypatch):
    asked = []
    monkeypatch.setattr(
        "dlbricks_core.measure.cores.distance", lambda *pair: asked.append(pair) or NEAR
    )
    Cores.of(2, server.machine(0, 1, 2, 3)).gather()
    virtual(server)
    Cores.of(1, server.machine(0, 1, 2, 3)).gather()
    Cores.of(2, server.machine(0)).gather()
    Cores.of(2, server.machine(0, 2)).gather()  # threads of one core
    assert asked == []
    for threads, others in ((2, {1}), (3, {1, 3}), (9, {1, 3})):
        Cores.of(threads, server.machine(0, 1, 2, 3)).gather()
        assert set(asked) == {(0, other) for other in others}
        asked.clear()


@pytest.mark.skipif(len(Machine().cpus) < 2, reason="takes two CPUs")
def test_the_distance_of_real_cores():
    allowed = os.sched_getaffinity(0)
    one, other = sorted(allowed)[:2]
    assert distance(one, other) > 0.5
    with pytest.raises(OSError, match="Invalid argument"):
        distance(one, 10**5)
    assert os.sched_getaffinity(0) == allowed
