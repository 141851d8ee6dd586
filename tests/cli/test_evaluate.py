"""``dlbricks check`` on real networks and a real backend."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from dlbricks_core.measure import rewrites
from dlbricks_core.worker import WorkerProcess

pytest.importorskip("onnxruntime")

pytestmark = pytest.mark.usefixtures("kept_workers")

REUSED = "2 of 2 models reused from an earlier import.\n"
QUICK = ("--backend", "onnxruntime", "--threads", "1", "--store", "results.sqlite")


def test_two_networks_are_evaluated_in_the_same_rounds(dlbricks, shared, read, tmp_path):
    networks = shared("first", "Relu", "Tanh", size=64), shared("second", "Sigmoid", size=96)
    done = dlbricks("check", *networks, *QUICK, "-G", "1", "--runs", "4", "--json", "e.json",
                    "--html", "e.html")  # fmt: skip
    assert done.status == 0, done.err
    assert max(map(len, done.out.splitlines())) <= 80
    for word in ("first", "second", "mean absolute error", "geometric mean",
                 "Benchmarking speedup"):  # fmt: skip
        assert word in done.out
    data = read("e.json")
    assert data["schema_version"] == 2
    found = data["evaluation"]
    normalized = []
    for model, each in zip(data["models"], found["models"], strict=True):
        assert each["name"] == model["name"]
        assert (each["estimate"], each["measured"]) == (
            model["estimate"], model["measured"]
        )  # fmt: skip
        assert each["normalized"] == pytest.approx(each["estimate"] / each["measured"])
        assert each["error"] == pytest.approx(each["normalized"] - 1)
        low, high = each["interval"]
        assert each["covered"] is (low <= each["measured"] <= high)
        assert each["same_rounds"] is True
        assert len(model["measured_samples"]) == 4
        normalized.append(each["normalized"])
    errors = np.abs(np.array(normalized) - 1)
    assert found["mape"] == pytest.approx(errors.mean())
    assert found["worst"]["error"] == pytest.approx(normalized[errors.argmax()] - 1)
    assert found["geometric_mean"] == pytest.approx(np.exp(np.log(normalized).mean()))
    assert found["within_5_percent"] <= found["within_10_percent"]
    assert found["left_out"] == []
    for name in ("paper", "wall_clock", "equal_precision"):
        costs = found["speedup"][name]
        assert costs["speedup"] == pytest.approx(costs["models_s"] / costs["bricks_s"])
    wall = data["benchmarking"]["wall_clock"]
    assert found["speedup"]["wall_clock"]["models_s"] == wall["models_s"]
    assert "second" in (tmp_path / "e.html").read_text(encoding="utf-8")


def test_each_model_is_estimated_from_the_runs_of_others(dlbricks, shared, read, strange):
    layers = ["Relu", "Sigmoid"] * 4
    networks = shared("long", *layers, size=256), shared("short", *layers[:4], size=256)
    done = dlbricks("check", *networks, strange, *QUICK, "--json", "e.json", "--html", "e.html")
    assert done.status == 3
    assert "Left out of the figures: strange" in done.out
    assert "without the model's own run" in " ".join(done.out.split())
    data = read("e.json")
    assert data["settings"]["protocol"] == "hot"
    assert [each["name"] for each in data["evaluation"]["models"]] == ["long", "short"]
    for model in data["models"][:2]:
        assert model["measured"] != model["estimate"]
        assert model["measured_samples"]
    again = dlbricks("check", *networks, *QUICK, "--json", "e.json")
    assert again.status == 0
    assert read("e.json")["benchmarking"]["measured_networks"] == 0


def test_a_fixed_number_of_runs_and_the_condition_go_together(dlbricks, shared, read):
    model = shared("one", "Relu", "Sigmoid")
    quick = (*QUICK, "--json", "e.json")
    assert dlbricks("check", model, *quick, "--runs", "5").status == 0
    assert len(read("e.json")["models"][0]["measured_samples"]) == 5
    refused = dlbricks("check", model, *quick, "--condition", "hot", "-G", "2")
    assert refused.status == 2
    assert "--condition hot is for whole models" in refused.err


def test_the_store_is_used_only_for_what_was_timed_together(dlbricks, shared, read):
    a, b = shared("a", "Relu", "Sigmoid"), shared("b", "Relu", "Tanh")
    quick = (*QUICK, "-G", "1", "--runs", "3", "--json", "e.json")
    assert dlbricks("estimate", "--measure", a, *quick).status == 0
    both = dlbricks("check", a, b, *quick)
    assert "timing everything again" in both.err
    data = read("e.json")
    assert data["benchmarking"]["reused_networks"] == 0
    assert all(each["same_rounds"] for each in data["evaluation"]["models"])
    assert data["evaluation"]["speedup"]["wall_clock"] is not None
    again = dlbricks("check", a, b, *quick)
    assert again.err == REUSED
    second = read("e.json")
    assert second["benchmarking"]["measured_networks"] == 0
    assert second["evaluation"]["models"] == data["evaluation"]["models"]
    assert second["evaluation"]["speedup"]["wall_clock"] is None
    # More runs go on from there: one session took part in all of it.
    assert dlbricks("check", a, b, *quick, "--runs", "4").err == REUSED
    assert [len(m["measured_samples"]) for m in read("e.json")["models"]] == [4, 4]


def test_a_model_with_an_unknown_operator_is_left_out(dlbricks, shared, read, strange):
    good = shared("good", "Relu", "Sigmoid")
    quick = (*QUICK, "-G", "1", "--runs", "3", "--json", "e.json", "--html", "e.html")
    done = dlbricks("check", strange, good, *quick)
    assert done.status == 3
    assert "Left out of the figures: strange" in done.out
    found = read("e.json")["evaluation"]
    assert [each["name"] for each in found["models"]] == ["good"]
    (left_out,) = found["left_out"]
    assert left_out["name"] == "strange"
    assert "nowhere" in left_out["reason"]
    assert found["mape"] == pytest.approx(abs(found["models"][0]["error"]))
    alone = dlbricks("check", strange, *quick)
    assert alone.status == 3
    assert "no model has both" in " ".join(alone.out.split())
    assert read("e.json")["evaluation"]["mape"] is None


def test_the_composer_is_chosen_as_in_a_run(dlbricks, shared, read):
    model = shared("good", "Relu", "Sigmoid")
    quick = (*QUICK, "--runs", "3", "--json", "e.json")
    assert dlbricks("check", model, *quick, "--composer", "parallel").status == 0
    assert read("e.json")["settings"]["composer"] == "parallel"
    refused = dlbricks("check", model, *quick, "--composer", "best")
    assert refused.status == 2
    assert "unknown composer" in refused.err
    assert dlbricks("check", *quick).status == 2


def test_a_note_says_why_a_model_was_cut_as_it_is(dlbricks, shared, read):
    """ONNX Runtime has no kernel for Relu on 16-bit integers, and so refuses the whole model."""
    x, y = (helper.make_tensor_value_info(n, TensorProto.INT16, (1, 8)) for n in "xy")
    nodes = [helper.make_node("Abs", ["x"], ["a"]), helper.make_node("Relu", ["a"], ["y"])]
    graph = helper.make_graph(nodes, "integers", [x], [y])
    imports = [helper.make_opsetid("", 21)]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=10), "integers.onnx")
    done = dlbricks("check", "integers.onnx", shared("plain", "Relu"), *QUICK, "--runs", "3",
                    "--condition", "cold", "--json", "e.json", "--html", "e.html")  # fmt: skip
    assert done.status == 3
    integers, plain = read("e.json")["models"]
    (note,) = integers["notes"]
    assert note["code"] == "cut-as-it-is"
    assert "Relu" in note["text"]
    assert plain["notes"] == []
    assert [missing["layers"] for missing in integers["missing"]] == [["Abs", "Relu"]]
    assert "integers: its own layers are cut" in done.out + done.err
    assert "integers: its own layers are cut" in Path("e.html").read_text(encoding="utf-8")


def test_small_models_are_rewritten_by_one_worker(dlbricks, shared, monkeypatch):
    models = shared("a", "Relu", "Sigmoid"), shared("b", "Relu", "Tanh")
    limits, start = [], WorkerProcess.__init__

    def counted(self, service, *arguments, **limit):
        limits.append(limit.get("resident", 0))
        start(self, service, *arguments, **limit)

    # No process that an earlier command has left.
    monkeypatch.setattr("dlbricks_core.measure.worker.WorkerProcess", WorkerProcess)
    monkeypatch.setattr(WorkerProcess, "__init__", counted)
    monkeypatch.setattr(rewrites, "physical_cores_available", lambda: 4)
    cold = "--condition", "cold"
    assert dlbricks("check", *models, *QUICK, *cold, "--runs", "2").status == 0
    # Only workers that rewrite have a limit that is checked all the time.
    assert sum(map(bool, limits)) == 1


def test_the_fastest_composer_states_what_it_timed(dlbricks, shared, read):
    networks = [shared(f"alike{size}", "Relu", size=size) for size in (64, 96)]
    fastest = ("--composer", "similar", "--runs", "2")
    done = dlbricks("check", *networks, *QUICK, *fastest, "--json", "e.json")
    assert done.status == 0, done.err
    data = read("e.json")
    told = [each for each in data["bricks"] if each["derived_from"]]
    unique, timed = data["totals"]["unique_bricks"], data["totals"]["timed_bricks"]
    assert 0 < len(told) == unique - timed
    assert f"{timed} of {unique} unique bricks timed" in done.out
    sampled = {each["signature"] for each in data["bricks"] if each["samples"]}
    assert {each["derived_from"] for each in told} <= sampled
    assert all(each["value"] > 0 and not each["samples"] for each in told)
