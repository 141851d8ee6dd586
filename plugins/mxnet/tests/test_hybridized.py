"""Profiles of hybridized blocks, in the process and with the graph that a user runs."""

from __future__ import annotations

import pytest
from dlbricks_mxnet import events, hybridized, users
from dlbricks_mxnet.backend import MxnetBackend
from dlbricks_mxnet.export_graph import unique_names
from dlbricks_mxnet.framework import import_mxnet
from dlbricks_mxnet.importer import MxnetImporter
from dlbricks_mxnet.zoo import GluonZoo

from dlbricks_core.backends import BackendSettings
from dlbricks_core.backends.burst import Burst
from dlbricks_core.errors import BackendError
from dlbricks_core.importers import ImportOptions
from dlbricks_core.measure.worker import BackendWorker, WorkerSettings
from dlbricks_core.passes import normalize
from dlbricks_core.values import materialize

mx = import_mxnet()

TARGET = "dlbricks_mxnet.backend:MxnetBackend"
SETTINGS = BackendSettings(1)
TRIES = 20
"""Other work on the machine disturbs some of them."""


@pytest.fixture(scope="module")
def running():
    """A worker that runs whole models as MXNet's users do."""
    settings = WorkerSettings(SETTINGS, keeps_memory=False, warm=False, as_used=True)
    with BackendWorker(TARGET, MxnetBackend(), settings) as started:
        yield started


@pytest.fixture
def branches(tmp_path):
    """A file of a network with two branches, a large one before a small one."""
    data = mx.sym.var("data", shape=(1, 32, 64, 64))
    ends = [
        mx.sym.relu(
            mx.sym.Convolution(data, kernel=(3, 3), num_filter=filters, name=f"{name}_conv"),
            name=f"{name}_relu",
        )
        for name, filters in (("large", 256), ("small", 1))
    ]
    symbol = mx.sym.concat(*ends, dim=1, name="joined")
    shapes, _, _ = symbol.infer_shape()
    weights = dict(zip(symbol.list_arguments(), shapes, strict=True))
    del weights["data"]
    path = tmp_path / "net-symbol.json"
    symbol.save(str(path))
    arrays = {f"arg:{name}": mx.nd.ones(shape) for name, shape in weights.items()}
    mx.nd.save(str(tmp_path / "net-0000.params"), arrays)
    return normalize(MxnetImporter().load(path, ImportOptions()))


def run(worker, model):
    return worker.run_whole(model, Burst(3, 2, 2, 0.0), as_used=True)


def test_the_run_of_a_user_tells_every_layer_and_they_add_up(running):
    model = normalize(GluonZoo().load("squeezenet1.1"))

    def adds_up():
        profile = run(running, model).profile
        told = {name for each in profile.layers for name in each.outputs}
        assert told == {layer.outputs[0] for layer in model.layers}
        return 0.7 < profile.sum_ms / profile.run_ms <= 1

    # A second block of a kind in a process has other names in Gluon unless they begin anew.
    assert adds_up() or any(adds_up() for _ in range(TRIES))
    assert any(adds_up() for _ in range(TRIES))


def test_branches_keep_their_order_though_the_engine_could_swap_them(running, branches):
    profile = run(running, branches).profile
    taken = {each.outputs[0]: each.ms for each in profile.layers}
    assert list(taken) == ["large_conv", "large_relu", "small_conv", "small_relu", "joined"]
    assert taken["large_conv"] > 3 * taken["small_conv"]
    assert taken["large_relu"] > taken["small_relu"]


def test_only_results_that_the_next_operator_does_not_read_are_awaited():
    a = mx.sym.relu(mx.sym.var("x"), name="a")
    b, c = mx.sym.relu(a, name="b"), mx.sym.split(a, num_outputs=2, axis=0, name="c")
    symbol = unique_names(mx.sym.Group([b, mx.sym.relu(c[0], name="d"), c[1]]))
    ends = hybridized._ends(hybridized._nodes(symbol))
    assert ends == {"b"}
    awaited = hybridized._results(symbol, frozenset({"b", "c"}))
    assert {b"b_output", b"b_0", b"c_output0", b"c_output1", b"c_1"} <= awaited
    assert not any(name.startswith((b"a_", b"d_")) for name in awaited)


def test_another_order_gives_no_profile_and_the_block_runs(monkeypatch, branches):
    def swapped(run, further):
        run()
        return [], [1.0]

    monkeypatch.setattr(hybridized, "traced", swapped)
    inputs = materialize(branches, 0, without=branches.weights).inputs
    opened = users.open_block(branches, inputs, SETTINGS, 3)
    assert opened.profile is None
    assert opened.run().shape == (1, 257, 62, 62)


def test_operators_in_another_order_are_refused():
    told = [
        {"cat": "operator", "name": name, "ph": phase, "ts": 1}
        for name in ("relu", "Pooling")
        for phase in "BE"
    ]
    with pytest.raises(BackendError, match="in their order"):
        events.times(["Pooling", "relu"], told, 1)
    assert events.times(["relu", "Pooling"], told, 1) == [0.0, 0.0]


def test_weights_of_the_zoo_are_drawn_quickly():
    model = normalize(GluonZoo().load("vgg11"))
    parameters = users._block(model).collect_params()
    dense = parameters["vgg0_dense0_weight"]
    assert dense.init is None  # not that of the zoo, which draws normal numbers
    drawn = mx.nd.zeros((64, 600))
    users._WEIGHTS(mx.init.InitDesc("a_weight"), drawn)
    assert drawn.asnumpy().var() == pytest.approx(2 / 600, rel=0.05)
