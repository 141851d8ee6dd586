"""What an analysis looks like: tables, data, page."""

import io
import re
import xml.etree.ElementTree as ElementTree

import pytest
from dlbricks_study.repeats import analysis_data, analysis_page, print_analysis
from dlbricks_study.repetition import analyze
from rich.console import Console

from dlbricks_core.importers.light import LightModels
from dlbricks_core.passes import normalize
from dlbricks_core.report.tables import quantity


@pytest.fixture(scope="module")
def analysis():
    return analyze(normalize(LightModels().load(n)) for n in ("resnet50", "vgg19", "squeezenet"))


def printed(analysis):
    console = Console(width=80, file=io.StringIO())
    print_analysis(console, analysis)
    text = console.file.getvalue()
    assert max(map(len, text.splitlines())) <= 80
    return text


def drawings(page):
    """The page's drawings: each whole, named, and in the page's colours."""
    found = re.findall(r"<svg.*?</svg>", page, flags=re.DOTALL)
    for drawing in found:
        root = ElementTree.fromstring(drawing)
        assert root.get("aria-label")
        assert root.get("viewBox")
    assert not re.findall(r"(?:fill|stroke): #", " ".join(found))
    assert not re.findall(r"<script|<link|<img| src=|@import", page)
    return found


def plots(page):
    """What the page's plots show; each is there for wide screens and for phones."""
    return {ElementTree.fromstring(each).get("aria-label") for each in drawings(page)}


def test_tables_hold_similarity_and_repetition(analysis):
    text = printed(analysis)
    similarity = analysis.similarity.matrix[0][1]
    assert re.search(rf"resnet50 +1 1\.00 {similarity:.2f} ", text)
    assert re.search(r"light_resnet50 +176 +56 +31\.8% +8\.22 G", text)
    assert re.search(r"Conv +\d+ +\d+ +\d+ +\d+\.\d%", text)


def test_json_holds_signatures_similarity_and_shares(analysis):
    data = analysis_data(analysis)
    resnet = data["models"][0]
    assert (resnet["layers"], resnet["unique_layers"]) == (176, len(set(resnet["signatures"])))
    assert resnet["repeated_layers"] == 120
    a, b = (set(model["signatures"]) for model in data["models"][:2])
    assert data["similarity"]["names"][:2] == ["light_resnet50", "light_vgg19"]
    assert data["similarity"]["matrix"][0][1] == pytest.approx(len(a & b) / len(a | b))
    shares = [each["share_of_repeated"] for each in data["totals"]["operators"].values()]
    assert sum(shares) == pytest.approx(1)


@pytest.mark.long
def test_a_page_has_the_matrix_and_every_plot(analysis):
    page = analysis_page(analysis)
    assert len(plots(page)) == 5
    (heat_map,) = [d for d in drawings(page) if "Jaccard" in d]
    cells = {t: o for o, t in re.findall(r'opacity="([\d.]+)"><title>([^<]*)</title>', heat_map)}
    assert len(cells) == 9
    similarity = analysis.similarity.matrix[0][1]
    opacity = cells[f"light_vgg19, light_resnet50: {similarity:.3f}"]
    assert float(opacity) == pytest.approx(similarity**0.5, abs=1e-3)
    assert cells["light_vgg19, light_vgg19: 1.000"] == "1"
    for row in analysis.similarity.matrix:
        assert all(f">{value:.3f}</td>" in page for value in row)


@pytest.mark.long
def test_many_models_are_listed_as_pairs(residual):
    many = analyze(residual(kernel=2 * i + 1, name=f"net{i}") for i in range(12))
    text = printed(many)
    assert "The whole matrix is in the JSON" in text
    assert re.search(r"net0 +net1 +0\.\d{3}", text)
    assert len(plots(analysis_page(many))) == 5


@pytest.mark.long
def test_one_model_has_no_similarity(residual):
    one = analyze([residual()])
    assert "Similarity" not in printed(one)
    assert "Jaccard" not in analysis_page(one)


def test_operators_without_a_rule_are_named(builder):
    b = builder()
    b.relu(b.add("<No>Such", b.input))
    strange = analyze([b.model(name="[bold]&<b>")])
    text = printed(strange)
    assert "[bold]&<b>: the sum leaves out <No>Such (1): their operations have no rule" in " ".join(
        text.split()
    )
    assert re.search(r">144 ", text)
    page = analysis_page(strange)
    assert "<b>:" not in page
    assert "&lt;No&gt;Such (1)" in page
    assert analysis_data(strange)["models"][0]["without_flops"] == {"<No>Such": 1}


def test_a_model_without_layers_has_a_page(builder):
    b = builder()
    nothing = analyze([b.model(b.input)])
    printed(nothing)
    assert drawings(analysis_page(nothing)) == []


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (999, "999"), (999.6, "1.00 k"), (8217637232, "8.22 G"), (62.04e6, "62.0 M"),
     (999.6e6, "1.00 G"), (825e6, "825 M"), (3e18, "3000 P")],
)  # fmt: skip
def test_quantities_have_units_and_three_digits(value, text):
    assert quantity(value) == text
