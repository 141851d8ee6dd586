"""Page and data of a study, and the paper's published figures in them."""

import math
from dataclasses import replace

import pytest
from dlbricks_study import data as published
from dlbricks_study.data import study_data
from dlbricks_study.experiments import study
from dlbricks_study.page import study_page
from dlbricks_study.record import StudyRecord
from dlbricks_study.record import complete as study_complete
from dlbricks_study.report import TABLES, as_csv

import dlbricks_core as dlbricks
from dlbricks_core.importers import ModelCollection, Publication, PublishedFigure
from dlbricks_core.measure.request import Request
from dlbricks_core.passes import normalize
from dlbricks_core.plugins import Plugin
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore

pytest.importorskip("onnxruntime")

NAME = '<img src="http://x.example/y.png">&amp;, "a"'


@pytest.fixture(scope="module")
def studied(processes, tmp_path_factory):
    """The same two networks under names of the paper, and under other names."""
    from dlbricks_core.importers.light import LightModels

    squeezenet = normalize(LightModels().load("squeezenet"))
    models = [replace(squeezenet, name=NAME), replace(squeezenet, name="second")]
    options = Request.of("onnxruntime", threads=1, runs=2)
    store = ResultStore.open(tmp_path_factory.mktemp("study") / "results.sqlite")

    def run(*sources):
        named = [replace(m, source=s) for m, s in zip(models, sources, strict=True)]
        return study(named, (1, 3), options, store, Observer())

    with store:
        yield run("paper:1", "paper:2"), run("paper:1", "onnx:light_squeezenet")


def page_of(study):
    return study_page(StudyRecord(study_data(study)))


def test_the_page_names_models_and_composers(studied, read_page):
    page = read_page(page_of(studied[0]), files={"study.json", *(f"{name}.csv" for name in TABLES)})
    assert NAME in page.text
    assert page.drawings
    said = " ".join(page.text.split())
    assert "composer segmented (the default) with" in said
    assert "composer similar with split short-segments" in said


class Papers(ModelCollection):
    """A collection with published figures."""

    name = "paper"
    published = Publication(
        "Somebody, 2020",
        50,
        [
            PublishedFigure(5, "layers", "", 10, "ten", lambda s: s["totals"]["layers"], ",.0f"),
            PublishedFigure(11, "geometric mean of a ratio", "there, G=1", 0.9, "90%",
                            lambda s: s["evaluations"][0]["geometric_mean"], ".1%"),
            PublishedFigure(11, "unknown", "G=9", 0.5, "50%", lambda s: None, ".1%"),
        ],
    )  # fmt: skip

    def names(self):
        return ("1", "2")

    def load(self, name, options=None):
        raise NotImplementedError


def test_published_figures_are_shown_only_for_their_models(studied, monkeypatch):
    of_paper, of_others = studied
    plugin = Plugin("models", "paper", "a:b", "papers", "1", loaded=Papers)
    monkeypatch.setattr(published, "discover", lambda *_: [plugin])
    found = study_data(of_paper)["published"]
    assert (found["source"], found["models"]) == ("Somebody, 2020", 50)
    ours = {(each["figure"], each["what"]): each["ours"] for each in found["figures"]}
    assert ours == {
        (5, "layers"): 2 * len(of_paper.analysis.models[0].cut.model.layers),
        (11, "geometric mean of a ratio"): of_paper.by_granularity[1].geometric_mean,
        (11, "unknown"): None,
    }
    page = page_of(of_paper)
    for text in (">ten<", ">90%<", ">50%<", "are of 50 models", "paper, there"):
        assert text in page
    assert study_data(of_others)["published"] is None
    assert ">90%<" not in page_of(of_others)


def test_a_fault_in_a_collection_does_not_end_the_study(studied, monkeypatch):
    class Faulty(Papers):
        published = Publication(
            "Somebody, 2020",
            1,
            [PublishedFigure(5, "layers", "", 10, "ten", lambda s: s["nothing"], ",.0f")],
        )

    plugin = Plugin("models", "paper", "a:b", "papers", "1", loaded=Faulty)
    monkeypatch.setattr(published, "discover", lambda *_: [plugin])
    (found,) = study_data(studied[0])["published"]["figures"]
    assert (found["ours"], found["ours_text"]) == (None, "failed: KeyError: 'nothing'")


def test_a_broken_collection_has_no_published_figures(studied, monkeypatch):
    broken = Plugin("models", "paper", "a:b", "papers", "1", problem="it is broken")
    monkeypatch.setattr(published, "discover", lambda *_: [broken])
    assert study_data(studied[0])["published"] is None


def test_tables_hold_the_studys_ratios(studied):
    found, _ = studied
    assert study_complete(found)
    record = StudyRecord(study_data(found))
    for name, rows in TABLES.items():
        lines = as_csv(rows(record)).splitlines()
        assert len(lines) > 2, name
    (header, first, *_) = as_csv(TABLES["normalized"](record)).splitlines()
    assert header.startswith("model,composer,granularity,")
    assert first.startswith('"<img src=""http://x.example/y.png"">&amp;, ""a"""')
    ratios = [
        each["normalized"] for each in TABLES["normalized"](record) if each["granularity"] == 3
    ]
    mean = math.prod(ratios) ** (1 / len(ratios))
    assert found.by_granularity[3].geometric_mean == pytest.approx(mean)


def test_the_version_is_on_the_page(studied):
    assert f"by DLBricks {dlbricks.__version__}" in page_of(studied[0])


def test_models_that_differ_only_in_weights_count_each(studied):
    """As in the paper's definition of the benchmarking speedup."""
    way = studied[0].by_granularity[1]
    one, other = way.models
    assert one.measured_ms == other.measured_ms
    assert way.speedups.paper.models_s == pytest.approx(2 * one.measured_ms / 1e3)
    bricks_s = sum(each.latency.value for each in way.result.bricks) / 1e3
    assert way.speedups.paper.bricks_s == pytest.approx(bricks_s)


def test_no_name_is_a_formula_and_negative_numbers_are_numbers():
    row = {"model": "=cmd|' /C calc'!A0", "layer": "@sum", "change": -1.5, "text": "-2e-3"}
    (_, line) = as_csv(iter([row])).splitlines()
    assert line == "'=cmd|' /C calc'!A0,'@sum,-1.5,-2e-3"
