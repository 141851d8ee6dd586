"""``dlbricks machine survey`` on a real backend."""

from pathlib import Path

import pytest
from dlbricks_prediction import Contribution
from dlbricks_prediction.training_data import contributions
from dlbricks_survey import surveying as module

from dlbricks_core.store import ResultStore

pytest.importorskip("onnxruntime")

pytestmark = pytest.mark.usefixtures("kept_workers")

STORE = ("--store", "s.sqlite")
QUICK = ("--backend", "onnxruntime", "--threads", "1", "--budget", "1s", *STORE)


@pytest.fixture
def surveyed(dlbricks, save, monkeypatch):
    """A survey of few networks, and how to repeat it."""
    monkeypatch.setattr(module, "_FIRST_BATCH", 24)
    path = save("a", "Relu", "Sigmoid")

    def again(*more):
        return dlbricks("machine", "survey", path, *QUICK, *more)

    return again


def test_networks_are_timed_the_next_survey_goes_on_and_all_are_packed(surveyed, dlbricks, read):
    done = surveyed("--json", "s.json")
    assert done.status == 0, done.err
    assert max(map(len, done.out.splitlines())) <= 80
    first = read("s.json")
    assert first["networks"] == first["measured"] >= 24
    assert first["settings"] == {"threads": 1, "runs": 8, "budget_s": 1.0, "seed": 0}
    drawn = sum(each["networks"] for each in first["families"])
    assert 15 < drawn < first["networks"]
    second_run = surveyed("absent.onnx", "--json", "s.json")
    assert second_run.status == 3, second_run.err
    assert "absent.onnx" in second_run.out
    second = read("s.json")
    (failure,) = second["failures"]
    assert (failure["where"], failure["stage"]) == ("absent.onnx", "read")
    assert second["networks"] == first["networks"] + second["measured"]
    assert second["measured"] >= 24
    with ResultStore.open("s.sqlite", writes=False) as store:
        (found,) = contributions(store)
        measured = list(store.measurements())
    assert len(measured) == len(found) == second["networks"]
    assert {len(each.values) for each in measured} == {8}
    assert second["predictions"]["networks"] >= 5
    assert 0 < second["predictions"]["half_width"] < 1
    packed = dlbricks("machine", "survey", "--pack", "atlas", *STORE, "--json", "p.json")
    assert packed.status == 0, packed.err
    (file,) = read("p.json")["files"]
    assert file["path"] in packed.out
    found = Contribution.read(Path(file["path"]))
    assert len(found) == file["networks"] == second["networks"]
    assert any(group.startswith("file:") for group in found.groups)
    assert any(group.startswith("survey:") for group in found.groups)


def test_what_cannot_be_is_refused_in_one_line(dlbricks, save):
    path = save("a", "Relu")
    for arguments, reason in (
        ((), "--backend"),
        (("--pack", "atlas", path), "leave out the MODELs"),
        (("--pack", "atlas", *QUICK), "leave out --threads"),
        (("--pack", "atlas", "--budget", "600s"), "leave out --budget"),
        (("--pack", "atlas", "--batch", "2"), "leave out --batch"),
        (("--pack", "atlas", "--family", "pool"), "leave out --family"),
        (("--family", "pools", *QUICK), "half_floats"),
        (("--extend", "--backend", "onnxruntime", *STORE), "without --pack: leave out --extend"),
        (("--pack", "atlas", *STORE), "there is no result store"),
        (("--pack", path), "is a file"),
        (("nowhere:", *QUICK), "nowhere"),
        (("--backend", "nothing", *STORE), "nothing"),
        (("--backend", "onnxruntime", "--budget", "long"), "is not a time"),
    ):
        refused = dlbricks("machine", "survey", *arguments)
        assert refused.status == 2, arguments
        assert reason in refused.err
        assert "Traceback" not in refused.err
