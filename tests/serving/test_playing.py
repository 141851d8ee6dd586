"""Instances that run networks at the same time, with a real framework."""

from contextlib import ExitStack
from dataclasses import replace

import numpy as np
import psutil
import pytest
from dlbricks_serving.contention import Instance, passes, play_together, take_slices
from dlbricks_serving.core_sets import core_sets

from dlbricks_core.backends import BackendSettings
from dlbricks_core.errors import BackendError
from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec
from dlbricks_core.measure.worker import WorkerSettings
from dlbricks_core.plugins import find

pytestmark = pytest.mark.process


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
        Instance(plugin.target, plugin.loaded(), SETTINGS, cpus) for cpus in core_sets(2, threads=1)
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
    assert affinities == [list(cpus) for cpus in core_sets(2, threads=1)]


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


def test_slices_hold_samples_of_the_first_instance_and_passes_of_all(instances, monkeypatch):
    played = []

    def remembered(*arguments):
        played.append(play_together(*arguments))
        return played[-1]

    monkeypatch.setattr(passes, "_SHORTEST_S", 0.8)
    monkeypatch.setattr(passes, "play_together", remembered)
    found = list(take_slices(instances, ["relu", "tanh", "relu"], 2))
    assert len(found) == 2
    for each, bare in zip(found, played[1::2], strict=True):
        assert each.bricks_ms.keys() == {"relu", "tanh"}
        assert len(each.bricks_ms["relu"]) == 2 * len(each.bricks_ms["tanh"]) > 0
        assert 0 < each.call_ms < np.median(each.bricks_ms["tanh"])
        assert each.spent_s > 0
        kept = set(each.passes_ms)
        assert all(kept & set(instance.passes_ms.tolist()) for instance in bare)


def test_a_call_costs_no_more_than_the_cheapest_brick(instances, monkeypatch):
    # After many bricks, the networks that show the cost find less in the caches than bricks.
    monkeypatch.setattr(passes, "_SHORTEST_S", 0.8)
    monkeypatch.setattr(passes, "start_of_a_line", lambda calls_ms: 1e3)
    (found,) = take_slices(instances[:1], ["relu", "tanh"], 1)
    assert found.call_ms == pytest.approx(passes.faster_half(found.bricks_ms["relu"]), rel=0.5)


def test_instances_that_end_no_pass_are_an_error(instances, monkeypatch):
    for name in ("_SHORTEST_S", "_LONGEST_S", "_AT_LEAST"):
        monkeypatch.setattr(passes, name, 0)
    with pytest.raises(BackendError, match="no pass over the bricks ended"):
        list(take_slices(instances[:1], ["tanh"], 1))


def test_a_slice_without_a_processor_is_taken_again_for_longer(instances, monkeypatch):
    asked = []

    def at_first_without(*arguments):
        asked.append(arguments[2])
        found = play_together(*arguments)
        if len(asked) > 2:
            return found
        return [replace(each, ms=each.ms[:0], begins_s=each.begins_s[:0]) for each in found]

    monkeypatch.setattr(passes, "_SHORTEST_S", 0.8)
    monkeypatch.setattr(passes, "play_together", at_first_without)
    (found,) = take_slices(instances[:1], ["relu"], 1)
    assert found.passes_ms
    assert asked == [0.1, 0.1, 0.4, 0.4]


def test_an_instance_that_breaks_beside_others_ends_the_slice(faulty):
    with ExitStack() as opened:
        workers = [
            opened.enter_context(Instance(faulty.TARGET, faulty.FaultyBackend(), SETTINGS, cpus))
            for cpus in core_sets(2, threads=1)
        ]
        workers[0].load("x", one("Relu"))
        workers[1].load("x", one("CrashLater", "faulty"))
        with pytest.raises(BackendError, match="SIGSEGV"):
            list(take_slices(workers, ["x"], 1))


def test_a_part_keeps_few_passes_of_a_network_that_passes_often(instances, monkeypatch):
    monkeypatch.setattr(passes, "_SHORTEST_S", 0.8)
    monkeypatch.setattr(passes, "_KEPT", 7)
    for part in take_slices(instances, ["relu"], 2):
        assert 1 < len(part.bricks_ms["relu"]) <= 7
        assert 1 < len(part.passes_ms) <= 7
