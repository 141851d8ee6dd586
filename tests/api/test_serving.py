"""Models under load, in Python."""

import json

import pytest
from dlbricks_serving import serve
from dlbricks_serving.contention import passes
from dlbricks_serving.serving.job import ServeJob

import dlbricks_core as dlbricks
from dlbricks_core.api.inputs import strict_models
from dlbricks_core.errors import DLBricksError
from dlbricks_core.importers import LoadOptions
from dlbricks_core.machine.system import physical_cores_available
from dlbricks_core.progress import Observer

ORT = {"backend": "onnxruntime", "instances": 1, "threads": 1}


@pytest.fixture
def model(proto, monkeypatch):
    """A small model, whose bricks run for less time than good figures need."""
    pytest.importorskip("onnxruntime")
    monkeypatch.setattr(passes, "_SHORTEST_S", 0.2)
    return dlbricks.load(proto, batch=64)


def test_a_load_has_a_row_for_each_placement_with_intervals_and_the_best(model, tmp_path):
    found = serve(
        model,
        "server",
        **ORT,
        measure=True,
        max_latency_ms=1000,
        duration_s=0.2,
        end_to_end=True,
        store=tmp_path / "s.sqlite",
    )
    (row,) = found
    assert (row["name"], row["instances"], row["threads"]) == ("small", 1, 1)
    assert row["origin"] == "measured"
    assert row["best"]
    assert row["holds"]
    assert row["low"] is None or row["low"] <= row["throughput"] <= row["high"]
    assert row["tail_low_ms"] <= row["p99_ms"] <= row["tail_high_ms"]
    assert row["throughput_error"] is not None
    assert found.best == {"small": {"instances": 1, "threads": 1}}
    assert "small: 1 x 1 serves most within 1000 ms" in repr(found)
    data = found.to_dict()
    assert data["settings"]["max_latency_ms"] == 1000
    assert data["scenarios"][0]["placements"][0]["composed"]["throughput"] > 0
    assert found.failures == []
    assert isinstance(found.warnings, list)
    found.to_html(tmp_path / "s.html")
    assert "serves most" in (tmp_path / "s.html").read_text("utf-8")
    again = serve(
        model,
        "server",
        **ORT,
        measure=True,
        max_latency_ms=1000,
        duration_s=0.2,
        end_to_end=True,
        store=tmp_path / "s.sqlite",
    )
    assert (again.rows()[0]["origin"], again.rows()[0]["p99_ms"]) == ("stored", row["p99_ms"])


def test_without_numbers_every_placement_is_tried_and_bricks_tell(model):
    found = serve(model, "single-stream", backend="onnxruntime", measure=True, max_latency_ms=1e-4)
    cores = physical_cores_available()
    assert {row["threads"] for row in found} <= set(range(1, cores + 1))
    assert {(row["origin"], row["holds"], row["best"]) for row in found} == {
        ("bricks", False, False)
    }
    for row in found:
        assert row["low"] < row["throughput"] < row["high"] or row["low"] == row["high"]
    assert found.best == {"small": None}


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"scenario": "sever"}, "scenario cannot be 'sever'.*takes one of 'offline', 'server'"),
        ({"scenario": "server"}, r"needs a bound on the latency.*max_latency_ms=50\."),
        ({"instances": 0}, "instances cannot be 0"),
        ({"threads": []}, r"threads cannot be \[\]"),
        ({"threads": "2"}, "threads cannot be '2'.*threads takes a whole number of threads"),
        ({"instances": 4096}, "smaller instances or threads"),
        ({"max_latency_ms": 0}, "max_latency_ms cannot be 0"),
        ({"duration_s": "10s"}, "duration_s cannot be '10s'"),
        ({"end_to_end": 1}, "end_to_end cannot be 1"),
        ({"protocol": "none"}, "unknown protocol 'none'"),
    ],
)
def test_wrong_loads_are_told_before_anything_is_read_and_in_words_of_python(wrong, words):
    given = {"scenario": "offline", **wrong}
    scenario = given.pop("scenario")
    with pytest.raises(DLBricksError, match=f"(?s){words}") as caught:
        serve("absent.onnx", scenario, backend="onnxruntime", measure=True, **given)
    assert "--" not in f"{caught.value.message} {caught.value.hint}"


def test_loads_are_told_without_running_anything_if_asked_so(model, tmp_path):
    found = serve(model, "offline", **ORT, system="zen5", store=tmp_path / "s.sqlite")
    (row,) = found
    assert row["origin"] == "predicted"
    assert row["low"] < row["throughput"] < row["high"]
    assert any("no disturbance" in each for each in found.notes)
    none = serve(model, "offline", **ORT, predictor="none", store=tmp_path / "s.sqlite")
    assert none.rows()[0]["origin"] is None
    assert len(none.failures) == 1


@pytest.mark.parametrize("wrong", [{"system": "zen5"}, {"predictor": "atlas"}])
def test_what_is_for_stored_loads_is_refused_where_something_runs(wrong):
    with pytest.raises(DLBricksError, match="for estimates that run nothing"):
        serve("absent.onnx", "offline", **ORT, measure=True, **wrong)


@pytest.mark.parametrize("wrong", [{"end_to_end": True}, {"force": True}])
def test_what_runs_something_is_refused_for_stored_loads(wrong):
    with pytest.raises(DLBricksError, match="nothing runs"):
        serve("absent.onnx", "offline", **ORT, **wrong)


def test_a_language_model_is_served_in_the_form_that_users_of_the_backend_run(tmp_path):
    pytest.importorskip("dlbricks_decoders")
    sizes = {"hidden_size": 64, "num_attention_heads": 2, "num_key_value_heads": 1}
    more = {"vocab_size": 64, "intermediate_size": 96, "num_hidden_layers": 2}
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"model_type": "llama", **sizes, **more}))
    sized = LoadOptions(batch=1, dims={"sequence": 1, "past": 16})
    job = ServeJob(
        models=strict_models(f"llm:{config}", sized), scenario="offline", backend="onnxruntime",
        instances=[1], threads=[1], system="zen5",
    )  # fmt: skip
    (model,) = job.run(str(tmp_path / "s.sqlite"), Observer()).models
    assert model.rows
    operators = {layer.op for layer in model.model.layers}
    assert {"GroupQueryAttention", "SkipSimplifiedLayerNormalization"} <= operators
