"""Files as OpenVINO's users run them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

pytest.importorskip("openvino")

from dlbricks_openvino.backend import OpenvinoBackend
from dlbricks_testing import cases

from dlbricks_core.backends import BackendSettings
from dlbricks_core.errors import UnsupportedError
from dlbricks_core.importers import LoadOptions
from dlbricks_core.importers.host import canonical
from dlbricks_core.importers.onnx import OnnxImporter
from dlbricks_core.ir import save_onnx, to_onnx
from dlbricks_core.passes import normalize
from dlbricks_core.values import materialize

TRIES = 5
"""Other work on the machine disturbs some of them."""

LIGHT = Path(onnx.__file__).parent / "backend/test/data/light/light_squeezenet.onnx"


@pytest.fixture(scope="module")
def model():
    return normalize(OnnxImporter().load(LIGHT))


@pytest.fixture(scope="module")
def timer():
    return OpenvinoBackend().timer(BackendSettings(1, {"precision": "model"}, as_used=True))


def values(model):
    return materialize(model, 0, without=model.weights).inputs


def test_only_onnx_files_are_opened(tmp_path):
    opens = OpenvinoBackend().opens
    assert opens(str(LIGHT))
    assert not opens("onnx:light_squeezenet")
    assert not opens(str(tmp_path / "missing.onnx"))


def test_the_file_runs_and_its_profile_names_the_models_layers(model, timer):
    def most_is_told():
        opened = timer.open(model, values(model), 2)
        (result,) = opened.run().values()
        assert result.shape == model.tensors[model.outputs[0]].sizes
        told = [each for each in opened.profile.layers if each.outputs]
        assert all(name in model.producers for each in told for name in each.outputs)
        assert opened.profiling_s > 0
        return sum(each.ms for each in told) > 0.9 * opened.profile.sum_ms

    assert any(most_is_told() for _ in range(TRIES))


def test_without_profiled_runs_there_is_no_profile(model, timer):
    assert timer.open(model, values(model), 0).profile is None


def test_an_import_that_lacks_an_input_of_the_file_is_refused(model, timer):
    with pytest.raises(UnsupportedError, match="no input 'data_0'"):
        timer.open(model, {"other": np.zeros(1)}, 1)


def test_a_file_that_openvino_cannot_read_is_refused_in_one_line(model, timer, tmp_path):
    (tmp_path / "bad.onnx").write_bytes(b"no model")
    with pytest.raises(UnsupportedError, match="OpenVINO cannot run") as caught:
        timer.open(replace(model, source=str(tmp_path / "bad.onnx")), values(model), 1)
    assert "\n" not in caught.value.message


def test_open_sizes_are_those_of_the_import(timer, tmp_path):
    given = cases.network("gemm")
    proto = to_onnx(given.model, given.weights)
    for value in (*proto.graph.input, *proto.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "batch"
    del proto.graph.value_info[:]
    path = tmp_path / "open.onnx"
    save_onnx(proto, path)
    model = canonical(OnnxImporter().load(path), LoadOptions(batch=3)).model
    (result,) = timer.open(model, values(model), 0).run().values()
    assert result.shape[0] == 3


def test_a_compiled_model_cannot_be_watched():
    import openvino  # only where it is installed

    ready = openvino.compile_model(str(LIGHT), "CPU")
    with pytest.raises(UnsupportedError, match="does not say from which file"):
        OpenvinoBackend().watch(ready)
    assert OpenvinoBackend().watch([]) is None
