"""``dlbricks study`` on a real backend."""

import csv
import json
import lzma
import math
import re
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest

pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.usefixtures("kept_workers")

QUICK = ("--backend", "onnxruntime", "--threads", "1", "--store", "results.sqlite", "-G", "1,2",
         "--runs", "2")  # fmt: skip
WAYS = [("sequential", 1), ("sequential", 2), ("segmented", 128), ("similar", 128)]


@pytest.fixture(scope="module")
def done(in_folder, chain, tmp_path_factory):
    """Folder of a study of two models, and what it printed."""
    folder = tmp_path_factory.mktemp("studied")
    for name, operators in ("a", ["Relu", "Sigmoid", "Relu"]), ("b", ["Relu", "Tanh", "Tanh"]):
        model = chain(*operators, size=64, batch="N", name=name)
        onnx.save(model, folder / f"{name}.onnx")
    done = in_folder(folder, "study", "a.onnx", "b.onnx", *QUICK, "--batch", "2", "--json",
                   "copy.json")  # fmt: skip
    assert done.status == 0, done.err
    return folder, done.out


@pytest.fixture
def studied(done, dlbricks, tmp_path):
    """What the study printed; the current folder has copies of its files."""
    folder, out = done
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    return out


@pytest.fixture
def without_plots(monkeypatch):
    """Makes pages empty, since most of a small study's time goes into their plots."""
    monkeypatch.setattr("dlbricks_study.command.study_page", lambda *_: "")


def rows(name, folder="study"):
    with Path(folder, f"{name}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def by_way(name):
    found = {}
    for row in rows(name):
        found.setdefault((row["composer"], int(row["granularity"])), []).append(row)
    return found


def test_a_study_of_two_networks_covers_both_granularities(studied, read, tmp_path):
    assert max(map(len, studied.splitlines())) <= 80
    for word in ("G=1", "G=2", "segmented", "Geo. mean", "MAPE", "study/index.html"):
        assert word in studied
    data = read("study/study.json")
    assert data == read("copy.json")
    assert data["schema_version"] == 2
    assert data["settings"]["granularities"] == [1, 2]
    assert data["settings"]["runs"] == 2
    assert data["measured"]["sessions"] == 1
    assert [(e["composer"], e["granularity"]) for e in data["evaluations"]] == WAYS
    assert data["published"] is None
    assert "signature" not in data["evaluations"][0]

    # The figures follow from the tables.
    normalized, totals, bricks = (by_way(n) for n in ("normalized", "granularities", "bricks"))
    speedups = by_way("speedups")
    latencies = {row["model"]: float(row["measured_ms"]) for row in rows("latency")}
    assert list(latencies) == ["a", "b"]
    for way, found in zip(WAYS, data["evaluations"], strict=True):
        ratios = []
        for row, each in zip(normalized[way], found["models"], strict=True):
            ratio = float(row["estimate_ms"]) / latencies[row["model"]]
            assert float(row["normalized"]) == each["normalized"] == pytest.approx(ratio)
            assert float(row["error"]) == each["error"] == pytest.approx(ratio - 1)
            low, high = each["interval"]
            assert (float(row["low_ms"]), float(row["high_ms"])) == (low, high)
            assert each["covered"] is (row["covered"] == "1")
            # The interval of this hour, which decides, lies within that of any quiet hour.
            assert low <= each["measured"] <= high or not each["covered"]
            ratios.append(ratio)
        (total,) = totals[way]
        assert float(total["geometric_mean"]) == pytest.approx(math.exp(np.log(ratios).mean()))
        assert found["geometric_mean"] == float(total["geometric_mean"])
        errors = np.abs(np.array(ratios) - 1)
        assert float(total["mape"]) == found["mape"] == pytest.approx(errors.mean())
        assert float(total["within_10_percent"]) == pytest.approx((errors <= 0.1).mean())
        assert float(total["worst_error"]) == pytest.approx(ratios[errors.argmax()] - 1)
        assert int(total["unique_bricks"]) == found["unique_bricks"] >= len(bricks[way])
        assert int(total["timed_bricks"]) == found["timed_bricks"] == len(bricks[way])
        (paper,) = [row for row in speedups[way] if row["definition"] == "paper"]
        bricks_s = sum(float(row["latency_ms"]) for row in bricks[way]) / 1e3
        assert float(paper["bricks_s"]) == pytest.approx(bricks_s)
        assert float(paper["models_s"]) == pytest.approx(sum(latencies.values()) / 1e3)
        for row in speedups[way]:
            costs = found["speedup"][row["definition"]]
            assert float(row["speedup"]) == costs["speedup"] > 0
        assert {row["definition"] for row in speedups[way]} == {"paper", "wall_clock"}
    # Layer by layer, the bricks are the unique layers.
    assert data["evaluations"][0]["unique_bricks"] == data["totals"]["unique_layers"]
    sequential = {row["model"]: float(row["sequential_normalized"]) for row in rows("totals")}
    for row in normalized["sequential", 1]:
        assert float(row["normalized"]) == sequential[row["model"]]

    # What the models have in common.
    for row, model in zip(rows("layers"), data["models"], strict=True):
        assert int(row["layers"]) == model["layers"] == len(model["signatures"])
        assert int(row["unique_layers"]) == len(set(model["signatures"]))
        types = [each for each in rows("repeated_types") if each["model"] == row["model"]]
        repeated = int(row["layers"]) - int(row["unique_layers"])
        assert sum(int(each["repeated_layers"]) for each in types) == repeated
        assert sum(float(each["share_of_repeated"]) for each in types) == pytest.approx(1)
    first, second = (set(model["signatures"]) for model in data["models"])
    alike = {(r["first"], r["second"]): float(r["jaccard"]) for r in rows("jaccard")}
    assert len(alike) == 4
    assert alike["a", "b"] == pytest.approx(len(first & second) / len(first | second))
    assert 0 < alike["a", "b"] < 1

    page = (tmp_path / "study" / "index.html").read_text(encoding="utf-8")
    for number in (3, 5, 6, 7, 9, 10, 11, 12):
        assert f"Figure {number} of the paper" in page
    # Each plot is there for wide screens and for phones, the matrix of similarities once.
    assert page.count("<svg") == 2 * 10 + 1
    assert f"{data['evaluations'][2]['geometric_mean']:.3f}" in page


def test_a_report_can_be_written_again_from_its_data(dlbricks, studied, monkeypatch):
    assert dlbricks("study", "--from", "study/study.json", "-o", "again").status == 0
    written = {path.name for path in Path("study").iterdir()}
    assert {path.name for path in Path("again").iterdir()} == written
    assert "index.html" in written
    for name in written - {"index.html"}:
        assert Path("again", name).read_bytes() == Path("study", name).read_bytes()
    assert page("again") == page("study")

    monkeypatch.setattr("dlbricks_study.command.study_page", str)
    line = Path("study/study.json").read_text(encoding="utf-8").replace("\n", "")
    with lzma.open("two.jsonl.xz", "wt", encoding="utf-8") as file:
        file.write(f"{line}\n{line}\n")
    done = dlbricks("study", "--from", "two.jsonl.xz", "-o", "two")
    assert done.status == 0
    assert "2 models on onnxruntime" in done.out
    for place in "two/1", "two/2":
        assert {path.name for path in Path(place).iterdir()} == written
        assert Path(place, "study.json").read_bytes() == Path("study/study.json").read_bytes()


@pytest.mark.parametrize(
    "change",
    [
        lambda study: study["evaluations"].__setitem__(0, 1),
        lambda study: study["evaluations"][0].__setitem__("speedup", {"all": {}}),
        lambda study: study["evaluations"][0].__setitem__("granularity", "x"),
    ],
)
def test_a_study_of_another_structure_is_refused(dlbricks, studied, tmp_path, change):
    study = json.loads((tmp_path / "study" / "study.json").read_text())
    change(study)
    (tmp_path / "other.json").write_text(json.dumps(study))
    done = dlbricks("study", "--from", "other.json", "-o", "again")
    assert done.status == 2
    assert "other.json holds a study whose values do not fit together" in done.err


def page(folder):
    """A report's page without the identifiers of its plots and the time."""
    text = Path(folder, "index.html").read_text(encoding="utf-8")
    return re.sub(r"<dt>Written.*|\b(id|href|url)=\"[^\"]*\"|url\(#[^)]*\)", "", text)


def test_an_interrupted_study_can_be_continued(dlbricks, save, read, monkeypatch, without_plots):
    from dlbricks_core.store import ResultStore

    a, b = save("a", "Relu", "Sigmoid"), save("b", "Relu", "Tanh")
    kept = ResultStore.add_all
    turns = []

    def keep(self, taken, **more):
        if len(turns) == 1:
            raise KeyboardInterrupt
        turns.append(taken)
        kept(self, taken, **more)

    monkeypatch.setattr(ResultStore, "add_all", keep)
    stopped = dlbricks("study", a, b, *QUICK)
    assert stopped.status == 130
    assert "run it again to go on" in stopped.err
    monkeypatch.setattr(ResultStore, "add_all", kept)
    assert dlbricks("study", a, b, *QUICK, "--verbose").status == 0
    data = read("study/study.json")
    assert data["measured"]["sessions"] == 2
    assert all(len(model["measured_samples"]) == 2 for model in data["models"])
    monkeypatch.setattr(ResultStore, "add_all", keep)
    again = dlbricks("study", a, b, *QUICK, "-o", "again/deep", "--verbose")
    assert again.status == 0
    assert "Timing" not in again.err
    evaluations = read("again/deep/study.json")["evaluations"]
    assert [each["composer"] for each in evaluations[2:]] == ["segmented", "similar"]
    assert evaluations[:2] == data["evaluations"][:2]
    # Rewriting is part of every run, and its time varies.
    for before, after in zip(data["evaluations"][2:], evaluations[2:], strict=True):
        assert before["models"] == after["models"]


def test_models_that_fail_are_named_and_left_out(dlbricks, save, read, strange, tmp_path):
    good = save("good", "Relu", "Sigmoid")
    done = dlbricks("study", strange, good, *QUICK)
    assert done.status == 3
    said = " ".join(done.out.split())
    assert "Left out of the figures: strange (G=1, G=2, segmented, similar)" in said
    data = read("study/study.json")
    assert [each["name"] for each in data["left_out"]] == ["strange"]
    assert any("nowhere" in each["reason"] for each in data["failures"])
    assert {row["model"] for row in rows("normalized")} == {"good"}
    assert {row["models"] for row in rows("granularities")} == {"1"}
    page = (tmp_path / "study" / "index.html").read_text(encoding="utf-8")
    assert "Left out of the figures" in page
    alone = dlbricks("study", strange, *QUICK)
    assert alone.status == 3
    assert read("study/study.json")["evaluations"][0]["geometric_mean"] is None
    assert rows("normalized") == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-G", "0"), "from 1 upwards"),
        (("-G", "3-1"), "from 1 upwards"),
        (("-G", "some"), "write 1-10 or 1,3,5"),
        (("-G", "1-100000000"), "too many"),
        (("--quick",), "--quick and --runs contradict each other"),
        (("-o", "results.txt"), "the folder results.txt cannot be written"),
    ],
)
def test_wrong_input_is_refused_before_measuring(dlbricks, save, tmp_path, arguments, message):
    (tmp_path / "results.txt").write_text("")
    done = dlbricks("study", save("a", "Relu"), *QUICK, *arguments)
    assert done.status == 2
    assert message in " ".join(done.err.split())
    assert not (tmp_path / "results.sqlite").exists()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("absent.json", None, "cannot be read"),
        ("plain.json.xz", b"{}", "cannot be read"),
        ("broken.json", b"{", "is not JSON"),
        ("deep.json", b'{"bricks": ' + b"[" * 100_000, "is nested too deeply"),
        ("list.json", b"[]", "an object is expected"),
        ("run.json", b'{"bricks": []}', "holds no study"),
        (
            "old.json",
            b'{"bricks": [], "evaluations": [], "published": null, "schema_version": 1}',
            "holds a study of version 1; this DLBricks reads version 2",
        ),
    ],
)
def test_files_that_are_no_studies_are_refused(dlbricks, tmp_path, name, content, message):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    done = dlbricks("study", "--from", name, "-o", "again")
    assert done.status == 2
    assert message in " ".join(done.err.split())
    assert ("Hint: Name a study.json" in done.err) == (name != "old.json")


@pytest.mark.parametrize(
    ("more", "name"),
    [
        (("a.onnx",), "the MODELs"),
        (("--backend", "onnxruntime"), "--backend"),
        (("--seed", "0"), "--seed"),
        (("--batch", "2"), "--batch"),
        (("--store", "s.sqlite"), "--store"),
    ],
)
def test_a_report_from_data_measures_nothing(dlbricks, more, name):
    done = dlbricks("study", *more, "--from", "study.json")
    assert done.status == 2
    assert f"--from measures nothing: leave out {name}." in " ".join(done.err.split())


def test_a_study_without_a_model_is_refused(dlbricks):
    assert dlbricks("study", *QUICK).status == 2


def test_a_quick_study_takes_few_runs(dlbricks, save, read, without_plots):
    from dlbricks_study.experiments import QUICK_RUNS

    done = dlbricks("study", save("a", "Relu"), *QUICK[:-2], "--quick", "--json", "-")
    assert done.status == 0
    assert done.out.startswith("{")
    assert read("study/study.json")["settings"]["runs"] == QUICK_RUNS
