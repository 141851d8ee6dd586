"""The ONNX importer: what it reads, and how it says no."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from dlbricks_core.errors import ModelError
from dlbricks_core.importers.onnx import OnnxImporter


@pytest.fixture
def model_file(tmp_path):
    weight = onnx.numpy_helper.from_array(np.ones((8, 4, 64, 64), np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4, 64, 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [weight],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    path = tmp_path / "net.onnx"
    onnx.save(proto, path, save_as_external_data=True, location="net.data")
    return path


def test_handles_onnx_files_by_suffix():
    importer = OnnxImporter()
    assert importer.handles("some/net.onnx")
    assert importer.handles("net.pb")
    assert not importer.handles("net-symbol.json")
    assert not importer.handles("onnx:resnet50")


def test_reads_layers_and_leaves_weights_alone(model_file):
    (model_file.parent / "net.data").unlink()  # would be noticed if anything read it
    model = OnnxImporter().load(model_file)
    assert model.name == "net"
    assert [layer.op for layer in model.layers] == ["Conv"]
    assert model.weights == {"w"}
    assert model.inputs == ("x",)
    assert str(model_file) == model.source


def _missing(path):
    return path.with_name("nowhere.onnx"), "does not exist"


def _folder(path):
    return path.parent, "is a folder"


def _truncated(path):
    path.write_bytes(path.read_bytes()[:-20])
    return path, "truncated"


def _empty(path):
    path.write_bytes(b"")
    return path, "not an ONNX model"


def _text(path):
    path.write_text("hello, this is no model\n" * 20)
    return path, "not an ONNX model"


def _tensor(path):
    path.write_bytes(onnx.numpy_helper.from_array(np.ones(5, np.float32), "t").SerializeToString())
    return path, "not an ONNX model"


def _pointer(path):
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n")
    return path, "Git LFS pointer"


@pytest.mark.parametrize("spoil", [_missing, _folder, _truncated, _empty, _text, _tensor, _pointer])
def test_bad_files_give_one_line_and_a_hint(model_file, spoil):
    path, reason = spoil(model_file)
    with pytest.raises(ModelError, match=reason) as caught:
        OnnxImporter().load(path)
    assert "\n" not in str(caught.value)
    assert caught.value.hint
