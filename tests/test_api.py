"""The Python API, and its page of examples."""

import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

import dlbricks_core as dlbricks
from dlbricks_core.errors import DLBricksError, ModelError
from dlbricks_core.importers.onnx import OnnxImporter
from dlbricks_core.store import ResultStore

ROOT = Path(__file__).parents[1]
ORT = {"backend": "onnxruntime", "runs": 2, "threads": 1}


@pytest.fixture
def proto():
    """Relu and Tanh on a batch of any size."""
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ("N", 8)) for n in "xy"]
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Tanh", ["a"], ["y"])]
    graph = helper.make_graph(nodes, "small", values[:1], values[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_the_page_of_examples(tmp_path):
    for framework in ("onnxruntime", "torch", "pandas"):
        pytest.importorskip(framework)
    options = [word for flag in ("ELLIPSIS", "NORMALIZE_WHITESPACE") for word in ("-o", flag)]
    page = ROOT / "docs" / "guide" / "python.md"
    done = subprocess.run(
        [sys.executable, "-m", "doctest", *options, page],
        cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "comparison.html").exists()


def test_importing_the_package_stays_light():
    code = (
        "import sys, dlbricks_core as d; print(d.__version__, *sorted("
        "{'numpy', 'onnx', 'sqlalchemy', 'matplotlib', 'torch', 'dlbricks_core.api'}"
        " & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [dlbricks.__version__]
    assert {"load", "cut", "time", "estimate", "compare"} <= set(dir(dlbricks))
    with pytest.raises(AttributeError, match="no attribute 'lode'"):
        dlbricks.lode  # noqa: B018


def test_every_source_gives_the_same_model(proto, tmp_path):
    path = tmp_path / "small.onnx"
    onnx.save(proto, path)
    raw = OnnxImporter().load(path)
    sources = (path, str(path), proto, raw)
    loaded = [dlbricks.load(source, batch=3) for source in sources]
    assert {str(each.ir.tensors["x"]) for each in loaded} == {"float32[3x8]"}
    assert {tuple(layer.op for layer in each.ir.layers) for each in loaded} == {("Relu", "Tanh")}
    assert dlbricks.load(loaded[0]).ir.layers == loaded[0].ir.layers
    assert dlbricks.load(proto, dims={"N": 5}).ir.tensors["y"].shape == (5, 8)
    assert dlbricks.load(proto, shapes={"x": (2, 8)}).ir.tensors["y"].shape == (2, 8)
    assert [row["layer"] for row in loaded[0].rows()] == ["Relu", "Tanh"]
    assert repr(loaded[0]) == "<LoadedModel small: 2 layers, inputs x: float32[3x8]>"


def test_what_is_no_single_model_is_refused():
    with pytest.raises(ModelError, match="names 9 models") as error:
        dlbricks.load("onnx:")
    assert error.value.hint
    with pytest.raises(ModelError, match="does not exist"):
        dlbricks.load("absent.onnx")


def test_bricks_of_one_and_of_several_models():
    one = dlbricks.cut("onnx:light_squeezenet")
    two = dlbricks.cut(["onnx:light_squeezenet", "onnx:light_squeezenet"], granularity=1)
    assert len(one) == len(two) == len(one.rows()) == 37
    occurrences = [sum(row["occurrences"] for row in each.rows()) for each in (one, two)]
    assert occurrences == [65, 130]
    assert one.to_dict()["totals"]["unique_bricks"] == 37


def test_timing_and_estimating_share_a_store(proto, tmp_path):
    pytest.importorskip("onnxruntime")
    model = dlbricks.load(proto, batch=2)
    empty = dlbricks.estimate(model, stored=True, store=tmp_path / "s.db", **ORT)
    assert empty.rows()[0]["partial"]
    assert len(empty.failures) == 1
    with ResultStore.open(tmp_path / "s.db") as store:
        timings = dlbricks.time(model, store=store, **ORT)
    assert [row["layers"] for row in timings.rows()] == ["Relu", "Tanh"]
    assert all(0 < row["low_ms"] <= row["latency_ms"] <= row["high_ms"] for row in timings.rows())
    assert timings.failures == []
    assert "2 bricks on onnxruntime" in repr(timings)
    stored = dlbricks.estimate(model, stored=True, store=tmp_path / "s.db", **ORT)
    assert stored.to_dict()["settings"]["batch"] is None  # nobody said how it was loaded
    (row,) = stored.rows()
    assert row["estimate_ms"] > 0
    assert row["measured_ms"] is None
    samples = [each["samples_ms"] for each in timings.to_dict()["bricks"]]
    assert [each["samples_ms"] for each in stored.to_dict()["bricks"]] == samples


def test_comparing_needs_two_backends(proto):
    with pytest.raises(DLBricksError, match="cannot compare onnxruntime") as error:
        dlbricks.compare(dlbricks.load(proto, batch=1), backends=["onnxruntime"])
    assert "two or more" in error.value.hint


def test_without_pandas_the_hint_says_what_to_install(monkeypatch):
    bricks = dlbricks.cut("onnx:light_squeezenet")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(DLBricksError, match="pandas") as error:
        bricks.to_frame()
    assert error.value.hint == "pip install pandas"
    assert bricks._repr_html_() is None


def test_a_notebook_shows_a_table():
    pytest.importorskip("pandas")
    assert dlbricks.cut("onnx:light_squeezenet")._repr_html_().startswith("<table")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("optimizations=off", "are 'optimizations=off'"),
        ({"optimizations": 3}, "option optimizations=3"),
        ({"optimisations": "off"}, "has no option 'optimisations'"),
    ],
)
def test_wrong_options_of_a_backend_are_the_callers(proto, options, words):
    pytest.importorskip("onnxruntime")
    with pytest.raises(DLBricksError, match=words) as caught:
        dlbricks.time(dlbricks.load(proto, batch=1), backend="onnxruntime", backend_options=options)
    assert "Report" not in caught.value.hint
    assert caught.value.hint


def test_options_of_a_backend_that_is_not_compared_are_refused(proto):
    with pytest.raises(DLBricksError, match="'optimizations', which is not compared"):
        dlbricks.compare(
            proto, backends=["onnxruntime", "pytorch"], backend_options={"optimizations": "off"}
        )
