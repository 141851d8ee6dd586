"""In which layout feature maps reach the layers of a model."""

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from dlbricks_mxnet.backend import MxnetBackend
from dlbricks_mxnet.layouts import (
    LAST,
    PLAIN,
    UNKNOWN,
    blocks_of,
    comes_in_blocks,
    fed_layout,
)
from dlbricks_mxnet.rewrite import with_layouts

from dlbricks_core.backends import BackendSettings
from dlbricks_core.bricks import BrickSet, signature
from dlbricks_core.importers.light import LightModels
from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec
from dlbricks_core.measure.worker import BackendWorker, WorkerSettings
from dlbricks_core.passes import normalize
from dlbricks_core.values import materialize

MAP = TensorSpec("float32", (1, 16, 8, 8))
SETTINGS = BackendSettings(1, {"inputs": "found"})


def chain(*operators):
    names = ["x", *(f"t{i}" for i in range(len(operators)))]
    tensors = dict.fromkeys(names, MAP) | {"w": TensorSpec("float32", (16, 16, 1, 1))}
    layers = tuple(
        Layer(op, (before, "w") if op == "Conv" else (before,), (after,))
        for op, before, after in zip(operators, names, names[1:], strict=False)
    )
    return CanonicalModel("chain", layers, ("x",), (names[-1],), tensors, frozenset({"w"}))


def test_nobody_has_to_want_the_first_result():
    state, weight = TensorSpec("float32", (1, 2, 3)), TensorSpec("float32", (1, 12, 3))
    layer = Layer("LSTM", ("x", "w", "w"), ("", "h"), {"hidden_size": 3})
    tensors = {"x": TensorSpec("float32", (4, 2, 3)), "w": weight, "h": state}
    model = CanonicalModel("last", (layer,), ("x",), ("h",), tensors, frozenset("w"))
    assert MxnetBackend().rewrite(model, SETTINGS, 0).layers == model.layers


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
    found = MxnetBackend().rewrite(chain(*operators), SETTINGS, 0)
    assert {n for n, spec in found.tensors.items() if spec.layout == PLAIN} == set(plain.split())


_ACTIVATIONS = (
    *("Abs", "Celu", "Elu", "Exp", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Mish"),
    *("Relu", "Selu", "Sigmoid", "Softplus", "Softsign", "Sqrt", "Swish", "Tanh"),
)


def between_convolutions():
    """Models, as rewritten, in which an activation stands between two convolutions; by its name."""
    models = {act: chain("Conv", act, "Conv") for act in _ACTIVATIONS}
    convolution, gelu, again = models["Gelu"].layers
    gelu = replace(gelu, attributes={"approximate": "tanh"})
    models["Gelu by tanh"] = replace(models["Gelu"], layers=(convolution, gelu, again))
    return [(name, MxnetBackend().rewrite(model, SETTINGS, 0)) for name, model in models.items()]


def run_between_marks(*kinds):
    """Runs models twice; what oneDNN says of each second run stands between two marks."""
    timer = MxnetBackend().timer(SETTINGS)
    named = ((f"{make.__name__}:{name}", model) for make in kinds for name, model in make())
    for name, model in named:
        loaded = timer.load(materialize(model))
        for mark in ("first", name):  # weights are put in order in the first
            print("=" + mark, flush=True)
            timer.run(loaded)
            timer.synchronize(loaded)
            print("=", flush=True)


@pytest.fixture(scope="module")
def said_by_onednn(path_with):
    """What oneDNN says of models that functions of this module make, with their names, in order.

    It has to know from the start of its process that it is to say something.
    """
    kinds = (between_convolutions, convolutions, model_and_bricks)
    names = ", ".join(f"t.{make.__name__}" for make in kinds)
    run = f"import test_layouts as t; t.run_between_marks({names})"
    done = subprocess.run(
        [sys.executable, "-c", run],
        env={**os.environ, "DNNL_VERBOSE": "1", "PYTHONPATH": path_with(Path(__file__).parent)},
        check=True,
        capture_output=True,
        text=True,
    )
    marked = (part.partition("\n") for part in done.stdout.split("=")[1::2])
    said = {make.__name__: [] for make in kinds}
    for name, _, text in marked:
        if name != "first":
            made_by, _, own = name.partition(":")
            said[made_by].append((own, text))
    return said


def test_what_knows_blocks_is_what_onednn_puts_nothing_in_order_for(said_by_onednn):
    models = dict(between_convolutions())
    between = {
        name: text.split(",convolution,") for name, text in said_by_onednn["between_convolutions"]
    }
    assert between.keys() == models.keys()
    assert all(len(texts) == 3 for texts in between.values())
    keeping = {name for name, texts in between.items() if ",reorder," not in texts[1]}
    assert keeping == {name for name in models if models[name].tensors["t1"].layout != PLAIN}
    assert "Gelu" in keeping


def test_the_same_layer_on_another_layout_is_another_brick():
    found = MxnetBackend().rewrite(chain("Conv", "Relu", "Clip", "Relu"), SETTINGS, 0)
    assert signature(found, (1,)) != signature(found, (3,))
    model = chain("Conv", "Relu", "Clip", "Relu")
    assert signature(model, (1,)) == signature(model, (3,))


def test_without_looking_only_what_is_plain_is_known():
    settings = BackendSettings(1, {"inputs": "blocked"})
    found = MxnetBackend().rewrite(chain("Conv", "Relu", "Clip"), settings, 0)
    layouts = [found.tensors[name].layout for name in ("x", "t0", "t1", "t2")]
    assert layouts == [PLAIN, UNKNOWN, UNKNOWN, PLAIN]
    assert fed_layout(found, "t0") == UNKNOWN


def test_plain_inputs_are_a_setting():
    model = chain("Conv", "Clip")
    assert MxnetBackend().rewrite(model, BackendSettings(1, {"inputs": "plain"}), 0) is model


def test_what_crashes_on_blocks_is_fed_in_plain_order():
    def fed(operator):
        model = chain("Conv", operator, "Relu")
        tensors = {**model.tensors, "t0": replace(MAP, layout=LAST)}
        return fed_layout(replace(model, tensors=tensors), "t0")

    assert fed("Relu") == fed("MaxPool") == LAST
    assert fed("Softmax") == fed("LogSoftmax") == PLAIN


def joined(operator, *, last_reader=()):
    """Three convolutions, whose results a layer joins; others read them too."""
    names = ["a", "b", "c"]
    layers = [Layer("Conv", ("x", "w"), (name,)) for name in names]
    layers += [Layer(operator, tuple(names), ("y",)), Layer("Relu", ("y",), ("z",))]
    layers += [Layer("Relu", (name,), (name * 2,)) for name in last_reader]
    tensors = dict.fromkeys(["x", *names, "y", "z", "aa", "bb"], MAP)
    tensors["w"] = TensorSpec("float32", (16, 16, 1, 1))
    outputs = ("z", *(name * 2 for name in last_reader))
    return CanonicalModel("joined", tuple(layers), ("x",), outputs, tensors, frozenset("w"))


@pytest.mark.parametrize(
    ("operator", "others", "left", "expected"),
    [
        ("Sum", "", (PLAIN, blocks_of(4), LAST), PLAIN),
        ("Sum", "a", (PLAIN, blocks_of(4), LAST), blocks_of(4)),
        ("Sum", "ab", (PLAIN, blocks_of(4), LAST), LAST),
        ("Concat", "", (PLAIN, LAST, blocks_of(8)), blocks_of(8)),
        ("Concat", "", (LAST, PLAIN, PLAIN), LAST),
    ],
)
def test_what_joins_layouts_writes_one_of_them(operator, others, left, expected):
    model = joined(operator, last_reader=others)
    found = with_layouts(model, lambda _, index: left[index])
    assert found.tensors["y"].layout == found.tensors["z"].layout == expected


@pytest.mark.parametrize("kept", ["input", "output"])
def test_a_sum_does_not_take_the_place_of_what_is_not_its_own(kept):
    """The caller's inputs and outputs stay where they are."""
    convolution, add = Layer("Conv", ("x", "w"), ("b",)), Layer("Add", ("a", "b"), ("y",))
    before = () if kept == "input" else (Layer("Conv", ("x", "w"), ("a",)),)
    tensors = dict.fromkeys(["x", "a", "b", "y"], MAP) | {
        "w": TensorSpec("float32", (16, 16, 1, 1))
    }
    model = CanonicalModel(
        "sum",
        (*before, convolution, add),
        ("x", "a") if kept == "input" else ("x",),
        ("y",) if kept == "input" else ("y", "a"),
        tensors,
        frozenset("w"),
    )
    left = {"a": blocks_of(4), "b": LAST}
    found = with_layouts(model, lambda model, index: left[model.layers[index].outputs[0]])
    assert found.tensors["y"].layout == LAST


def test_a_map_of_one_pixel_is_plain():
    model = chain("Conv", "GlobalAveragePool", "Relu")
    one = TensorSpec("float32", (1, 16, 1, 1))
    model = replace(model, tensors={**model.tensors, "t1": one, "t2": one})
    found = with_layouts(model, lambda *_: LAST)
    assert [found.tensors[f"t{i}"].layout for i in range(3)] == [LAST, PLAIN, PLAIN]


def convolutions():
    """Convolutions, as rewritten, of few channels: one block, or along the last axis."""
    models = []
    for channels in (8, 16, 24):
        data, weight = (1, channels, 9, 9), (channels, channels, 1, 1)
        tensors = dict.fromkeys(("x", "t0"), TensorSpec("float32", data))
        tensors["w"] = TensorSpec("float32", weight)
        model = replace(chain("Conv"), tensors=tensors)
        models.append((str(channels), MxnetBackend().rewrite(model, SETTINGS, 0)))
    return models


def test_what_a_convolution_is_found_to_leave_is_what_onednn_says(said_by_onednn):
    said = {
        name: re.findall(r",convolution,.* dst_f32::blocked:(\w+):", text)
        for name, text in said_by_onednn["convolutions"]
    }
    found = {name: model.tensors["t0"].layout for name, model in convolutions()}
    assert said == {name: ["abcd" if n == PLAIN else n] for name, n in found.items()}


def kernels(text):
    """What oneDNN computed: operation, layouts and sizes; but for maps of one pixel."""
    lines = [line.split(",") for line in text.splitlines() if line.startswith("dnnl_verbose,exec")]
    ran = [(line[3], line[6], line[-2]) for line in lines]
    return [each for each in ran if not each[2].endswith("1x1")]


def model_and_bricks():
    """A network, and its bricks in order."""
    model = normalize(LightModels().load("light_shufflenet"))
    rewritten = {0: MxnetBackend().rewrite(model, SETTINGS, 0)}
    bricks = BrickSet.of([model], 128, "segments", rewritten)
    parts = [bricks.bricks[each.signature].model for each in bricks.models[0].occurrences]
    return [("whole", model), *(("brick", part) for part in parts)]


def test_bricks_run_the_kernels_of_the_model_on_the_layouts_of_the_model(said_by_onednn):
    (_, whole), *bricks = said_by_onednn["model_and_bricks"]
    assert len(kernels(whole)) > 100
    assert [kernel for _, text in bricks for kernel in kernels(text)] == kernels(whole)


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
    settings = WorkerSettings(SETTINGS)
    backend = MxnetBackend()
    with BackendWorker("dlbricks_mxnet.backend:MxnetBackend", backend, settings) as bench:
        assert bench.load("softmax", last) > 0
