"""Features are numbers, whatever a model may hold."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from dlbricks_prediction.baseline import Processor, expected_ms
from dlbricks_prediction.features import NAMES, Features
from dlbricks_testing import cases
from onnx.backend.test.case.node import collect_testcases

from dlbricks_core.errors import DLBricksError
from dlbricks_core.facts import System
from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec, read_model
from dlbricks_core.passes import normalize


def sound(model):
    """Checks that features are numbers, and that the baseline makes a time of each layer."""
    for found in (Features.of(model), Features.of_ends(model)):
        assert found.numbers.shape == (len(found.kinds), len(NAMES))
        assert np.isfinite(found.numbers).all(), (model.name, found.kinds)
        assert (found.numbers >= 0).all(), (model.name, found.kinds)
        expected = expected_ms(found, Processor.of(System(), 1))
        assert np.isfinite(np.log(expected)).all(), (model.name, found.kinds)


@pytest.mark.parametrize("name", [*cases.COMMON, *cases.UNCOMMON, *cases.REWRITTEN])
def test_every_case_of_the_suite_has_features(name):
    sound(cases.network(name).model)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_every_operator_has_features_whatever_is_unknown():
    """Parameters are inputs here: many layers are opaque, and sizes are left open."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [case for case in collect_testcases(None) if "_expanded" not in case.name]
    models = 0
    for case in found:
        try:
            model = normalize(read_model(case.model, name=case.name))
        except DLBricksError:
            continue
        sound(model)
        models += 1
    assert models > 700


def test_layers_that_no_standard_knows_have_features():
    sound(cases.odd_model("Relu", "Quux", "FusedQuux", "Attention", "LSTM", "Conv", "Gemm"))


def test_layers_of_unknown_sizes_have_features():
    """So has a layer without results or attributes, as a framework's own may be."""
    specs = {"x": TensorSpec("float32", (1, None)), "y": TensorSpec("float32", None),
             "z": TensorSpec("undefined", ("n",)), "w": TensorSpec("float32", (4, 4))}  # fmt: skip
    layers = tuple(
        Layer(op, ("x", "w", ""), ("y", "", "z"), opaque=reason)
        for op in ("Conv", "MatMul", "Gemm", "LSTM", "Attention", "Gather", "Reshape", "If")
        for reason in ("", "subgraph (If)")
    )
    model = CanonicalModel("unknown", layers, ("x",), ("y", "z"), specs, frozenset("w"))
    sound(model)


def test_attention_of_another_domain_has_features():
    """It reads a mask in the place of the keys."""
    specs = {"x": TensorSpec("float32", (1, 8, 16)), "w": TensorSpec("float32", (16, 48)),
             "m": TensorSpec("int32", (1,)), "y": TensorSpec("float32", (1, 8, 16))}  # fmt: skip
    layer = Layer("Attention", ("x", "w", "", "m"), ("y",), domain="com.microsoft")
    sound(CanonicalModel("a", (layer,), ("x", "m"), ("y",), specs, frozenset("w")))


def test_rare_operators_tell_nothing_about_each_other():
    """Only what all layers have in common, and what all rare ones have, do they share."""
    spec = TensorSpec("float32", (4, 8, 8))
    layers = tuple(
        Layer(op, ("x",), (op,)) for op in ("Det", "AffineGrid", "LpPool", "AveragePool")
    )
    names = tuple(layer.op for layer in layers)
    model = CanonicalModel("rare", layers, ("x",), names, dict.fromkeys(("x", *names), spec))
    found = Features.of(model)
    assert found.kinds == ("other:det", "other:affinegrid", "pool:powers", "pool:mean-line")
    sound(model)


@pytest.mark.parametrize("op", ["MatMul", "Conv", "Relu", "MaxPool", "Softmax", "Reshape"])
def test_tensors_without_elements_have_features(op):
    nothing = TensorSpec("float32", (0, 8))
    layer = Layer(op, ("x", "x"), ("y",))
    sound(CanonicalModel("none", (layer,), ("x",), ("y",), {"x": nothing, "y": nothing}))


def test_a_model_without_layers_has_no_features():
    spec = TensorSpec("float32", (1,))
    model = CanonicalModel("none", (), ("x",), ("x",), {"x": spec})
    assert Features.of(model).kinds == ()
    assert Features.of_ends(model).kinds == ("enter:nothing", "leave:nothing")
    sound(model)


def test_threads_beyond_the_cpus_add_nothing():
    system = System(logical_cpus=2)
    assert Processor.of(system, 99) == Processor.of(system, 2)
    assert Processor.of(system, 2) != Processor.of(system, 1)
    # Of a system that does not state its CPUs, nothing is assumed.
    assert Processor.of(System(), 99) != Processor.of(System(), 2)
