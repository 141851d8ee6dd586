"""Structures of models in a suite: cut as their models are, and without values of weights."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from dlbricks_suite.folder import read_suite
from dlbricks_suite.writing import generate

from dlbricks_core.bricks import BrickSet
from dlbricks_core.compose.options import CutOptions
from dlbricks_core.ir import read_model
from dlbricks_core.passes import normalize
from dlbricks_core.progress import Observer

pytestmark = pytest.mark.process

CHAIN = """<ir_version: 8, opset_import: ["" : 17]>
chain (float[2, 8] x) => (float[2, 8] y) { a = Relu(x)  b = Tanh(a)  y = Sigmoid(b) }"""


def model(text):
    return normalize(read_model(onnx.parser.parse_model(text), name="net"))


def structure_of(text, folder):
    """The structure that a suite of one model keeps."""
    generate([model(text)], None, folder, 0, Observer())
    (found,) = read_suite(folder).models
    return found


def test_a_structure_is_cut_as_its_model_is(tmp_path):
    read = structure_of(CHAIN, tmp_path / "suite")
    original = model(CHAIN)
    options = CutOptions.chosen(None, None, None)
    here, there = (
        BrickSet.of([each], options.granularity, options.strategy, rereading=True)
        for each in (original, read.model)
    )
    assert list(here.bricks) == list(there.bricks)
    assert here.models[0].counts == there.models[0].counts
    assert read.signature == here.models[0].whole.signature


def test_structures_hold_no_values_of_weights(tmp_path):
    text = """<ir_version: 8, opset_import: ["" : 17]>
    net (float[2, 4] x) => (float[2, 4] y)
    <float[4, 4] secret = {0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1.0,
                           1.125, 1.25, 1.375, 1.5, 1.625, 1.75, 1.875, 2.0},
     int8[4] hidden = {11, 22, 33, 44}, float[4] scale = {1.5, 2.5, 3.5, 4.5}>
    { a = MatMul(x, secret)  b = DequantizeLinear <axis = 0> (hidden, scale)  y = Add(a, b) }"""
    read = structure_of(text, tmp_path / "suite")
    (path,) = tmp_path.glob("suite/models/*.onnx")
    content = path.read_bytes()
    assert b"secret" not in content
    assert bytes([11, 22, 33, 44]) not in content
    for value in (0.625, 3.5):
        assert np.float32(value).tobytes() not in content
    assert not read.model.constants


def test_structures_say_which_layers_nobody_knows(tmp_path):
    text = """<ir_version: 8, opset_import: ["" : 17, "nowhere" : 1]>
    net (float[1, 8] x) => (float[1, 8] y, float[a] z) { y = Relu(x)  z = nowhere.Strange(x) }"""
    original = model(text)
    read = structure_of(text, tmp_path / "suite")
    assert [layer.opaque for layer in read.model.layers] == [
        layer.opaque for layer in original.layers
    ]
    assert any(layer.opaque for layer in read.model.layers)
