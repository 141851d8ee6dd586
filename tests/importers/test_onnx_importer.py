"""The ONNX importer: what it reads, and how it says no."""

import gzip
import json
import pickle
import tarfile
import zipfile

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
    assert importer.handles("NET.ONNX")
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
    return path, "is empty"


def _text(path):
    path.write_text("hello, this is no model\n" * 20)
    return path, "not an ONNX model"


def _html(path):
    path.write_text("\n<!DOCTYPE html><html><body>404</body></html>")
    return path, "but an HTML page"


def _zip(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("net.onnx", b"")
    return path, "but a zip archive"


def _gzip(path):
    path.write_bytes(gzip.compress(path.read_bytes()))
    return path, "but a gzip archive"


def _tar(path):
    inner = path.with_name("inner.onnx")
    path.rename(inner)
    with tarfile.open(path, "w") as archive:
        archive.add(inner, "inner.onnx")
    return path, "but a tar archive"


def _pickle(path):
    path.write_bytes(pickle.dumps({"weight": 1}))
    return path, "but a pickle"


def _safetensors(path):
    header = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
    return path, "weights .safetensors."


def _lite(path):
    path.write_bytes(b"\x1c\0\0\0TFL3" + bytes(64))
    return path, "TensorFlow Lite"


def _json(path):
    path.write_text('{"nodes": []}')
    return path, "but a JSON file"


def _tensor(path):
    path.write_bytes(onnx.numpy_helper.from_array(np.ones(5, np.float32), "t").SerializeToString())
    return path, "not an ONNX model"


def _pointer(path):
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n")
    return path, "Git LFS pointer"


SPOILED = [_missing, _folder, _truncated, _empty, _text, _tensor, _pointer, _html, _zip, _gzip,
           _tar, _pickle, _safetensors, _lite, _json]  # fmt: skip


@pytest.mark.parametrize("spoil", SPOILED)
def test_bad_files_give_one_line_and_a_hint(model_file, spoil):
    path, reason = spoil(model_file)
    with pytest.raises(ModelError, match=reason) as caught:
        OnnxImporter().load(path)
    assert "\n" not in str(caught.value)
    assert caught.value.hint
