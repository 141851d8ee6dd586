"""Models that ONNX Runtime optimizes before their session is made."""

import numpy as np
import onnxruntime as ort
import pytest
from dlbricks_onnxruntime import offline
from dlbricks_onnxruntime.timer import OnnxruntimeTimer

from dlbricks_core.backends import BackendSettings
from dlbricks_core.importers.light import LightModels
from dlbricks_core.passes import normalize
from dlbricks_core.values import materialize

SETTINGS = BackendSettings(1, {"optimizations": "all"})


@pytest.fixture
def opened(monkeypatch):
    """Models and options of the sessions that are made of optimized graphs."""
    calls = []
    session_of = offline.session_of

    def watched(proto, large, options):
        calls.append((proto, large, options))
        return session_of(proto, large, options)

    monkeypatch.setattr(offline, "session_of", watched)
    return calls


@pytest.fixture(scope="module")
def network():
    return materialize(normalize(LightModels().load("squeezenet")))


def outputs(network):
    timer = OnnxruntimeTimer(SETTINGS)
    loaded = timer.load(network)
    timer.run(loaded)
    return timer.outputs(loaded)


def test_a_small_model_runs_the_graph_that_was_optimized(network, opened, monkeypatch):
    found = outputs(network)
    ((proto, large, options),) = opened
    assert options.graph_optimization_level == ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    assert {node.domain for node in proto.graph.node} >= {"com.microsoft.nchwc"}
    assert len(proto.SerializeToString()) < 100_000 < sum(a.nbytes for _, a in large.values())
    monkeypatch.setattr("dlbricks_onnxruntime.offline.WORTH_IT", 0)
    direct = outputs(network)
    assert len(opened) == 1
    assert found.keys() == direct.keys()
    for name, value in direct.items():
        np.testing.assert_array_equal(found[name], value)


def test_a_copy_is_made_in_the_same_way(network, opened):
    timer = OnnxruntimeTimer(SETTINGS)
    timer.load_copy(network, timer.load(network), private_cache_bytes=0)
    assert len(opened) == 2
