"""Watching the load beside samples, and waiting for a quiet machine."""

import os
import signal
import subprocess
import sys
from types import SimpleNamespace

import psutil
import pytest

from dlbricks_core.machine import load as module
from dlbricks_core.machine.load import (
    LONGEST_WAIT_S,
    LoadWatch,
    MachineLoad,
    descendants,
    wait_for_quiet,
)
from dlbricks_core.measure import measuring
from dlbricks_core.progress import Observer


def loaded(share, seconds=1.0, throttled=0.0):
    return MachineLoad(seconds, 2, others=2 * share, steal=0.0, throttled=throttled)


class Watched:
    """A watch that sees one load after another, the last one for ever."""

    def __init__(self, *loads):
        self.loads = list(loads)

    def lately(self):
        return self.loads.pop(0) if len(self.loads) > 1 else self.loads[0]


@pytest.fixture
def waited():
    said, naps = [], []

    def wait(*loads):
        seconds = wait_for_quiet(Watched(*loads), said.append, nap=naps.append)
        assert sum(naps) == seconds
        return seconds, said

    return wait


def test_a_quiet_machine_is_not_waited_for(waited):
    assert waited(loaded(0.05)) == (0.0, [])


@pytest.mark.parametrize(("seen_s", "more_s"), [(0.01, 0.49), (0.3, 0.2), (0.49, 0.1)])
def test_a_first_look_spans_half_a_second_with_what_was_seen_before(waited, seen_s, more_s):
    seconds, said = waited(loaded(1.0, seconds=seen_s), loaded(0.05))
    assert seconds == pytest.approx(more_s)
    assert said == []


def test_a_busy_machine_is_waited_for_until_it_is_quiet(waited):
    seconds, [said] = waited(*[loaded(0.5)] * 5, loaded(0.0))
    assert seconds == 2.5
    assert "other programs use 50% of the CPUs" in said
    assert "60 s at most" in said


def test_a_machine_that_stays_busy_is_waited_for_a_minute(waited):
    seconds, said = waited(loaded(0.5))
    assert seconds == LONGEST_WAIT_S
    assert len(said) == 2
    assert "still busy" in said[1]


def test_an_unknown_load_is_not_waited_for(waited):
    assert waited(MachineLoad(1.0, 2, None, None, 0.0)) == (0.0, [])


@pytest.mark.process
def test_own_processes_are_those_that_psutil_finds():
    inner = "print(1, flush=True); import time; time.sleep(60)"
    outer = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}])"
    with subprocess.Popen(
        [sys.executable, "-c", outer], stdout=subprocess.PIPE, start_new_session=True
    ) as started:
        started.stdout.readline()
        found = sorted(descendants(started.pid))
        known = sorted(each.pid for each in psutil.Process(started.pid).children(recursive=True))
        among = set(descendants(os.getpid()))
        os.killpg(started.pid, signal.SIGKILL)
    assert found == known
    assert len(found) == 1
    assert among >= {started.pid, *found}


@pytest.mark.parametrize(
    ("found", "flags"),
    [
        (loaded(0.1), ()),
        (loaded(0.11), ("others-used-cpus",)),
        (MachineLoad(1.0, 2, 0.1, 0.2, 0.0), ("others-used-cpus",)),
        (loaded(0.0, throttled=0.1), ("quota-stopped-container",)),
        (MachineLoad(1.0, 2, None, None, 0.0), ()),
    ],
)
def test_what_marks_samples(found, flags):
    assert found.flags == flags


@pytest.fixture
def watch(monkeypatch):
    """A watch on a machine with a clock of its own, on which others use a given share."""
    clock = SimpleNamespace(now=0.0, used=0.0, reads=0)

    def read(self):
        clock.reads += 1
        used = module._Used(busy=clock.used, own=0.0, steal=0.0)
        return module._Reading(clock.now, used, 0.0)

    monkeypatch.setenv(module.FOLDER, "somewhere")
    monkeypatch.setattr(LoadWatch, "_read", read)
    monkeypatch.setattr(module.time, "perf_counter", lambda: clock.now)
    found = LoadWatch(SimpleNamespace(cpus=frozenset({0, 1})))

    def passes(seconds, share):
        clock.now += seconds
        clock.used += 2 * share * seconds
        return found.lately()

    return passes, clock


def test_a_watch_sees_the_last_half_second(watch):
    passes, _ = watch
    for _ in range(20):
        assert passes(0.1, 0.0).share == 0.0
    for _ in range(6):
        found = passes(0.1, 0.8)
    assert found.share == pytest.approx(0.8)
    assert 0.5 <= found.seconds < 0.7
    for _ in range(6):
        found = passes(0.1, 0.0)
    assert found.share == pytest.approx(0.0)


def test_a_watch_sees_all_of_a_long_run(watch):
    passes, _ = watch
    passes(0.6, 0.0)
    found = passes(10.0, 0.3)
    assert (found.seconds, found.share) == (pytest.approx(10.0), pytest.approx(0.3))


def test_a_watch_reads_ten_times_a_second_at_most(watch):
    passes, clock = watch
    for _ in range(1000):
        passes(0.001, 0.5)
    assert clock.reads <= 12


def test_nobody_looks_where_measurements_do_not_wait_for_each_other(watch, monkeypatch):
    passes, _ = watch
    monkeypatch.setenv(module.FOLDER, "")
    assert passes(1.0, 0.9).share == 0.0


def test_a_turn_waits_once_unless_the_user_accepts_a_busy_machine(monkeypatch):
    waits = []
    monkeypatch.setattr(measuring, "alone_by_turns", lambda: True)
    monkeypatch.setattr(measuring, "wait_for_quiet", lambda *_: waits.append(1) or 3.0)
    asked = SimpleNamespace(accepts_busy=False)
    accepts = SimpleNamespace(accepts_busy=True)
    for number in (1, 2):
        with module.measurement_lock():
            assert measuring.settle(None, accepts, Observer()) == 0.0
            assert measuring.settle(None, asked, Observer()) == 3.0
            with module.measurement_lock():
                assert measuring.settle(None, asked, Observer()) == 0.0
        assert len(waits) == number
