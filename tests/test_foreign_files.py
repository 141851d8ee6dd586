"""Files that nothing here reads: the hint says what to do with them."""

import pytest

from dlbricks_core.errors import ModelError
from dlbricks_core.importers.formats import advice, check_file
from dlbricks_core.importers.models import LoadOptions, ModelLoader


@pytest.mark.parametrize(
    ("name", "told"),
    [("net.h5", "tf2onnx"), ("NET.TFLITE", "tf2onnx"), ("net.json", "-symbol.json"),
     ("net.py", "torch:module:factory"), ("net.gguf", "weights"), ("net.tar.gz", "unpack"),
     ("net.torchscript", "torch.export"), ("net.onnxtxt", "onnx.save"), ("net.ubj", "onnxmltools"),
     ("net.joblib", "skl2onnx")],
)  # fmt: skip
def test_hints_say_what_a_file_is(name, told, tmp_path):
    (tmp_path / name).touch()
    with ModelLoader(LoadOptions()) as loader, pytest.raises(ModelError) as raised:
        loader.load([str(tmp_path / name)])
    assert told in raised.value.hint
    assert ".onnx" in raised.value.hint


def test_unknown_files_have_no_hint():
    assert advice("net.strange") == ""


@pytest.mark.parametrize(
    ("inner", "told"),
    [
        ("a/net.onnx", "Name a file in it: {}/a/net.onnx"),
        ("weights.bin", "none in it ends in"),
        ("config.json", "name llm:{}"),
    ],
)
def test_the_hint_of_a_folder_names_a_model_in_it(inner, told, tmp_path):
    (tmp_path / inner).parent.mkdir(exist_ok=True)
    (tmp_path / inner).touch()
    with ModelLoader(LoadOptions()) as loader, pytest.raises(ModelError, match="folder") as raised:
        loader.load([str(tmp_path)])
    assert told.format(tmp_path) in raised.value.hint


def test_files_are_checked_before_they_are_read(tmp_path):
    (tmp_path / "a.x").write_bytes(bytes(100))
    check_file(tmp_path / "a.x", ".x file", 100)
    for path, told in [("a.x", "limit"), ("b.x", "does not exist"), (".", "folder"),
                       ("a\0.x", "cannot be read"), ("x" * 5000, "cannot be read")]:  # fmt: skip
        with pytest.raises(ModelError, match=told) as raised:
            check_file(tmp_path / path, ".x file", 99)
        assert raised.value.hint
