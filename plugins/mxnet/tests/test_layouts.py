"""In which layout feature maps reach the layers of a model."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from dlbricks_mxnet.backend import MxnetBackend
from dlbricks_mxnet.layouts import PLAIN, comes_in_blocks, fed_in_blocks

from dlbricks_core.backends import BackendSettings
from dlbricks_core.bricks import signature
from dlbricks_core.bricks.materialize import materialize
from dlbricks_core.ir import Layer, Model, TensorSpec
from dlbricks_core.measure.bench import Bench, BenchSettings

MAP = TensorSpec("float32", (1, 16, 8, 8))
SETTINGS = BackendSettings(1, {"inputs": "blocked"})


def chain(*operators):
    names = ["x", *(f"t{i}" for i in range(len(operators)))]
    tensors = dict.fromkeys(names, MAP) | {"w": TensorSpec("float32", (16, 16, 1, 1))}
    layers = tuple(
        Layer(op, (before, "w") if op == "Conv" else (before,), (after,))
        for op, before, after in zip(operators, names, names[1:], strict=False)
    )
    return Model("chain", layers, ("x",), (names[-1],), tensors, frozenset({"w"}))


def test_nobody_has_to_want_the_first_result():
    state, weight = TensorSpec("float32", (1, 2, 3)), TensorSpec("float32", (1, 12, 3))
    layer = Layer("LSTM", ("x", "w", "w"), ("", "h"), {"hidden_size": 3})
    tensors = {"x": TensorSpec("float32", (4, 2, 3)), "w": weight, "h": state}
    model = Model("last", (layer,), ("x",), ("h",), tensors, frozenset("w"))
    assert MxnetBackend().executed(model, SETTINGS, 0).layers == model.layers


@pytest.mark.parametrize(
    ("operators", "plain"),
    [
        (("Conv", "BatchNormalization", "Relu", "MaxPool"), "x"),
        (("Conv", "Clip", "Conv"), "x t1"),
        (("Conv", "Clip", "Relu"), "x t1 t2"),
        (("Relu", "Conv"), "x t0"),
    ],
)
def test_blocks_last_until_a_layer_does_not_know_them(operators, plain):
    found = MxnetBackend().executed(chain(*operators), SETTINGS, 0)
    assert {n for n, spec in found.tensors.items() if spec.layout == PLAIN} == set(plain.split())


_ACTIVATIONS = (
    *("Abs", "Celu", "Elu", "Exp", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Mish"),
    *("Relu", "Selu", "Sigmoid", "Softplus", "Softsign", "Sqrt", "Swish", "Tanh"),
)


def between_convolutions():
    """Models, as executed, in which an activation stands between two convolutions; by its name."""
    models = {act: chain("Conv", act, "Conv") for act in _ACTIVATIONS}
    convolution, gelu, again = models["Gelu"].layers
    gelu = replace(gelu, attributes={"approximate": "tanh"})
    models["Gelu by tanh"] = replace(models["Gelu"], layers=(convolution, gelu, again))
    return {name: MxnetBackend().executed(model, SETTINGS, 0) for name, model in models.items()}


def run_between_marks():
    """Runs these models; what oneDNN says of each run stands between two marks."""
    timer = MxnetBackend().timer(SETTINGS)
    for name, model in between_convolutions().items():
        loaded = timer.load(materialize(model))
        for _ in range(2):
            print("=" + name, flush=True)
            timer.run(loaded)
            timer.synchronize(loaded)
            print("=", flush=True)


def test_what_knows_blocks_is_what_onednn_puts_nothing_in_order_for():
    done = subprocess.run(
        [sys.executable, "-c", "import test_layouts; test_layouts.run_between_marks()"],
        env={**os.environ, "DNNL_VERBOSE": "1", "PYTHONPATH": str(Path(__file__).parent)},
        check=True,
        capture_output=True,
        text=True,
    )
    parts = (part.partition("\n") for part in done.stdout.split("="))
    ran = {name: text for name, _, text in parts if name}  # the second time, weights are reordered
    between = {name: text.split(",convolution,") for name, text in ran.items()}
    assert all(len(texts) == 3 for texts in between.values())
    keeping = {name for name, texts in between.items() if ",reorder," not in texts[1]}
    models = between_convolutions()
    assert keeping == {name for name in models if models[name].tensors["t1"].layout != PLAIN}
    assert "Gelu" in keeping


def test_the_same_layer_on_another_layout_is_another_brick():
    found = MxnetBackend().executed(chain("Conv", "Relu", "Clip", "Relu"), SETTINGS, 0)
    assert signature(found, (1,)) != signature(found, (3,))
    model = chain("Conv", "Relu", "Clip", "Relu")
    assert signature(model, (1,)) == signature(model, (3,))


def test_plain_inputs_are_a_setting():
    model = chain("Conv", "Clip")
    assert MxnetBackend().executed(model, BackendSettings(1, {"inputs": "plain"}), 0) is model


def test_what_crashes_on_blocks_is_fed_in_plain_order():
    def fed(operator):
        return fed_in_blocks(chain(operator, "Relu"), "x")

    assert fed("Relu")
    assert fed("MaxPool")
    assert not fed("Softmax")
    assert not fed("LogSoftmax")


def test_blocks_are_traced_back_to_a_convolution():
    model = chain("Conv", "Clip", "Reshape", "Clip")
    assert comes_in_blocks(model, "t1")
    assert not comes_in_blocks(model, "t3")
    assert not comes_in_blocks(model, "x")


def test_tracing_goes_through_each_layer_once():
    # Twice as many paths with every sum: walking along each of them would never end.
    doubled = chain(*("Clip",) * 60)
    sums = tuple(replace(layer, op="Add", inputs=layer.inputs * 2) for layer in doubled.layers)
    assert not comes_in_blocks(replace(doubled, layers=sums), doubled.outputs[0])


def test_a_softmax_over_the_last_axis_runs_alone():
    model = chain("Softmax")
    last = replace(model, layers=(replace(model.layers[0], attributes={"axis": 3}),))
    settings = BenchSettings(BackendSettings(1, {"inputs": "blocked"}))
    backend = MxnetBackend()
    with Bench("dlbricks_mxnet.backend:MxnetBackend", backend, settings) as bench:
        assert bench.load("softmax", last) > 0
