"""``dlbricks machine calibrate`` on real networks and a real backend."""

import shutil
from dataclasses import replace

import pytest
from dlbricks_prediction.rates import rated
from dlbricks_survey import calibration_command as job
from dlbricks_survey import characterization

from dlbricks_core.figures.statistics import WIDENS
from dlbricks_core.machine.system import current_system
from dlbricks_core.store import ResultStore

pytest.importorskip("onnxruntime")

pytestmark = pytest.mark.usefixtures("kept_workers")

QUICK = ("--backend", "onnxruntime", "--threads", "1", "--runs", "3", "--store", "s.sqlite")
FORGET = ("--forget", "--backend", "onnxruntime", "--threads", "1", "--store", "s.sqlite")


@pytest.fixture
def networks(shared):
    return [shared("a", "Relu", "Sigmoid"), shared("b", "Tanh", "Relu", "Sigmoid", size=24)]


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """Store of the first test that calibrated with the networks, for the others."""
    return tmp_path_factory.mktemp("filled") / "s.sqlite"


@pytest.fixture
def calibrated(dlbricks, networks, read, filled):
    """The calibration with the networks, and all that the command wrote, beside its store."""
    if not filled.exists():
        done = dlbricks("machine", "calibrate", *networks, *QUICK, "--json", "c.json")
        assert done.status == 0, done.err
        shutil.copy("c.json", filled.with_name("c.json"))
        filled.with_name("c.txt").write_text(done.out)
        shutil.copy("s.sqlite", filled)
    else:
        shutil.copy(filled, "s.sqlite")
    return read(filled.with_name("c.json")), filled.with_name("c.txt").read_text()


def test_fitted_numbers_are_stored_with_their_origin_and_used(
    dlbricks, shared, read, networks, calibrated
):
    data, told = calibrated
    assert max(map(len, told.splitlines())) <= 80
    assert "composing_error" in told
    found = data["calibration"]
    assert (found["composer"], found["split"]) == ("segmented", "segments")
    assert [each["name"] for each in found["models"]] == ["a", "b"]
    errors = {each["name"]: each["error"] for each in data["evaluation"]["models"]}
    assert {each["name"]: each["error"] for each in found["models"]} == errors
    (parameter,) = data["parameters"]
    assert (parameter["name"], parameter["default"]) == ("composing_error", 0.03)
    assert found["values"] == {"composing_error": parameter["value"]}
    other = shared("other", "Relu", "Tanh", size=40)
    again = dlbricks(
        "estimate", "--measure", other, networks[0], *QUICK, "--json", "r.json", "--html", "r.html"
    )
    assert "with 2 networks: composing_error" in again.out.replace("\n", " ")
    run = read("r.json")
    assert run["calibration"] == found
    assert run["models"][0]["notes"] == []
    assert run["models"][1]["notes"][0]["code"] == "calibrated-on-it"
    stored = dlbricks("estimate", other, *QUICK, "--json", "e.json")
    assert stored.status == 0, stored.err
    assert read("e.json")["calibration"] == found
    assert read("e.json")["models"][0]["interval"] == run["models"][0]["interval"]


@pytest.fixture
def used(dlbricks, read, networks):
    """The calibration that an estimate with these options uses."""

    def calibration(*options):
        done = dlbricks("estimate", networks[0], *QUICK, *options, "--json", "e.json")
        assert done.status == 0, done.err
        return read("e.json")["calibration"]

    return calibration


def test_a_calibration_holds_for_its_composer_backend_and_threads_until_forgotten(
    dlbricks, calibrated, used
):
    assert used() == calibrated[0]["calibration"]
    for other in (("--composer", "similar"), ("--split", "segments"), ("--threads", "2")):
        assert used(*other) is None
    assert dlbricks("machine", "calibrate", *FORGET).out.strip() == "Forgotten."
    assert "No calibration was stored" in dlbricks("machine", "calibrate", *FORGET).out
    assert used() is None


def test_the_fastest_composer_is_fitted_with_all_bricks_timed(dlbricks, shared, read):
    quick = (*QUICK, "--composer", "similar", "--json", "c.json")
    alike = [shared(f"alike{size}", "Relu", size=size) for size in (64, 96, 128)]
    done = dlbricks("machine", "calibrate", *alike, *quick)
    assert done.status == 0, done.err
    data = read("c.json")
    assert data["totals"]["timed_bricks"] == data["totals"]["unique_bricks"]
    assert not any(each["derived_from"] for each in data["bricks"])
    assert set(data["calibration"]["values"]) == {
        "composing_error", "computing_share", "inference_error"
    }  # fmt: skip
    others = [shared(f"other{size}", "Tanh", size=size) for size in (64, 96)]
    used = dlbricks("estimate", "--measure", *others, *quick)
    assert used.status == 0, used.err
    assert read("c.json")["calibration"] == data["calibration"]
    assert any(each["derived_from"] for each in read("c.json")["bricks"])


def test_a_network_that_cannot_be_timed_is_left_out_by_name(
    dlbricks, read, strange, networks, used
):
    done = dlbricks("machine", "calibrate", strange, networks[0], *QUICK, "--json", "c.json")
    assert done.status == 3
    assert "Left out: strange" in done.out
    assert [each["name"] for each in read("c.json")["calibration"]["models"]] == ["a"]
    before = used()
    alone = dlbricks("machine", "calibrate", strange, *QUICK, "--json", "c.json")
    assert alone.status == 3
    assert "Nothing was fitted" in alone.out
    assert read("c.json")["calibration"] is None
    assert used() == before is not None


def test_calibrations_that_make_no_sense_are_refused(dlbricks, networks):
    for arguments, reason in (
        (("-G", "1", *QUICK), "'sequential' has nothing to calibrate"),
        (("--composer", "parallel", *FORGET), "'parallel' has nothing to calibrate"),
        ((*FORGET, networks[0]), "--forget fits nothing: leave out the MODELs"),
        ((*FORGET, "--runs", "3"), "--forget fits nothing: leave out --runs"),
        ((*FORGET, "--batch", "2"), "--forget fits nothing: leave out --batch"),
        ((*FORGET, "--json", "c.json"), "leave out --json"),
        (("--composer", "best", *QUICK), "unknown composer"),
        (("absent.onnx", *QUICK), "does not exist"),
    ):
        refused = dlbricks("machine", "calibrate", *arguments)
        assert refused.status == 2
        assert reason in refused.err


@pytest.fixture
def few_candidates(monkeypatch):
    """Lets a command choose probes among few networks, for few others.

    What it chooses is tested in ``tests/survey/test_characterization.py``.
    """
    monkeypatch.setattr(characterization, "_DRAWN", 12)
    monkeypatch.setattr(characterization, "_MOST_ASKED", 4)


def test_probes_are_timed_and_kept(dlbricks, shared, read, monkeypatch, few_candidates):
    monkeypatch.setattr(job, "rated", dict)  # on a machine that the atlas lacks, they come first
    network = shared("a", "Relu", "Tanh", size=64)
    quick = (*QUICK[:-4], "--store", "s.sqlite", "--json", "p.json")
    done = dlbricks("machine", "calibrate", network, "--probes", "2", "--runs", "3", *quick)
    assert done.status == 0, done.err
    assert max(map(len, done.out.splitlines())) <= 80
    data = read("p.json")
    # Where the atlas holds this system, one tells all that two would.
    count = len(data["probes"])
    assert count in (1, 2)
    assert f"{count} probe" in done.out.replace("\n", " ")
    assert all(each["measured"] > 0 for each in data["probes"])
    assert [each["name"] for each in data["networks"]] == ["a"]
    assert data["half_width"] < data["half_width_before"]
    again = dlbricks("machine", "calibrate", network, "--probes", "1", "--runs", "3", *quick)
    assert again.status == 0, again.err
    more = read("p.json")
    assert more["known"] == data["known"] + count
    asked = {probe["signature"] for probe in data["probes"]}
    assert asked.isdisjoint(probe["signature"] for probe in more["probes"])


def test_rates_are_timed_once_and_shown_with_the_machine(
    dlbricks, read, monkeypatch, few_candidates
):
    quick = (*QUICK[:-4], "--store", "s.sqlite")
    few = dict(list(rated().items())[-3:])
    monkeypatch.setattr(job, "rated", lambda: few)
    other = replace(current_system(), cpu="Other 9000")  # the reference data may hold this one
    monkeypatch.setattr("dlbricks_core.measure.request.current_system", lambda: other)
    for known in (0, 3):
        done = dlbricks(
            "machine", "calibrate", "--rates", "--runs", "3", *quick, "--json", "p.json"
        )
        assert done.status == 0, done.err
        data = read("p.json")
        assert {each["signature"] for each in data["probes"]} == (set() if known else {*few})
        # They are not timed again either if no other network may rest on them.
        with ResultStore.open("s.sqlite") as store:
            store.mark([each.question for each in store.measurements()], WIDENS)
    shown = dlbricks("machine", "show", data["system"]["fingerprint"], "--store", "s.sqlite",
                     "--json", "m.json")  # fmt: skip
    assert "call of a small layer" in shown.out
    assert "onnxruntime, 1 thread" in shown.out
    (rates,) = read("m.json")["rates"]
    assert (rates["backend"], rates["threads"]) == ("onnxruntime", 1)
    assert [each["unit"] for each in rates["rates"]] == ["GB/s", "GB/s", "us"]
    assert all(each["value"] > 0 for each in rates["rates"])


def test_probes_come_after_the_rates(dlbricks, shared, read, monkeypatch, few_candidates):
    few = dict(list(rated().items())[-2:])
    monkeypatch.setattr(job, "rated", lambda: few)
    other = replace(current_system(), cpu="Other 9001")  # the reference data may hold this one
    monkeypatch.setattr("dlbricks_core.measure.request.current_system", lambda: other)
    network = shared("a", "Relu", "Tanh", size=64)
    quick = ("--runs", "3", *QUICK[:-4], "--store", "s.sqlite", "--json", "p.json")
    done = dlbricks("machine", "calibrate", network, "--probes", "1", *quick)
    assert done.status == 0, done.err
    timed = [each["signature"] for each in read("p.json")["probes"]]
    assert few.keys() < {*timed}
    assert len(timed) == len(few) + 1


def test_options_that_say_nothing_about_probes_are_refused(dlbricks, networks):
    for arguments in (("--forget",), ("--precision", "1%"), ("--composer", "similar"), ("-G", "1")):
        refused = dlbricks(
            "machine", "calibrate", *arguments, "--probes", "1", "--backend", "onnxruntime"
        )
        assert refused.status == 2
        assert "fits nothing: leave out" in refused.err
    refused = dlbricks("machine", "calibrate", "--rates", "-G", "1", "--backend", "onnxruntime")
    assert (refused.status, "--rates fits nothing: leave out" in refused.err) == (2, True)
    assert dlbricks("machine", "calibrate", "--probes", "0", "--backend", "onnxruntime").status == 2
