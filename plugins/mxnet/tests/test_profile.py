"""MXNet's profile of a whole model, from a worker as in a run.

MXNet's profiler waits for ever now and then in a process that runs other frameworks as well. A
worker has MXNet alone, and a limit on its time.
"""

from __future__ import annotations

import os

import pytest
from dlbricks_mxnet.backend import MxnetBackend
from dlbricks_mxnet.events import times
from dlbricks_mxnet.profile import _one_by_one, profile, timeline
from dlbricks_testing.cases import network as network_of

from dlbricks_core.backends import BackendSettings
from dlbricks_core.errors import UnsupportedError
from dlbricks_core.importers.light import LightModels
from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec
from dlbricks_core.measure.worker import BackendWorker, WorkerSettings
from dlbricks_core.passes import normalize

TARGET = "dlbricks_mxnet.backend:MxnetBackend"
TRIES = 5
"""Other work on the machine disturbs some of them."""


@pytest.fixture(scope="module")
def timing():
    """A worker that times with one thread."""
    with BackendWorker(TARGET, MxnetBackend(), WorkerSettings(BackendSettings(1))) as started:
        yield started


def test_every_layer_has_a_profile_and_their_sum_is_a_run(timing):
    model = normalize(LightModels().load("light_squeezenet"))
    latency_ms = timing.load("squeezenet", model)

    def adds_up():
        profile = timing.profile(model, 6, latency_ms)
        assert [each.outputs for each in profile.layers] == [each.outputs for each in model.layers]
        assert all(each.ms > 0 for each in profile.layers)
        plain = min(timing.sample("squeezenet", 6, warm_io=False))
        return all(0.5 < profile.sum_ms / run < 2 for run in (profile.run_ms, plain))

    assert any(adds_up() for _ in range(TRIES))


def test_the_time_is_where_the_work_is_each_time_anew(timing):
    big, small = TensorSpec("float32", (256, 1024)), TensorSpec("float32", (1024, 1024))
    layers = (
        Layer("Sigmoid", ("x",), ("a",)),
        Layer("MatMul", ("a", "w"), ("b",)),
        Layer("Relu", ("b",), ("y",)),
    )
    specs = {"w": small, **dict.fromkeys(("x", "a", "b", "y"), big)}
    model = CanonicalModel("work", layers, ("x",), ("y",), specs, frozenset({"w"}))
    for runs in (4, 7):
        profile = timing.profile(model, runs, 100.0)
        taken = {each.outputs[0]: each.ms for each in profile.layers}
        assert taken["b"] > 3 * max(taken["a"], taken["y"])
        assert min(taken.values()) > 0


@pytest.mark.parametrize("option", [{"executor": "symbol"}, {"engine": "threaded"}])
def test_what_cannot_be_told_apart_is_refused_before_anything_runs(option):
    network, settings = network_of("relu"), BackendSettings(1, option)
    with pytest.raises(UnsupportedError):
        profile(network, settings, 2)
    with pytest.raises(UnsupportedError):
        timeline(network, settings)


def test_later_executors_fuse_operators_as_before():
    before = dict(os.environ)
    with _one_by_one(BackendSettings(1)):
        assert os.environ["MXNET_EXEC_BULK_EXEC_INFERENCE"] == "0"
    assert dict(os.environ) == before


def test_two_disturbed_runs_of_seven_do_not_count():
    spans_us = [10, 12_000, 11, 10, 9_000, 11, 10]
    marks = [
        {"cat": "operator", "name": "relu", "ph": phase, "ts": when}
        for us in spans_us
        for phase, when in (("B", 0), ("E", us))
    ]
    (taken_ms,) = times(["relu"], marks, len(spans_us))
    assert 0.010 <= taken_ms <= 0.011
