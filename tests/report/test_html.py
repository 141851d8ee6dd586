"""Pages are whole in themselves, well-formed, and show names as they are."""

import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from html.parser import HTMLParser

import onnx
import pytest
from onnx import TensorProto, helper

import dlbricks_core as dlbricks
from dlbricks_core.backends import Profile, ProfiledLayer
from dlbricks_core.errors import DLBricksError
from dlbricks_core.report import evaluation_page
from dlbricks_core.report.explanation import explanation_page
from dlbricks_core.workflows import Evaluation
from dlbricks_core.workflows.explain import Explanation, Profiling

pytest.importorskip("onnxruntime")
pytest.importorskip("torch")

NAME = '<img src="http://x.example/y.png" onerror="a()">&amp;$a_1$'
VOID = {"meta", "br", "img", "link", "input", "hr"}
LOADS = {"src", "href", "xlink:href", "srcset", "data", "action", "poster"}


class Checker(HTMLParser):
    """Follows elements, and collects ids, references and text."""

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.ids, self.references, self.text = [], [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        for name, value in attrs:
            assert not name.startswith("on"), f"{tag} {name}"
            if name == "id":
                self.ids.append(value)
            if name in LOADS:
                self.references.append(value)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"</{tag}> at {self.getpos()}"

    def handle_data(self, data):
        self.text.append(data)


def check(page):
    checker = Checker()
    checker.feed(page)
    checker.close()
    assert checker.open == []
    assert page.startswith("<!doctype html>")
    assert not {"script", "link", "iframe", "img", "object"} & set(checker.tags)
    assert all(reference.startswith("#") for reference in checker.references)
    assert {reference[1:] for reference in checker.references} <= set(checker.ids)
    assert len(checker.ids) == len(set(checker.ids))
    assert "@import" not in page
    assert all(url.startswith("#") for url in re.findall(r"url\(['\"]?([^)]*)\)", page))
    drawings = re.findall(r"<svg.*?</svg>", page, flags=re.DOTALL)
    for drawing in drawings:
        root = ElementTree.fromstring(drawing)
        assert root.get("aria-label")
        assert root.get("viewBox")
    # No colour of a drawing is fixed: all come from the page, for light and for dark.
    assert not re.findall(r"(?:fill|stroke): #", " ".join(drawings))
    return checker, drawings


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


def test_a_comparisons_page(models, tmp_path):
    result = dlbricks.compare(
        models, backends=["onnxruntime", "pytorch"], runs=3, threads=1, store=tmp_path / "s.db"
    )
    result.to_html(tmp_path / "page.html")
    checker, drawings = check((tmp_path / "page.html").read_text(encoding="utf-8"))
    text = "".join(checker.text)
    assert NAME in text
    for word in ("onnxruntime", "pytorch", "no clear winner", "seed 0", "System", " ms"):
        assert word in text
    assert result.result.any_run.context.system.fingerprint in text
    assert len(drawings) >= 2
    assert "Warnings and failures" in text


def test_a_runs_page(models, tmp_path):
    result = dlbricks.estimate(
        models, backend="onnxruntime", end_to_end=True, runs=3, threads=1, store=tmp_path / "s.db"
    )
    result.to_html(tmp_path / "page.html")
    checker, drawings = check((tmp_path / "page.html").read_text(encoding="utf-8"))
    text = "".join(checker.text)
    assert NAME in text
    assert text.count("Tanh") >= 2
    assert "estimate / measured" in text
    assert len(drawings) >= 1


def test_an_evaluations_page(models, tmp_path):
    strange = onnx.ModelProto()
    strange.CopyFrom(models[0])
    strange.graph.name = "<strange>"
    strange.graph.node[1].op_type = "NoSuch"
    strange.graph.node[1].domain = "nowhere"
    strange.opset_import.append(helper.make_opsetid("nowhere", 1))
    run = dlbricks.estimate(
        [*models, strange], backend="onnxruntime", end_to_end=True, runs=3, threads=1,
        store=tmp_path / "s.db",
    ).result  # fmt: skip
    checker, drawings = check(evaluation_page(Evaluation.of(run)))
    text = "".join(checker.text)
    for word in (NAME, "plain", "<strange>", "Mean absolute error", "Left out", "Cost"):
        assert word in text
    assert len(drawings) == 2
    assert "<strange>" not in "".join(drawings)
    checker, drawings = check(evaluation_page(Evaluation.of(replace(run, models=run.models[2:]))))
    assert "No model has both" in "".join(checker.text)
    assert drawings == []


def test_an_explanations_page(models, tmp_path):
    run = dlbricks.estimate(
        models[0], backend="onnxruntime", end_to_end=True, runs=3, threads=1,
        store=tmp_path / "s.db",
    ).result  # fmt: skip
    (cut,) = run.brickset.models
    layers = [ProfiledLayer("<a>", "Some", each.outputs, 1.0) for each in cut.executed.layers]
    stranger = ProfiledLayer("<stranger>", "Reorder", ("<elsewhere>",), 0.5)
    told = Explanation.of(run, Profiling(Profile([*layers, stranger], 2.0)))
    checker, drawings = check(explanation_page(told))
    text = "".join(checker.text)
    for word in (NAME, "Profile of onnxruntime", "<stranger>", "Difference"):
        assert word in text
    assert len(drawings) == 1
    checker, drawings = check(explanation_page(Explanation.of(run, Profiling(reason="<none>"))))
    assert "No profile of onnxruntime: <none>" in "".join(checker.text)
    assert len(drawings) == 1


def test_a_page_of_what_is_missing(models, tmp_path):
    strange = onnx.ModelProto()
    strange.CopyFrom(models[0])
    strange.graph.node[1].op_type = "NoSuch<operator>"
    strange.graph.node[1].domain = "nowhere"
    strange.opset_import.append(helper.make_opsetid("nowhere", 1))
    result = dlbricks.estimate(
        strange, backend="onnxruntime", runs=3, threads=1, store=tmp_path / "s.db"
    )
    assert result.failures
    result.to_html(tmp_path / "page.html")
    checker, drawings = check((tmp_path / "page.html").read_text(encoding="utf-8"))
    text = "".join(checker.text)
    assert "Bricks without a measurement are left out" in text
    assert "NoSuch" not in "".join(drawings)
    assert "Failed:" in text
    assert "nowhere.NoSuch<operator>" in text


def test_an_estimate_from_an_empty_store_has_a_page_without_plots(models, tmp_path):
    result = dlbricks.estimate(
        models[1], backend="onnxruntime", stored=True, threads=1, store=tmp_path / "s.db"
    )
    result.to_html(tmp_path / "page.html")
    _, drawings = check((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert drawings == []


def test_a_page_that_cannot_be_written_is_an_error_with_a_hint(models, tmp_path):
    result = dlbricks.estimate(
        models[1], backend="onnxruntime", stored=True, threads=1, store=tmp_path / "s.db"
    )
    with pytest.raises(DLBricksError, match="cannot be written"):
        result.to_html(tmp_path / "absent" / "page.html")
