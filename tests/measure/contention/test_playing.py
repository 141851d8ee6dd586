"""Instances that run networks at the same time, with a real framework."""

import time

import numpy as np
import psutil
import pytest

from dlbricks_core.backends import BackendSettings
from dlbricks_core.errors import BackendError
from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec
from dlbricks_core.machine.places import places
from dlbricks_core.measure.contention import (
    SLICES,
    BrokenCompanyError,
    Company,
    Instance,
    passes,
    play_passes,
    play_together,
)
from dlbricks_core.measure.worker import WorkerSettings
from dlbricks_core.plugins import find


def one(op, domain="", shape=(3,)):
    spec = TensorSpec("float32", shape)
    layer = Layer(op, ("x",), ("y",), domain=domain)
    return CanonicalModel("one", (layer,), ("x",), ("y",), {"x": spec, "y": spec})


SETTINGS = WorkerSettings(BackendSettings(threads=1), timeout_s=20, memory_bytes=2**30)


@pytest.fixture(scope="module")
def instances():
    pytest.importorskip("onnxruntime")
    from dlbricks_core.backends import Backend

    plugin = find("backend", "onnxruntime", Backend)
    opened = [
        Instance(plugin.target, plugin.loaded(), SETTINGS, cpus) for cpus in places(2, threads=1)
    ]
    for each in opened:
        each.load("relu", one("Relu", shape=(64, 1024)))
        each.load("tanh", one("Tanh", shape=(64, 1024)))
    yield opened
    for each in opened:
        each.close()


def pid_of(instance):
    return instance._worker._pid


def test_instances_compute_at_the_same_time_on_cpus_of_their_own(instances):
    played = play_together(instances, [["relu", "tanh"]] * 2, seconds=0.3)
    begins = [each.begins_s for each in played]
    assert abs(begins[0][0] - begins[1][0]) < 0.1
    assert max(each[0] for each in begins) < min(each[-1] for each in begins)
    pids = [pid_of(each) for each in instances]
    affinities = [psutil.Process(pid).cpu_affinity() for pid in pids]
    assert affinities == [list(cpus) for cpus in places(2, threads=1)]


def test_a_pass_holds_each_network_as_often_as_it_occurs(instances):
    (played,) = play_together(instances[:1], [["relu", "tanh", "relu"]], seconds=0.2)
    assert played.ms.shape == (len(played.begins_s), 3)
    np.testing.assert_allclose(played.passes_ms, played.ms.sum(axis=1))
    relu, tanh, again = np.median(played.ms, axis=0)
    assert relu < tanh > again > 0
    # Whatever is around the timed runs takes time as well.
    assert (np.diff(played.begins_s) * 1e3 >= played.passes_ms[:-1]).all()


def test_a_pass_that_did_not_end_in_time_is_left_out(instances):
    (played,) = play_together(instances[:1], [["tanh"] * 2000], seconds=0.01)
    assert played.ms.shape == (0, 2000)


def test_instances_that_end_no_pass_are_an_error(instances, monkeypatch):
    for name in ("_SHORTEST_S", "_LONGEST_S", "_FEWEST"):
        monkeypatch.setattr(passes, name, 0)
    with pytest.raises(BackendError, match="no pass over the bricks ended"):
        play_passes(instances[:1], ["tanh"], "session", lambda: None)


def test_passes_of_all_instances_are_observed(instances, monkeypatch):
    monkeypatch.setattr(passes, "_SHORTEST_S", 0.4)
    done = []
    found = play_passes(instances, ["relu"], "session", lambda: done.append(1))
    assert len(done) == len(found) == SLICES
    assert [each.round for each in found] == list(range(SLICES))
    alone = play_together(instances[:1], [["relu"]], seconds=0.1)[0]
    assert len(found[0].values) > len(alone.ms)  # of two instances


def test_company_runs_until_it_is_told_to_stop(instances):
    first, other = instances
    process = psutil.Process(pid_of(other))

    def used_s():
        return process.cpu_times().user

    with Company([other], ["relu", "tanh"]) as company:
        before, begin = used_s(), time.monotonic()
        while used_s() < before + 0.2 and time.monotonic() < begin + 20:
            play_together([first], [["relu"]], seconds=0.1)
            company.check()
        assert used_s() >= before + 0.2
    after = used_s()
    play_together([first], [["relu"]], seconds=0.3)
    assert used_s() < after + 0.1


def test_company_that_breaks_says_why(faulty):
    def wait_for_the_end(instance):
        with Company([instance], ["bad"]) as company:
            while True:
                company.check()

    with Instance(faulty.TARGET, faulty.FaultyBackend(), SETTINGS, places(1, 1)[0]) as instance:
        instance.load("bad", one("CrashLater", "faulty"))
        with pytest.raises(BrokenCompanyError, match=r"beside it failed.*SIGSEGV"):
            wait_for_the_end(instance)


def test_nobody_plays_in_empty_company():
    with Company([], []) as company:
        company.check()
