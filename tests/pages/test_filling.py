"""Latencies that nobody measured: composed as ``estimate`` composes them, predicted elsewhere."""

import json
from dataclasses import replace

import pytest
from dlbricks_pages.contents import read_atlas
from dlbricks_pages.estimates import with_composed, with_unmeasured
from dlbricks_prediction.training_data import described

from dlbricks_core.bricks import BrickSet
from dlbricks_core.cli import main
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore


@pytest.fixture
def whole(residual):
    """A small model as a whole, with its signature."""
    (cut,) = BrickSet.of([residual()], 8).models
    return cut.whole


def filled(path):
    with ResultStore.open(path, writes=False) as store:
        atlas = read_atlas(store, Observer())
        return with_unmeasured(atlas, store, Observer())


def told(atlas, signature):
    """Origin of the model's value on each backend."""
    return {e.place.backend: e.origin for e in atlas.entries if e.subject.signature == signature}


@pytest.mark.long
def test_a_model_is_predicted_where_others_were_measured_and_it_was_not(stored, whole):
    own = whole.signature
    path = stored((3.0, own, "model"), (1.0, "b" * 24, "brick", "pytorch"))
    assert told(filled(path), own) == {"onnxruntime": "measured"}
    with ResultStore.open(path) as store:
        store.keep_networks([described(whole, ["net"])])
    atlas = filled(path)
    assert told(atlas, own) == {"onnxruntime": "measured", "pytorch": "predicted"}
    entry = next(each for each in atlas.entries if each.origin == "predicted")
    assert entry.interval[0] < entry.value < entry.interval[1]
    assert entry.evidence is None
    kinds = {kind.partition(":")[0] for kind in atlas.parts[own].by_kind}
    assert "convolution" in kinds
    assert atlas.networks[own].families == ("net",)


def test_a_model_that_failed_is_not_predicted(stored, whole, question):
    own = whole.signature
    path = stored((3.0, own, "model"), (1.0, "b" * 24, "brick", "pytorch"))
    with ResultStore.open(path) as store:
        store.keep_networks([described(whole)])
        store.record_failure(question(own, "model", "pytorch"), "no memory")
    assert told(filled(path), own) == {"onnxruntime": "measured"}


def test_a_model_that_is_not_supported_is_predicted_for_no_number_of_threads(
    stored, whole, question
):
    own = whole.signature
    path = stored((3.0, own, "model"), (1.0, "b" * 24, "brick", "pytorch"))
    asked = question(own, "model", "pytorch")
    asked = replace(asked, setup=replace(asked.setup, threads=asked.setup.threads + 1))
    with ResultStore.open(path) as store:
        store.keep_networks([described(whole)])
        store.record_failure(asked, "no counterpart for Loop", unsupported=True)
    assert told(filled(path), own) == {"onnxruntime": "measured"}


def test_a_hash_that_stands_for_the_name_of_a_file_is_no_family(stored, whole):
    path = stored((3.0, whole.signature, "model"))
    with ResultStore.open(path) as store:
        store.keep_networks([described(whole, ["file:f4adf6df"])])
    assert filled(path).networks[whole.signature].families == ()


@pytest.mark.process
def test_a_composed_latency_is_that_of_the_command_estimate(tmp_path, monkeypatch):
    pytest.importorskip("onnxruntime")
    monkeypatch.chdir(tmp_path)
    setting = ("--backend", "onnxruntime", "--threads", "1", "--store", "s.sqlite", "-q")
    model = "onnx:light_squeezenet"
    for line in (
        ("estimate", "--measure", "--runs", "10"),
        ("estimate", "--predictor", "none", "--json", "e.json"),
    ):
        with pytest.raises(SystemExit) as ended:
            main([line[0], model, *line[1:], *setting])
        assert ended.value.code == 0
    (expected,) = json.loads((tmp_path / "e.json").read_text())["models"]
    with ResultStore.open("s.sqlite", writes=False) as store:
        atlas = with_composed(read_atlas(store, Observer()), store, Observer())
    (entry,) = [each for each in atlas.entries if each.subject.kind == "model"]
    assert entry.origin == "composed"
    assert entry.value == pytest.approx(expected["estimate"])
    assert list(entry.interval) == pytest.approx(expected["interval"])
    shares = atlas.bricks_of[entry.subject.signature].shares
    assert sum(each.ms for each in shares) == pytest.approx(entry.value, rel=0.01)


class Notes(Observer):
    """What a user is told."""

    def __init__(self):
        self.told = []

    def note(self, text):
        self.told.append(text)


@pytest.mark.long
def test_estimates_of_a_store_with_very_many_models_end_at_a_limit(stored, whole, monkeypatch):
    own = whole.signature
    path = stored(
        (3.0, own, "model"), *((1.0, "b" * 24, "brick", name) for name in ("pytorch", "mxnet"))
    )
    notes = Notes()
    monkeypatch.setenv("DLBRICKS_MOST_ESTIMATES", "1")
    with ResultStore.open(path) as store:
        store.keep_networks([described(whole, ["net"])])
        atlas = with_unmeasured(read_atlas(store, Observer()), store, notes)
    assert len([each for each in atlas.entries if each.origin == "predicted"]) == 1
    (told,) = notes.told
    assert "not predicted: there are more than 1 estimates, the limit DLBRICKS_MOST_EST" in told
