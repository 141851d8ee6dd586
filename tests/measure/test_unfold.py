"""Layers that read only weights: folded in canonical form, put back where they run each time."""

from __future__ import annotations

from dataclasses import replace

import pytest
from dlbricks_testing import cases

from dlbricks_core.backends import Traits
from dlbricks_core.compose.options import CutOptions
from dlbricks_core.ir import to_onnx
from dlbricks_core.measure.cutting import cut_models
from dlbricks_core.measure.rewrites import unfolded
from dlbricks_core.passes import normalize
from dlbricks_core.passes.convert import convert
from dlbricks_core.progress import Observer
from dlbricks_core.values import materialize

SCALED = (
    "(float[2,100] x, int8[100,100] w1, float[100] w2) => (y)"
    "{ a = Cast<to=1>(w1) b = Mul(a, w2) t = Transpose(b) c = Relu(x) y = MatMul(c, t) }"
)


def ops(model):
    return [layer.op for layer in model.layers]


@pytest.fixture(scope="module")
def scaled():
    return cases.build(SCALED).model


def test_work_on_weights_is_folded_and_put_back_before_its_first_reader(scaled):
    assert ops(scaled) == ["Relu", "MatMul"]
    found = unfolded(scaled)
    assert ops(found) == ["Relu", "Cast", "Mul", "Transpose", "MatMul"]
    assert found.weights == {"w1", "w2"}
    assert found.weight_bytes < scaled.weight_bytes
    assert unfolded(found) is found


def test_it_computes_the_same_and_stays_when_read_again(scaled):
    found = unfolded(scaled)
    values = materialize(found, seed=0)
    assert ops(normalize(found.as_raw())) == ops(scaled)
    assert values.weights.keys() == found.weights
    assert [node.op_type for node in to_onnx(found, values.weights).graph.node] == ops(found)


@pytest.mark.parametrize(
    "text",
    [
        "(float[2,100] x, float[100,100] w1) => (y) { t = Transpose(w1) y = MatMul(x, t) }",
        "(float[2,100] x) => (y) { s = Constant<value_ints=[100, 100]>() w = ConstantOfShape(s)"
        " y = MatMul(x, w) }",
    ],
    ids=["another arrangement", "a weight that no file holds"],
)
def test_what_is_no_work_in_each_run_stays_folded(text):
    model = cases.build(text).model
    assert unfolded(model) is model
    assert ops(model) == ["MatMul"]


def test_a_converted_model_has_other_weights(scaled):
    assert convert(scaled, "float16").folded is None


@pytest.mark.parametrize(("folds", "layers"), [(True, 2), (False, 5)])
def test_the_backend_says_what_is_cut(scaled, asked, monkeypatch, folds, layers):
    traits = replace(asked.backend.traits, folds_weights=folds)
    monkeypatch.setattr(type(asked.backend), "traits", traits, raising=False)
    cutting = cut_models([scaled], CutOptions.chosen(1, None, None), asked, Observer())
    assert len(cutting.brickset.models[0].model.layers) == layers


def test_by_default_a_graph_is_optimized():
    assert Traits().folds_weights
