"""Constants that ONNX Runtime's shape inference reads, however long they are."""

import numpy as np
import pytest
from dlbricks_onnxruntime import rewrite, sessions
from dlbricks_onnxruntime.backend import OnnxruntimeBackend
from dlbricks_onnxruntime.timer import OnnxruntimeTimer
from dlbricks_testing import cases

from dlbricks_core.backends import BackendSettings
from dlbricks_core.bricks import BrickSet
from dlbricks_core.operators.table import operator
from dlbricks_core.values import materialize

SETTINGS = BackendSettings(1, {"optimizations": "all"})


def split(parts):
    names = ", ".join(f"p{i}" for i in range(parts))
    return f"""(float[2, {parts}] x) => (y) {{
        r = Relu(x)  {names} = Split <axis = 1, num_outputs = {parts}> (r)
        z = Concat <axis = 1> ({names})  y = Tanh(z) }}"""


def with_parameters(name):
    """Whether a case has a parameter with a known value."""
    model = cases.network(name).model
    return any(
        position in operator(layer.op).parameters
        for layer in model.layers
        for position, tensor in enumerate(layer.inputs)
        if tensor in model.constants
    )


CASES = [name for name in (*cases.COMMON, *cases.UNCOMMON) if with_parameters(name)]


@pytest.fixture
def nothing_is_small(monkeypatch):
    for module in sessions, rewrite:
        monkeypatch.setattr(module, "INLINE_BYTES", 0)


def run(network):
    timer = OnnxruntimeTimer(SETTINGS)
    loaded = timer.load(network)
    timer.run(loaded)
    return timer.outputs(loaded)


def check_agrees(network):
    found = run(network)
    for output, wanted in cases.evaluate(network).items():
        assert not cases.difference(found[output], wanted, 1e-4)


@pytest.mark.parametrize("name", CASES)
def test_parameters_are_never_handed_over_in_memory(nothing_is_small, name):
    network = cases.network(name)
    assert OnnxruntimeBackend().check(network.model) == {}
    check_agrees(network)
    if all(spec.elements for spec in network.model.tensors.values()):
        made = OnnxruntimeBackend().rewrite(network.model, SETTINGS, 0)
        assert run(materialize(made)).keys() == set(network.model.outputs)


def test_there_are_cases_of_every_kind():
    assert {"split", "slice", "reshape", "tile", "expand", "top_k", "one_hot", "pad",
            "resize_nearest"} <= set(CASES)  # fmt: skip


def test_more_than_512_parts_are_split():
    network = cases.build(split(600))
    assert OnnxruntimeBackend().check(network.model) == {}
    check_agrees(network)
    made = OnnxruntimeBackend().rewrite(network.model, SETTINGS, 0)
    bricks = BrickSet.of([network.model], 1, "segments", {0: made}).bricks.values()
    assert "Split" in {layer.op for brick in bricks for layer in brick.model.layers}
    for brick in bricks:
        run(materialize(brick.model))


def test_parameters_are_known_that_are_longer_than_what_is_read_of_other_weights():
    network = cases.build(split(4200))
    made = OnnxruntimeBackend().rewrite(network.model, SETTINGS, 0)
    (layer,) = [layer for layer in made.layers if layer.op == "Split"]
    assert np.array_equal(made.constants[layer.inputs[1]], np.ones(4200))


def test_a_long_float_parameter_keeps_its_values():
    """Zeros stand for large weights in what ONNX Runtime makes of a model, not for these."""
    threes = ", ".join(["3.0"] * 2000)
    network = cases.build(f"""(float[2, 2000] x) => (y) {{
        three = Constant <value = float[2000] {{{threes}}}> ()
        r = Abs(x)  y = Pow(r, three) }}""")
    check_agrees(network)
    made = OnnxruntimeBackend().rewrite(network.model, SETTINGS, 0)
    (power,) = [layer for layer in made.layers if layer.op == "Pow"]
    assert np.all(made.constants[power.inputs[1]] == 3.0)
