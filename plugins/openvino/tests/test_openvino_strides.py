"""Strides that OpenVINO moves to earlier layers, and bricks whose ends have another layout."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from onnx import numpy_helper, parser

pytest.importorskip("openvino")

from dlbricks_openvino.backend import OpenvinoBackend
from dlbricks_openvino.executed import compiled_whole
from dlbricks_openvino.strides import with_early_strides

from dlbricks_core.backends import BackendSettings, Network
from dlbricks_core.ir import CanonicalModel, read_model
from dlbricks_core.passes import normalize
from dlbricks_core.values import materialize

SETTINGS = BackendSettings(1, {"precision": "model"})

POINT = "Conv <kernel_shape = [1, 1]>"
TWO = "<kernel_shape = [1, 1], strides = [2, 2]>"

#: Layers of each model, and the operators in front of which OpenVINO moves or leaves strides.
MODELS = {
    "two branches": f"""
        a = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x, w3)  b = Relu (a)
        c = {POINT} (b, w)  d = Add (c, x)  e = Relu (d)
        f = Conv {TWO} (e, w)  g = Conv {TWO} (e, u)  y = Add (f, g)""",
    "a reader of all points": f"""
        a = {POINT} (x, w)  e = Relu (a)
        f = Conv {TWO} (e, w)  g = GlobalAveragePool (e)  y = Add (f, g)""",
    "factors for channels": f"""
        a = {POINT} (x, w)  p = GlobalAveragePool (x)  m = Mul (a, p)  k = Mul (m, s)
        y = Conv {TWO} (k, w)""",
    "a result of the model": f"a = {POINT} (x, w)  z = Relu (a)  y = Conv {TWO} (z, w)",
    "groups": f"""
        a = Conv <kernel_shape = [1, 1], group = 4> (x, v)  e = Sigmoid (a)
        y = Conv {TWO} (e, w)""",
    "two strides": f"a = Conv {TWO} (x, w)  e = Relu (a)  y = Conv {TWO} (e, w)",
}


WEIGHTS = {"w": (8, 8, 1, 1), "u": (8, 8, 1, 1), "w3": (8, 8, 3, 3),
           "v": (8, 2, 1, 1), "s": (1, 8, 1, 1), "n": (8,)}  # fmt: skip


def model_of(layers: str, outputs: str = "float[1, 8, N, M] y") -> CanonicalModel:
    listed = layers.strip().replace("  ", "\n")
    proto = parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]>
        m (float[1, 8, 9, 9] x) => ({outputs}) {{ {listed} }}"""
    )
    rng = np.random.default_rng(0)
    proto.graph.initializer.extend(
        numpy_helper.from_array(rng.uniform(0.5, 1, sizes).astype(np.float32), name)
        for name, sizes in WEIGHTS.items()
    )
    return normalize(read_model(proto, name="m"))


def _kind(node: object) -> str:
    kind = str(node.get_rt_info()["layerType"].value)
    return "Conv" if kind in ("Convolution", "GroupConvolution") else kind


def executed(model: CanonicalModel, network: Network) -> tuple[Counter, list]:
    ready = compiled_whole(Network(model, network.weights, network.inputs), SETTINGS)
    shapes = Counter(
        (_kind(node), *node.get_output_shape(0))
        for node in ready.get_runtime_model().get_ordered_ops()
    )
    return shapes, list(ready(dict(network.inputs)).values())


@pytest.mark.parametrize("name", MODELS)
def test_strides_are_where_openvino_executes_them(name):
    outputs = "float[1, 8, N, M] y" + ", float[1, 8, 9, 9] z" * ("z =" in MODELS[name])
    model = model_of(MODELS[name], outputs)
    early = with_early_strides(model)
    network = materialize(model, 0)
    (before, results), (after, early_results) = (executed(each, network) for each in (model, early))
    assert before == after
    for one, other in zip(results, early_results, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)
    computed = Counter(early.tensors[e.outputs[0]].sizes for e in early.layers if e.op == "Conv")
    assert computed == {tuple(sizes): n for (kind, *sizes), n in before.items() if kind == "Conv"}


def test_the_convolution_before_a_sum_has_the_stride_behind_it():
    early = with_early_strides(model_of(MODELS["two branches"]))
    strides = [each.attributes["strides"] for each in early.layers if each.op == "Conv"]
    assert strides == [(2, 2), (1, 1), (1, 1), (1, 1)]
    (pool,) = (each for each in early.layers if each.op == "MaxPool")
    assert pool.inputs == ("x",)
    assert early.tensors[pool.outputs[0]].sizes == (1, 8, 5, 5)
    assert early.inputs == ("x",)
    assert early.outputs == ("y",)


def test_a_model_without_strides_behind_points_stays_as_it_is():
    model = model_of(MODELS["a result of the model"], "float[1, 8, 5, 5] y, float[1, 8, 9, 9] z")
    assert with_early_strides(model) is model


ENDS = {
    "BatchNormalization": "a = BatchNormalization (x, n, n, n, n)  b = Relu (a)  y = Conv (b, w)",
    "factors": f"a = Mul (x, s)  b = Add (a, s)  c = Clip (b)  y = {POINT} (c, w)",
    "every second point": f"""
        a = MaxPool {TWO} (x)  b = {POINT} (a, w)  y = Add (a, b)""",
    "several readers": f"a = Relu (x)  b = {POINT} (a, w)  y = Add (a, b)",
}


@pytest.mark.parametrize("name", ENDS)
def test_what_reads_an_input_in_another_layout_costs_no_further_layer(name):
    model = model_of(ENDS[name])
    network = materialize(model, 0)
    kept = {n: replace(spec, layout="acdb") for n, spec in model.tensors.items() if n in "xy"}
    marked = replace(model, tensors={**model.tensors, **kept})
    timer = OpenvinoBackend().timer(SETTINGS)
    found = []
    for each in (model, marked):
        loaded = timer.load(Network(each, network.weights, network.inputs))
        timer.run(loaded)
        found.append(timer.outputs(loaded)["y"])
    np.testing.assert_allclose(*found, rtol=1e-4, atol=1e-5)
    graph = loaded.request.get_compiled_model().get_runtime_model()
    kinds = Counter(_kind(node) for node in graph.get_ordered_ops())
    assert kinds["Conv"] == 1  # none with ones in front of the layer
