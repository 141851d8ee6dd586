"""The main job through the command line, on a real backend."""

import json
import math
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import onnx
import pytest

from dlbricks_core.figures.protocols import PROTOCOLS
from dlbricks_core.figures.statistics import faster_half

pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.usefixtures("kept_workers")

BACKEND = ("--backend", "onnxruntime", "--threads", "1")
QUICK = (*BACKEND, "--composer", "sequential", "--runs", "3", "--store", "results.sqlite",
         "--end-to-end")  # fmt: skip


BRANCHES = """<ir_version: 8, opset_import: ["" : 17]>
branches (float[1, 200000] x) => (float[1, 200000] y)
{ a = Tanh(x)  b = Sin(x)  y = Add(a, b) }"""


@dataclass
class Ran:
    """A run of two models, and a run of the first one by the paper's protocol.

    Attributes:
        folder: The folder of both runs, with their models and their store.
        out: What they printed.
        err: What they wrote to the standard error.
    """

    folder: Path
    out: list[str]
    err: list[str]

    @property
    def models(self):
        return self.folder / "a.onnx", self.folder / "b.onnx"

    def data(self, name):
        return json.loads((self.folder / name).read_text())


@pytest.fixture(scope="module")
def done(tmp_path_factory, chain, in_folder):
    folder = tmp_path_factory.mktemp("ran")
    onnx.save(chain("Relu", "Relu", "Sigmoid", name="a"), folder / "a.onnx")
    long = "b_model_with_quite_a_long_name"
    onnx.save(chain("Relu", "Tanh", name=long), folder / "b.onnx")
    ran = Ran(folder, [], [])
    paper = (*QUICK[:-1], "-G", "4", "--protocol", "paper")
    for line in (
        (*QUICK, *ran.models, "--json", "out.json"),
        (*paper, ran.models[0], "--json", "paper.json"),
    ):
        finished = in_folder(folder, *line)
        assert finished.status == 0, finished.err
        ran.out.append(finished.out)
        ran.err.append(finished.err)
    return ran


@pytest.fixture
def ran(done, dlbricks, tmp_path):
    """Those runs; a copy of their store is the one of the next command."""
    shutil.copy(done.folder / "results.sqlite", tmp_path)
    return done


def test_json_of_a_run_keeps_to_the_contract(ran):
    assert "Traceback" not in ran.err[0]
    data = ran.data("out.json")
    assert data["schema_version"] == 2
    assert data["backend"]["name"] == "onnxruntime"
    assert data["backend"]["settings"] == {"optimizations": "all"}
    settings = data["settings"]
    assert (settings["granularity"], settings["composer"]) == (1, "sequential")
    assert (settings["protocol"], settings["runs"]) == ("interleaved", 3)
    assert (settings["threads"], settings["batch"], settings["seed"]) == (1, 1, 0)
    first, second = data["models"]
    assert (first["name"], first["layers"], first["unique_layers"]) == ("a", 6, 3)
    assert (second["layers"], second["unique_layers"], second["bricks"]) == (4, 3, 4)
    for model in data["models"]:
        low, high = model["interval"]
        assert 0 < low <= model["estimate"] <= high
        assert model["parallel_estimate"] == pytest.approx(model["estimate"])
        assert model["normalized"] == pytest.approx(model["estimate"] / model["measured"])
        assert (model["partial"], model["missing"], model["unsupported"]) == (False, [], [])
        assert len(model["measured_samples"]) == 3
    assert [(b["layers"], b["occurrences"]) for b in data["bricks"]] == [
        (["MatMul"], 5), (["Relu"], 3), (["Sigmoid"], 1), (["Tanh"], 1),
    ]  # fmt: skip
    for brick in data["bricks"]:
        assert len(brick["samples"]) == 3
        assert brick["value"] == pytest.approx(faster_half(brick["samples"]))
    bench = data["benchmarking"]
    models = sum(m["measured"] for m in data["models"]) / 1e3
    bricks = sum(b["value"] for b in data["bricks"]) / 1e3
    assert bench["models_s"] == pytest.approx(models)
    assert bench["bricks_s"] == pytest.approx(bricks)
    assert bench["speedup"] == pytest.approx(models / bricks)
    wall = bench["wall_clock"]
    assert (wall["models_runs"], wall["bricks_runs"]) == (6, 12)
    assert wall["speedup"] == pytest.approx(wall["models_s"] / wall["bricks_s"])
    assert data["failures"] == []


def test_the_estimate_is_the_sum_less_the_cost_of_calls(ran):
    data = ran.data("out.json")
    call = data["timer"]["call_ms"]
    own = {tuple(b["layers"]): max(b["value"] - call, 0) for b in data["bricks"]}
    for model, operators in zip(
        data["models"], (["Relu", "Relu", "Sigmoid"], ["Relu", "Tanh"]), strict=True
    ):
        total = call + sum(own["MatMul",] + own[each,] for each in operators)
        assert model["estimate"] == pytest.approx(total)


def test_a_second_run_measures_only_what_is_missing(dlbricks, save, read, ran, known):
    a, b = ran.models
    c = save("c", "Relu", "Elu")
    again = dlbricks(*QUICK, a, b, "--json", "again.json")
    assert "nothing left to measure" in again.out
    assert known(ran.folder / "out.json", "bricks") == known("again.json", "bricks")
    first = ran.data("out.json")["bricks"]
    origins = [each["origin"] for each in (first[0], read("again.json")["bricks"][0])]
    assert origins == ["measured", "stored"]
    more = dlbricks(*QUICK, a, c)
    assert "4 networks came from the store, 2 measured now" in more.out
    assert "another session" in more.out
    forced = dlbricks(*QUICK, b, "--force", "--json", "forced.json")
    assert "from the store" not in forced.out
    assert more.err == "1 of 2 models reused from an earlier import.\n"
    samples = [each["samples"] for each in (first[0], read("forced.json")["bricks"][0])]
    assert samples[0] != samples[1]
    dlbricks(*QUICK, "--runs", "5", b, "--json", "five.json")
    five = read("five.json")["bricks"][0]["samples"]
    assert five[:3] == samples[1]
    assert len(five) == 5


def test_networks_that_memory_does_not_hold_together_are_named(dlbricks, ran, monkeypatch):
    assert "before or after" not in ran.out[0]
    monkeypatch.setattr("dlbricks_core.measure.session._LOADED_SHARE", 1e-9)
    found = " ".join(dlbricks(*QUICK, ran.models[1], "--force").out.split())
    assert "3 of 3 bricks were timed before or after the whole model" in found


def test_other_settings_are_other_measurements(dlbricks, ran):
    assert "from the store" not in ran.out[1]
    other = ("--backend-option", "optimizations=off")
    assert "from the store" not in dlbricks(*QUICK, *other, ran.models[1]).out


def test_samples_of_an_older_protocol_are_other_measurements(dlbricks, ran, monkeypatch):
    older = replace(PROTOCOLS["interleaved"], identity="interleaved/0")
    with monkeypatch.context() as patch:
        patch.setitem(PROTOCOLS, "interleaved", older)
        assert "from the store" not in dlbricks(*QUICK, ran.models[1]).out
        assert "nothing left to measure" in dlbricks(*QUICK, ran.models[1]).out


def test_granularity_and_the_papers_protocol_can_be_chosen(ran):
    assert "20% trimmed mean" in " ".join(ran.out[1].split())
    data = ran.data("paper.json")
    assert [b["layers"] for b in data["bricks"]] == [
        ["MatMul", "Relu", "MatMul", "Relu"], ["MatMul", "Sigmoid"],
    ]  # fmt: skip
    assert data["models"][0]["bricks"] == 2


def test_unless_it_is_asked_for_nothing_is_compared(ran):
    (model,) = ran.data("paper.json")["models"]
    assert model["measured"] is None
    assert model["normalized"] is None
    assert model["estimate"] > 0


def test_the_parallel_composer_answers_when_asked(dlbricks, read, tmp_path):
    onnx.save(onnx.parser.parse_model(BRANCHES), tmp_path / "branches.onnx")
    args = ("--json", "out.json", "branches.onnx", "--runs", "2", *BACKEND, "--store", "s.db")
    dlbricks(*args, "--composer", "parallel")
    (model,) = read("out.json")["models"]
    assert model["estimate"] == model["parallel_estimate"]
    dlbricks(*args, "--composer", "sequential")
    (sequential,) = read("out.json")["models"]
    assert sequential["estimate"] > model["estimate"]


def test_json_on_standard_output_is_alone_there(dlbricks, ran):
    done = dlbricks(*QUICK, *ran.models, "--json", "-")
    assert json.loads(done.out)["models"][0]["name"] == "a"


def test_quiet_says_nothing_and_the_table_fits_80_columns(dlbricks, ran):
    (loud, _) = ran.out
    assert max(map(len, loud.splitlines())) <= 80
    assert "Benchmarking speedup" in loud
    quiet = dlbricks(*QUICK, *ran.models, "--force", "-q")
    assert (quiet.out, quiet.err) == ("", "")


def test_no_progress_bar_where_nobody_watches(ran):
    assert ran.err[0] == ""
    assert "\x1b" not in ran.out[0]


def test_all_numbers_in_json_are_finite(ran):
    def numbers(value):
        if isinstance(value, dict):
            for each in value.values():
                yield from numbers(each)
        elif isinstance(value, list):
            for each in value:
                yield from numbers(each)
        elif isinstance(value, float):
            yield value

    assert all(math.isfinite(n) for n in numbers(ran.data("out.json")))
