"""Sizes for one model among several."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from dlbricks_core.errors import ModelError
from dlbricks_core.importers import LoadOptions
from dlbricks_core.importers.models import load_models, unique_names
from dlbricks_core.progress import Observer

pytestmark = pytest.mark.usefixtures("kept_workers")

TEXT = """<ir_version: 8, opset_import: ["" : 17]>
g (float[1,sequence] x) => (float[1,sequence] y) { y = Relu(x) }"""


@pytest.fixture
def two(tmp_path, monkeypatch):
    """Two files of one name, in the current folder's folders."""
    monkeypatch.chdir(tmp_path)
    for folder in ("enc", "dec"):
        Path(folder).mkdir()
        onnx.save(onnx.parser.parse_model(TEXT), f"{folder}/model.onnx")
    return ["enc/model.onnx", "./dec/model.onnx"]


def sizes_of(specs, **dims):
    options = LoadOptions(dims=dims)
    return [model.tensors["y"].sizes[1] for model in load_models(specs, options, Observer()).models]


@pytest.mark.parametrize("dec", ["./dec/model.onnx", "dec/model.onnx"])
def test_files_of_one_name_have_sizes_of_their_own(two, dec):
    assert sizes_of(two, **{"enc/model.onnx:sequence": 4, f"{dec}:sequence": 5}) == [4, 5]


def test_sizes_for_a_path_come_before_sizes_for_a_name(two):
    assert sizes_of(two, **{"enc/model.onnx:sequence": 4, "model:sequence": 5}) == [4, 5]
    assert sizes_of(two, **{"model.onnx:sequence": 7, "sequence": 5}) == [7, 7]


def test_names_in_the_report_are_names_of_models(two):
    names = [m.name for m in load_models(two, LoadOptions(dims={"sequence": 2}), Observer()).models]
    assert sizes_of(two, **{f"{names[0]}:sequence": 4, f"{names[1]}:sequence": 5}) == [4, 5]


@pytest.mark.parametrize("prefix", ["net/model.onnx", "enc/model", "other"])
def test_sizes_for_an_absent_model_are_an_error(two, prefix):
    with pytest.raises(ModelError, match=f"'{prefix}:sequence'"):
        sizes_of(two, **{"sequence": 5, f"{prefix}:sequence": 4})


def test_models_without_sources_are_numbered():
    named = [("g", ""), ("g", ""), ("net", "a/net.onnx"), ("net", "b/net.onnx"), ("g (2)", "")]
    found = unique_names([*named, ("g", ""), ("cell", "c/cell.onnx")])
    assert found == ["g", "g (3)", "a/net.onnx", "b/net.onnx", "g (2)", "g (4)", "cell"]
