"""Pages need no other files, are well-formed, and show names unchanged."""

from dataclasses import replace

import onnx
import pytest
from dlbricks_accuracy.evaluation import Evaluation
from dlbricks_accuracy.page import evaluation_page
from dlbricks_compare import compare
from dlbricks_explain.explanation import Explanation, Profiling
from dlbricks_explain.report import explanation_page
from dlbricks_pages.run import run_page
from onnx import TensorProto, helper

import dlbricks_core as dlbricks
from dlbricks_core.backends import Profile, ProfiledLayer
from dlbricks_core.errors import DLBricksError
from dlbricks_core.importers import LoadOptions

pytest.importorskip("onnxruntime")
pytest.importorskip("torch")

NAME = '<img src="http://x.example/y.png" onerror="a()">&amp;$a_1$'


@pytest.fixture(scope="module")
def models():
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, (1, 2**18)) for n in "xy"]
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Tanh", ["a"], ["y"])]
    sine = [helper.make_node("Sin", ["x"], ["y"])]
    imports = [helper.make_opsetid("", 17)]
    return [
        helper.make_model(
            helper.make_graph(layers, name, values[:1], values[1:]),
            opset_imports=imports,
            ir_version=8,
        )
        for name, layers in ((NAME, nodes), ("plain", sine))
    ]


@pytest.mark.process
def test_the_page_of_a_comparison_holds_backends_system_and_plots(models, tmp_path, read_page):
    result = compare(
        models, backends=["onnxruntime", "pytorch"], runs=3, threads=1, store=tmp_path / "s.db"
    )
    result.to_html(tmp_path / "page.html")
    page = read_page((tmp_path / "page.html").read_text(encoding="utf-8"))
    text = page.text
    assert NAME in text
    for word in ("onnxruntime", "pytorch", "seed 0", "System", "in ms"):
        assert word in text
    assert result.result.any_run.request.system.fingerprint in text
    assert len(page.plots) >= 2


@pytest.mark.process
def test_the_page_of_a_run_holds_its_bricks_and_a_plot(models, tmp_path, read_page):
    result = dlbricks.estimate(
        models,
        backend="onnxruntime",
        measure=True,
        end_to_end=True,
        runs=3,
        threads=1,
        store=tmp_path / "s.db",
    )
    result.to_html(tmp_path / "page.html")
    page = read_page((tmp_path / "page.html").read_text(encoding="utf-8"))
    text = page.text
    assert NAME in text
    assert text.count("Tanh") >= 2
    assert "estimate / measured" in text
    assert len(page.plots) >= 1
    assert "batch" not in text
    load = LoadOptions(batch=2, shapes={"x": (2, 4)}, values={"x": 5}, outputs=("y",))
    assert "batch 2, x=2x4, x=5, output y;" in read_page(run_page(result.result, load)).text


@pytest.mark.process
def test_the_page_of_an_evaluation_holds_errors_costs_and_what_was_left_out(
    models, tmp_path, read_page
):
    strange = onnx.ModelProto()
    strange.CopyFrom(models[0])
    strange.graph.name = "<strange>"
    strange.graph.node[1].op_type = "NoSuch"
    strange.graph.node[1].domain = "nowhere"
    strange.opset_import.append(helper.make_opsetid("nowhere", 1))
    run = dlbricks.estimate(
        [*models, strange],
        backend="onnxruntime",
        measure=True,
        end_to_end=True,
        runs=3,
        threads=1,
        store=tmp_path / "s.db",
    ).result
    page = read_page(evaluation_page(Evaluation.of(run)))
    text = page.text
    for word in (NAME, "plain", "<strange>", "Mean absolute error", "Left out", "Cost"):
        assert word in text
    assert len(page.plots) == 2
    assert "<strange>" not in "".join(page.drawings)
    page = read_page(evaluation_page(Evaluation.of(replace(run, models=run.models[2:]))))
    assert "No model has both" in page.text
    assert page.drawings == []


@pytest.mark.process
def test_the_page_of_an_explanation_holds_profile_and_difference(models, tmp_path, read_page):
    run = dlbricks.estimate(
        models[0],
        backend="onnxruntime",
        measure=True,
        end_to_end=True,
        runs=3,
        threads=1,
        store=tmp_path / "s.db",
    ).result
    (cut,) = run.brickset.models
    layers = [ProfiledLayer("<a>", "Some", each.outputs, 1.0) for each in cut.graph.layers]
    stranger = ProfiledLayer("<stranger>", "Reorder", ("<elsewhere>",), 0.5)
    told = Explanation.of(run, Profiling(Profile([*layers, stranger], 2.0)))
    page = read_page(explanation_page(told))
    text = page.text
    for word in (NAME, "Profile of onnxruntime", "<stranger>", "Difference"):
        assert word in text
    assert len(page.plots) == 1
    page = read_page(explanation_page(Explanation.of(run, Profiling(reason="<none>"))))
    assert "No profile of onnxruntime: <none>" in page.text
    assert len(page.plots) == 1


@pytest.mark.process
def test_a_page_names_what_is_missing_and_failed(models, tmp_path, read_page):
    strange = onnx.ModelProto()
    strange.CopyFrom(models[0])
    strange.graph.node[1].op_type = "NoSuch<operator>"
    strange.graph.node[1].domain = "nowhere"
    strange.opset_import.append(helper.make_opsetid("nowhere", 1))
    result = dlbricks.estimate(
        strange, backend="onnxruntime", measure=True, runs=3, threads=1, store=tmp_path / "s.db"
    )
    assert result.failures
    result.to_html(tmp_path / "page.html")
    page = read_page((tmp_path / "page.html").read_text(encoding="utf-8"))
    text = page.text
    assert "Share of each kind of brick" not in text
    assert "NoSuch" not in "".join(page.drawings)
    assert "Failed:" in text
    assert "nowhere.NoSuch<operator>" in text


def test_an_estimate_from_an_empty_store_has_a_page_without_plots(models, tmp_path, read_page):
    result = dlbricks.estimate(
        models[1],
        backend="onnxruntime",
        predictor="none",
        threads=1,
        store=tmp_path / "s.db",
    )
    result.to_html(tmp_path / "page.html")
    page = read_page((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert page.drawings == []


@pytest.mark.process
def test_a_page_that_cannot_be_written_is_an_error_with_a_hint(models, tmp_path):
    result = dlbricks.estimate(models[1], backend="onnxruntime", threads=1, store=tmp_path / "s.db")
    with pytest.raises(DLBricksError, match="cannot be written"):
        result.to_html(tmp_path / "absent" / "page.html")
