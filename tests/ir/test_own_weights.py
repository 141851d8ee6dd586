"""Weights of a file: their own values where they are at hand, and a look at them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from dlbricks_core.backends.host import _with_own_weights
from dlbricks_core.importers.onnx import OnnxImporter
from dlbricks_core.ir.own_weights import denormal_share, own_weights
from dlbricks_core.passes import normalize
from dlbricks_core.passes.convert import convert

WEIGHT = np.random.default_rng(0).normal(size=(100, 100)).astype(np.float32)


def written(path, weight, external=False):
    """A file with a layer, and the model in it."""
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 100])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 100])],
        [numpy_helper.from_array(weight, "w")],
    )  # fmt: skip
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(proto, path, save_as_external_data=external, size_threshold=0)
    return normalize(OnnxImporter().load(path))


@pytest.mark.parametrize("external", [False, True])
def test_a_whole_model_runs_with_the_weights_of_its_file(tmp_path, external):
    model = written(tmp_path / "m.onnx", WEIGHT, external)
    np.testing.assert_array_equal(own_weights(model)["w"], WEIGHT)
    network = _with_own_weights(model, 0)
    np.testing.assert_array_equal(network.weights["w"], WEIGHT)
    assert network.inputs["x"].shape == (2, 100)


def test_what_the_file_does_not_hold_is_drawn(tmp_path):
    model = written(tmp_path / "m.onnx", WEIGHT)
    for other in (replace(model, source="onnx:m"), convert(model, "float16")):
        assert own_weights(other) == {}
        assert _with_own_weights(other, 0).weights["w"].shape == (100, 100)


@pytest.mark.parametrize(("dtype", "scale"), [(np.float32, 1e-39), (np.float64, 1e-309)])
def test_denormal_numbers_are_seen(tmp_path, dtype, scale):
    weight = WEIGHT.astype(np.float64)
    weight[:, ::2] *= scale
    path = tmp_path / "m.onnx"
    usual = numpy_helper.from_array(WEIGHT.astype(dtype), "w")
    graph = helper.make_graph(
        [], "g", [], [], [usual, numpy_helper.from_array(weight.astype(dtype), "v")]
    )
    onnx.save(helper.make_model(graph), path)
    assert 0.2 < denormal_share(str(path)) < 0.3


def test_ordinary_weights_zeros_and_other_sources_have_none(tmp_path):
    written(tmp_path / "m.onnx", np.where(WEIGHT > 0, WEIGHT, 0).astype(np.float32))
    assert denormal_share(str(tmp_path / "m.onnx")) == 0
    # In float16, some of them are below the least usual number.
    small = numpy_helper.from_array((WEIGHT / 100).astype(np.float16), "w")
    onnx.save(helper.make_model(helper.make_graph([], "g", [], [], [small])), tmp_path / "h.onnx")
    assert denormal_share(str(tmp_path / "h.onnx")) == 0
    assert denormal_share("torch:m:f") == denormal_share(str(tmp_path / "none.onnx")) == 0
    (tmp_path / "bad.onnx").write_bytes(b"\x3a\xff\xff\xff")
    assert denormal_share(str(tmp_path / "bad.onnx")) == 0
