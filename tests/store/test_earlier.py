"""Stores and exported files as they were written before: nothing of them is lost."""

import shutil
from pathlib import Path

import pytest

from dlbricks_core.facts import LATENCY, CalibrationKey, Question, Setup, Subject
from dlbricks_core.store import ResultStore, import_measurements

DATA = Path(__file__).parent / "data"
SETUP = Setup("mxnet", "1.9.1", "{}", 2, "interleaved/8", "0.1.0")
GOOD = Question(Subject("abc", "brick"), LATENCY, SETUP, "sys")
BAD = Question(Subject("bad", "model"), LATENCY, SETUP, "sys")


@pytest.fixture(params=["store", "export"])
def store(request, tmp_path):
    """A store of version 0003, or a new one that an export of version 1 was imported into."""
    path = tmp_path / "results.db"
    if request.param == "store":
        shutil.copy(DATA / "version-0003.db", path)
    with ResultStore.open(path) as opened:
        if request.param == "export":
            assert import_measurements(opened, DATA / "export-1.json") == 2
        yield opened


def test_every_sample_is_there(store):
    first, second = store.get([GOOD])[GOOD].observations
    assert (first.values, first.overhead, first.flags) == ((1.5, 2.5), 0.25, ("far",))
    assert (first.session, first.round, first.spent_s, first.loading_s) == ("s", 0, 1.0, 0.5)
    assert (second.values, second.overhead, second.flags) == ((1.75,), 0.5, ())
    assert store.get([GOOD])[GOOD].layers == ("Conv",)


def test_failures_and_systems_are_there(store):
    assert store.get([BAD])[BAD].failure == "ill"
    assert store.systems() == {"sys": {"cpu": "x"}}


def test_calibrations_are_found(tmp_path):
    shutil.copy(DATA / "version-0003.db", tmp_path / "results.db")
    with ResultStore.open(tmp_path / "results.db") as store:
        found = store.calibration(
            CalibrationKey("segmented", "segments", 128, LATENCY, SETUP, "sys")
        )
    assert found is not None
    assert found.values == {"composing_error": 0.02}
    assert [model.name for model in found.models] == ["m"]
