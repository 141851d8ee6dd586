"""Files as ONNX Runtime's users run them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from dlbricks_onnxruntime.backend import OnnxruntimeBackend
from dlbricks_onnxruntime.users import _computed

from dlbricks_core.backends import BackendSettings
from dlbricks_core.errors import UnsupportedError
from dlbricks_core.importers.onnx import OnnxImporter
from dlbricks_core.passes import normalize
from dlbricks_core.values import materialize

LIGHT = Path(onnx.__file__).parent / "backend/test/data/light/light_squeezenet.onnx"


@pytest.fixture(scope="module")
def model():
    return normalize(OnnxImporter().load(LIGHT))


@pytest.fixture(scope="module")
def timer():
    backend = OnnxruntimeBackend()
    return backend.timer(
        backend.as_used(BackendSettings(1, {"optimizations": "all"}, as_used=True))
    )


def test_only_onnx_files_are_opened(tmp_path):
    opens = OnnxruntimeBackend().opens
    assert opens(str(LIGHT))
    assert not opens("onnx:light_squeezenet")
    assert not opens(str(tmp_path / "missing.onnx"))


def test_the_file_runs_and_its_profile_tells_the_models_layers(model, timer):
    inputs = materialize(model, 0, without=model.weights).inputs
    opened = timer.open(model, inputs, 2)
    (result,) = opened.run()
    assert result.shape == model.tensors[model.outputs[0]].sizes
    told = [each for each in opened.profile.layers if each.outputs]
    assert all(name in model.producers for each in told for name in each.outputs)
    assert sum(each.ms for each in told) > 0.9 * opened.profile.sum_ms
    assert 0.3 < opened.profile.sum_ms / opened.profile.run_ms < 1.05
    assert 0.2 < opened.first_ms / opened.profile.run_ms < 100
    assert opened.faults >= 0


def test_without_profiled_runs_there_is_no_profile(model, timer):
    inputs = materialize(model, 0, without=model.weights).inputs
    assert timer.open(model, inputs, 0).profile is None


def test_an_import_that_lacks_an_input_of_the_file_is_refused(model, timer):
    with pytest.raises(UnsupportedError, match="no input 'data_0'"):
        timer.open(model, {"other": np.zeros(1)}, 1)


@pytest.mark.parametrize(
    ("name", "tensors"),
    [
        ("conv", ("x1",)),
        ("fused conv", ("x1",)),
        ("x2_nchwc", ("x2",)),
        ("x2_bn_nchwc_token_7", ("x2",)),
        ("conv/MatMulAddFusion/", ("x1",)),
        ("ReorderOutput_token_3", ()),
    ],
)
def test_a_new_layer_is_known_by_what_it_stands_for(model, name, tensors):
    first, second = model.layers[:2]
    layers = (replace(first, name="conv", outputs=("x1",)), replace(second, outputs=("x2",)))
    small = replace(
        model,
        layers=(layers[0], replace(layers[1], inputs=("x1",))),
        outputs=("x2",),
        tensors={
            **model.tensors,
            "x1": model.tensors[first.outputs[0]],
            "x2": model.tensors[second.outputs[0]],
        },
    )
    outputs = {layer.name: layer.outputs for layer in small.layers if layer.name}
    assert _computed(name, outputs, small) == tensors
