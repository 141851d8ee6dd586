"""The main job through the command line, on a real backend."""

import math
from dataclasses import replace

import pytest

from dlbricks_core.figures.protocols import PROTOCOLS
from dlbricks_core.figures.statistics import faster_half

pytest.importorskip("onnxruntime")

BACKEND = ("--backend", "onnxruntime", "--threads", "1")
QUICK = (*BACKEND, "--composer", "sequential", "--runs", "3", "--store", "results.sqlite",
         "--end-to-end")  # fmt: skip


def test_json_of_a_run_keeps_to_the_contract(dlbricks, save, read):
    a, b = save("a", "Relu", "Relu", "Sigmoid"), save("b", "Relu", "Tanh")
    done = dlbricks(*QUICK, a, b, "--json", "out.json")
    assert done.status == 0
    assert "Traceback" not in done.err
    data = read("out.json")
    assert data["schema_version"] == 1
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
        low, high = model["interval_ms"]
        assert 0 < low <= model["estimate_ms"] <= high
        assert model["parallel_estimate_ms"] == pytest.approx(model["estimate_ms"])
        assert model["normalized"] == pytest.approx(model["estimate_ms"] / model["measured_ms"])
        assert (model["partial"], model["missing"], model["unsupported"]) == (False, [], [])
        assert len(model["measured_samples_ms"]) == 3
    assert [(b["layers"], b["occurrences"]) for b in data["bricks"]] == [
        (["MatMul"], 5), (["Relu"], 3), (["Sigmoid"], 1), (["Tanh"], 1),
    ]  # fmt: skip
    for brick in data["bricks"]:
        assert len(brick["samples_ms"]) == 3
        assert brick["latency_ms"] == pytest.approx(faster_half(brick["samples_ms"]))
    bench = data["benchmarking"]
    models = sum(m["measured_ms"] for m in data["models"]) / 1e3
    bricks = sum(b["latency_ms"] for b in data["bricks"]) / 1e3
    assert bench["models_s"] == pytest.approx(models)
    assert bench["bricks_s"] == pytest.approx(bricks)
    assert bench["speedup"] == pytest.approx(models / bricks)
    wall = bench["wall_clock"]
    assert (wall["models_runs"], wall["bricks_runs"]) == (6, 12)
    assert wall["speedup"] == pytest.approx(wall["models_s"] / wall["bricks_s"])
    assert data["failures"] == []


def test_the_estimate_is_the_sum_less_the_cost_of_calls(dlbricks, save, read):
    dlbricks(*QUICK, save("a", "Relu", "Relu"), "--json", "out.json")
    data = read("out.json")
    call = data["timer"]["call_ms"]
    total = call + sum(b["occurrences"] * max(b["latency_ms"] - call, 0) for b in data["bricks"])
    assert data["models"][0]["estimate_ms"] == pytest.approx(total)


def test_a_second_run_measures_only_what_is_missing(dlbricks, save, read, known):
    a, b = save("a", "Relu", "Sigmoid"), save("b", "Relu", "Tanh")
    dlbricks(*QUICK, a, "--json", "first.json")
    again = dlbricks(*QUICK, a, "--json", "again.json")
    assert "nothing left to measure" in again.out
    assert known("first.json", "bricks") == known("again.json", "bricks")
    origins = [read(f)["bricks"][0]["origin"] for f in ("first.json", "again.json")]
    assert origins == ["measured", "stored"]
    more = dlbricks(*QUICK, a, b, "--json", "more.json")
    assert "4 networks came from the store, 2 measured now" in more.out
    assert "another session" in more.out
    forced = dlbricks(*QUICK, a, "--force", "--json", "forced.json")
    assert "from the store" not in forced.out
    samples = [read(f)["bricks"][0]["samples_ms"] for f in ("first.json", "forced.json")]
    assert samples[0] != samples[1]
    dlbricks(*QUICK, "--runs", "5", a, "--json", "five.json")
    five = read("five.json")["bricks"][0]["samples_ms"]
    assert five[:3] == samples[1]
    assert len(five) == 5


def test_networks_that_memory_does_not_hold_together_are_named(dlbricks, save, monkeypatch):
    a = save("a", "Relu", "Sigmoid")
    assert "before or after" not in dlbricks(*QUICK, a).out
    monkeypatch.setattr("dlbricks_core.measure.session._LOADED_SHARE", 1e-9)
    found = " ".join(dlbricks(*QUICK, a, "--force").out.split())
    assert "3 of 3 bricks were timed before or after the whole model" in found


def test_other_settings_are_other_measurements(dlbricks, save):
    a = save("a", "Relu")
    dlbricks(*QUICK, a)
    for other in (("--protocol", "paper"), ("--backend-option", "optimizations=off")):
        assert "from the store" not in dlbricks(*QUICK, *other, a).out


def test_samples_of_an_older_protocol_are_other_measurements(dlbricks, save, monkeypatch):
    a = save("a", "Relu")
    older = replace(PROTOCOLS["interleaved"], identity="interleaved/0")
    with monkeypatch.context() as patch:
        patch.setitem(PROTOCOLS, "interleaved", older)
        dlbricks(*QUICK, a)
        assert "nothing left to measure" in dlbricks(*QUICK, a).out
    assert "from the store" not in dlbricks(*QUICK, a).out


def test_granularity_and_the_papers_protocol_can_be_chosen(dlbricks, save, read):
    a = save("a", "Relu", "Relu", "Sigmoid")
    done = dlbricks(*QUICK, "-G", "4", "--protocol", "paper", a, "--json", "out.json")
    assert "20% trimmed mean" in " ".join(done.out.split())
    data = read("out.json")
    assert [b["layers"] for b in data["bricks"]] == [
        ["MatMul", "Relu", "MatMul", "Relu"], ["MatMul", "Sigmoid"],
    ]  # fmt: skip
    assert data["models"][0]["bricks"] == 2


def test_unless_it_is_asked_for_nothing_is_compared(dlbricks, save, read):
    dlbricks(*QUICK[:-1], save("a", "Relu"), "--json", "out.json")
    (model,) = read("out.json")["models"]
    assert model["measured_ms"] is None
    assert model["normalized"] is None
    assert model["estimate_ms"] > 0


def test_the_parallel_composer_answers_when_asked(dlbricks, read):
    args = ("--json", "out.json", "onnx:squeezenet", "--runs", "2", *BACKEND, "--store", "s.db")
    dlbricks(*args, "--composer", "parallel")
    (model,) = read("out.json")["models"]
    assert model["estimate_ms"] == model["parallel_estimate_ms"]
    dlbricks(*args, "--composer", "sequential")
    (sequential,) = read("out.json")["models"]
    assert sequential["estimate_ms"] > model["estimate_ms"]


def test_json_on_standard_output_is_alone_there(dlbricks, save):
    import json

    done = dlbricks(*QUICK, save("a", "Relu"), "--json", "-")
    assert json.loads(done.out)["models"][0]["name"] == "a"


def test_quiet_says_nothing_and_the_table_fits_80_columns(dlbricks, save):
    a = save("a_model_with_quite_a_long_name", "Relu")
    loud = dlbricks(*QUICK, a)
    assert max(map(len, loud.out.splitlines())) <= 80
    assert "Benchmarking speedup" in loud.out
    quiet = dlbricks(*QUICK, a, "-q")
    assert (quiet.out, quiet.err) == ("", "")


def test_no_progress_bar_where_nobody_watches(dlbricks, save):
    done = dlbricks(*QUICK, save("a", "Relu"))
    assert done.err == ""
    assert "\x1b" not in done.out


def test_all_numbers_in_json_are_finite(dlbricks, save, read):
    dlbricks(*QUICK, save("a", "Relu"), "--json", "out.json")

    def numbers(value):
        if isinstance(value, dict):
            for each in value.values():
                yield from numbers(each)
        elif isinstance(value, list):
            for each in value:
                yield from numbers(each)
        elif isinstance(value, float):
            yield value

    assert all(math.isfinite(n) for n in numbers(read("out.json")))
