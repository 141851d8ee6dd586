"""Records of runs, done again with a real framework."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import onnx
import pytest
from dlbricks_records.contents import merge, records

from dlbricks_core.facts import Measurement, Session
from dlbricks_core.store import ResultStore

pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.usefixtures("kept_workers")

ONE = ("--backend", "onnxruntime", "--threads", "1", "--runs", "3", "--store", "s.sqlite")


@pytest.fixture(scope="module")
def folder(tmp_path_factory, chain, in_folder):
    """A folder with a model whose file tells its licence, and records of what was done with it.

    ``both.json`` is of a run that had another model, which a collection names; ``spec.json`` is
    of a run on the model alone; ``estimate.json`` and ``estimates.json`` are of estimates.
    """
    folder = tmp_path_factory.mktemp("recorded")
    proto = chain("Relu", "Tanh", size=64, batch=16, name="net")
    onnx.helper.set_model_props(proto, {"License": "MIT", "model_author": "somebody"})
    onnx.save(proto, folder / "net.onnx")
    run = ("estimate", "--measure", "net.onnx", *ONE, "--end-to-end", "--json")
    lines = [
        (*run, "two.json", "onnx:squeezenet"),
        ("results", "record", "two.json", "--json", "both.json"),
        (*run, "run.json"),
        ("results", "record", "run.json", "--json", "spec.json"),
        ("estimate", "net.onnx", *ONE, "--json", "estimate.json"),
        ("estimate", "net.onnx", "onnx:squeezenet", *ONE, "--json", "estimates.json"),
    ]
    for line in lines:
        assert in_folder(folder, *line).status == 0
    return folder


@pytest.fixture
def recorded(folder, dlbricks, tmp_path):
    """The record, in a copy of that folder."""
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    return "spec.json"


def test_a_record_tells_what_was_done(dlbricks, recorded, read):
    assert json.loads(dlbricks("results", "record", "two.json").out) == read("both.json")
    spec, run = read("both.json"), read("two.json")
    net, squeezenet = spec["models"]
    assert (net["licence"], net["author"], net["source"]) == ("MIT", "somebody", "net.onnx")
    assert len(net["sha256"]) == 64
    assert (squeezenet["sha256"], squeezenet["licence"]) == (None, None)
    (backend,) = spec["software"]["backends"]
    assert backend["environment"]["OMP_NUM_THREADS"] == "1"
    assert spec["protocol"]["runs"] == 3
    assert spec["hardware"]["facts"]["fingerprint"] == run["system"]["fingerprint"]
    assert [each["estimate"] for each in spec["results"]] == [
        model["estimate"] for model in run["models"]
    ]


def test_runs_of_whole_models_are_repeated_as_such(dlbricks, recorded, read):
    how = ("--backend", "onnxruntime", "--threads", "1", "--store", "hot.sqlite")
    for command, more in (("estimate", ("--measure",)), ("check", ("--runs", "3"))):
        assert dlbricks(command, "net.onnx", *how, *more, "--json", "hot.json").status == 0
        assert read("hot.json")["settings"]["protocol"] == "hot"
        done = dlbricks(
            "results", "repeat", "hot.json", "--store", "again.sqlite", "--json", "again.json"
        )
        assert done.status == 0, done.err
        assert not any(each["what"] == "protocol" for each in read("again.json")["differences"])


def test_a_record_runs_no_code_unless_the_user_names_it(dlbricks, recorded, read):
    """A record from elsewhere may name any module as the source of a model."""
    record = read("spec.json")
    record["models"][0]["source"] = "torch:evil:make"
    Path("evil.json").write_text(json.dumps(record))
    Path("evil.py").write_text("open('ran', 'w')\n")
    refused = dlbricks("results", "repeat", "evil.json")
    assert refused.status == 2
    assert not Path("ran").exists()
    assert "--source net=torch:evil:make" in " ".join(refused.err.split())
    unknown = dlbricks("results", "repeat", "evil.json", "--source", "other=net.onnx")
    assert unknown.status == 2
    assert "no model 'other'" in unknown.err
    assert dlbricks("results", "repeat", "evil.json", "--source", "net=net.onnx").status == 0
    dlbricks("results", "repeat", "evil.json", "--source", "net=torch:evil:make")
    assert Path("ran").exists()


def test_what_is_done_again_is_measured_anew_and_compared(dlbricks, recorded, read):
    done = dlbricks("results", "repeat", "both.json", "--json", "again.json")
    assert done.status == 0, done.err
    assert "All recorded facts are the same now." in " ".join(done.out.split())
    assert max(map(len, done.out.splitlines())) <= 80
    again = read("again.json")
    assert again["differences"] == []
    assert again["record"] == read("both.json")
    assert [each["name"] for each in again["models"]] == ["net", "light_squeezenet"]
    for each in again["models"]:
        assert each["then"]["measured"] != each["now"]["measured"]
        low, high = each["measured_ratio"]["interval"]
        assert low < each["measured_ratio"]["value"] < high


def test_what_is_not_the_same_is_said_before(dlbricks, recorded, read, save):
    spec = read(recorded)
    (backend,) = spec["software"]["backends"]
    backend["version"] = "0.9"
    backend["environment"]["KMP_AFFINITY"] = "compact"
    spec["hardware"]["facts"] |= {"cpu": "another", "fingerprint": "0" * 16}
    Path(recorded).write_text(json.dumps(spec))
    save("net", "Relu", "Sigmoid", size=64, batch=16)
    done = dlbricks("results", "repeat", recorded, "--json", "again.json")
    assert done.status == 0, done.err
    found = {each["what"]: each["then"] for each in read("again.json")["differences"]}
    assert found["onnxruntime"] == "0.9"
    assert found["onnxruntime, variable KMP_AFFINITY"] == "compact"
    assert found["system, cpu"] == "another"
    assert {"net, structure", "net, hash of the file"} <= found.keys()
    assert done.out.index("Differs: net, structure") < done.out.index("Now/then")


@pytest.fixture
def composed(dlbricks, recorded):
    """Does the recorded estimate again; the store answers, so that nothing is measured."""

    def again(record="estimate.json"):
        return dlbricks("results", "repeat", record, "--store", "s.sqlite", "--json", "again.json")

    return again


def test_a_file_of_the_same_structure_is_told_from_a_changed_one(composed, read, save):
    save("net", "Relu", "Tanh", size=64, batch=16, seed=7)
    composed()
    names = [each["what"] for each in read("again.json")["differences"]]
    assert names == ["net, hash of the file"]


def test_models_are_looked_for_beside_the_record(composed, read, tmp_path):
    folder = tmp_path / "mailed"
    folder.mkdir()
    for name in ("estimate.json", "net.onnx"):
        shutil.move(tmp_path / name, folder / name)
    done = composed("mailed/estimate.json")
    assert done.status == 0, done.err
    assert read("again.json")["differences"] == []


def test_a_model_that_is_not_there_any_more_is_a_failure(composed, read, tmp_path):
    (tmp_path / "net.onnx").unlink()
    done = composed("estimates.json")
    assert done.status == 3
    (failure,) = read("again.json")["failures"]
    assert (failure["where"], failure["stage"]) == ("net", "read")


def test_a_file_that_was_renamed_is_known_by_its_content(composed, read, tmp_path):
    shutil.copy(tmp_path / "net.onnx", tmp_path / "ä new name.onnx")
    (tmp_path / "net.onnx").unlink()
    (tmp_path / "other.onnx").write_bytes(bytes((tmp_path / "ä new name.onnx").stat().st_size))
    done = composed()
    assert done.status == 0, done.err
    again = read("again.json")
    assert again["differences"] == []
    assert [each["name"] for each in again["models"]] == ["net"]


def test_an_estimate_is_composed_again_from_the_store(composed, read):
    done = composed()
    assert done.status == 0, done.err
    (model,) = read("again.json")["models"]
    assert model["then"] == model["now"]
    assert read("again.json")["agree"]


def test_an_estimate_for_one_of_two_equal_machines_is_done_again_for_it(
    dlbricks, recorded, read, tmp_path
):
    for name, factor in ("a.db", 1), ("b.db", 9):
        with ResultStore.open("s.sqlite") as old, ResultStore.open(tmp_path / name) as new:
            merge(new, _slower(records(old), factor, name))
    assert dlbricks("results", "merge", "a.db", "b.db", "--store", "all.db").status == 0
    system = read("run.json")["system"]["fingerprint"]
    named = [f"{system}@host of {name}" for name in ("a.db", "b.db")]
    for host, name in zip(named, ("lab-1", "lab-2"), strict=True):
        assert dlbricks("machine", "name", host, name, "--store", "all.db").status == 0
    asked = ("estimate", "net.onnx", *ONE[:-1], "all.db", "--json", "e.json")
    done = dlbricks(*asked, "--system", "lab-2")
    assert done.status == 0, done.err
    assert "lab-2: " in done.out
    assert read("e.json")["system"]["machine"] == "lab-2"
    assert dlbricks("results", "record", "e.json", "--json", "spec.json").status == 0
    assert read("spec.json")["hardware"]["machine"] == "lab-2"
    again = ("results", "repeat", "spec.json", "--json", "again.json", "--store")
    assert dlbricks(*again, "all.db").status == 0
    (model,) = read("again.json")["models"]
    assert model["then"] == model["now"]
    assert dlbricks("machine", "name", "lab-2", "office", "--store", "all.db").status == 0
    assert dlbricks(*again, "all.db").status == 0
    assert {"what": "machine", "then": "lab-2", "now": ""} in read("again.json")["differences"]
    assert dlbricks(*asked).status == 0
    assert read("e.json")["system"]["machine"] is None


def _slower(records, factor, name):
    """Records as of another machine of the same fingerprint, which is slower."""
    for each in records:
        if isinstance(each, Session):
            yield replace(each, id=f"{each.id} {name}", host=f"host of {name}")
        elif isinstance(each, Measurement):
            taken = [
                replace(
                    one,
                    session=f"{one.session} {name}",
                    values=tuple(factor * value for value in one.values),
                )
                for one in each.observations
            ]
            yield replace(each, observations=tuple(taken))
        else:
            yield each


def test_a_comparison_is_done_again_on_each_framework(dlbricks, recorded, read, twin):
    quick = ("--threads", "1", "--runs", "2", "--store", "s.sqlite")
    dlbricks("compare", "net.onnx", "--backends", "onnxruntime,twin", *quick, "--json", "c.json")
    done = dlbricks("results", "repeat", "c.json", "--json", "again.json")
    assert done.status == 0, done.err
    again = read("again.json")
    assert [each["backend"] for each in again["models"]] == ["onnxruntime", "twin"]
    assert all(each["measured_ratio"]["value"] > 0 for each in again["models"])


def test_wrong_input_is_an_error_in_one_line(dlbricks, recorded):
    dlbricks("show", "net.onnx", "--json", "inspect.json")
    for wrong in ("absent.json", "net.onnx", "inspect.json"):
        for command in ("record", "repeat"):
            done = dlbricks("results", command, wrong)
            assert done.status == 2
            assert done.err.startswith("Error: ")
            assert len(done.err.splitlines()) == 2


@pytest.mark.parametrize("command", ["record", "repeat"])
def test_the_file_that_is_read_is_not_written_over(dlbricks, recorded, command):
    before = Path(recorded).read_bytes()
    done = dlbricks("results", command, recorded, "--json", recorded)
    assert done.status == 2
    assert "names the same file" in done.err
    assert Path(recorded).read_bytes() == before


def test_a_store_keeps_new_samples_in_place_of_its_own(dlbricks, recorded, read):
    done = dlbricks("results", "repeat", recorded, "--store", "s.sqlite", "--json", "again.json")
    assert done.status == 0, done.err
    net = read("again.json")["models"][0]
    assert net["now"]["measured"] != net["then"]["measured"]
    dlbricks("estimate", "net.onnx", *ONE, "--json", "estimate.json")
    assert read("estimate.json")["models"][0]["measured"] == net["now"]["measured"]
