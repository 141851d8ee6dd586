"""Answers of language models, and sweeps over sizes, in Python."""

from itertools import pairwise

import onnx
import pytest
from dlbricks_serving import advise

import dlbricks
from dlbricks_core.errors import DLBricksError, ModelError

ORT = {"backend": "onnxruntime", "runs": 2, "threads": 1}


def test_answers_of_language_models_are_rows_for_each_workload(save_decoder, tmp_path):
    save_decoder(tmp_path / "decoder.onnx")
    found = dlbricks.answer(
        tmp_path / "decoder.onnx", backend="onnxruntime", prompt=[4, 8], generate=2
    )
    assert [(row["prompt"], row["generate"]) for row in found] == [(4, 2), (8, 2)]
    for row in found:
        assert row["ttft_low"] < row["ttft"] < row["ttft_high"]
        assert row["total"] == pytest.approx(row["ttft"] + row["tpot"])
    assert "decoder at 2 sizes" in repr(found)
    assert len(found.to_dict()["answers"]) == 2


def test_measured_tokens_do_not_contradict_each_other(save_decoder, tmp_path):
    path = tmp_path / "decoder.onnx"
    save_decoder(path, blocks=1)
    found = dlbricks.answer(path, **ORT, measure=True, prompt=[64, 66], generate=4)
    points = {each["depth"]: each["estimate"] for answer in found.to_dict()["answers"]
              for each in answer["curve"]}  # fmt: skip
    times = [points[depth] for depth in sorted(points)]
    assert len(times) == 5
    for before, after in pairwise(times):
        assert before * (1 - 1e-9) <= after < before * 1.3


def test_a_sweep_gives_a_row_for_each_size(proto, tmp_path):
    onnx.save(proto, tmp_path / "small.onnx")
    found = dlbricks.sweep(
        tmp_path / "small.onnx", {"N": [1, 64]}, **ORT, measure=True, end_to_end=True
    )
    assert [row["N"] for row in found] == [1, 64]
    for row in found:
        assert row["normalized"] == pytest.approx(row["estimate"] / row["measured"])


def test_sizes_of_a_loaded_model_are_chosen_already(proto):
    model = dlbricks.load(proto, batch=2)
    with pytest.raises(ModelError, match="leaves no dimension 'N' open"):
        dlbricks.sweep(model, {"N": [1, 2]}, backend="onnxruntime")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [({"prompt": "512"}, "prompt cannot be '512'"), ({"generate": [1, -2]}, "generate cannot be"),
     ({"prompt": 0}, "prompt 0 is too small"), ({"depth": 1.5}, "depth cannot be 1.5"),
     ({"batch": 0}, "batch 0 is too small")],
)  # fmt: skip
def test_wrong_workloads_are_told_before_anything_is_read(wrong, message):
    with pytest.raises(DLBricksError, match=message):
        dlbricks.answer("absent.onnx", backend="onnxruntime", **wrong)


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [({"granularity": 1}, TypeError, "unexpected argument 'granularity'"),
     ({"runz": 1}, TypeError, "did you mean 'runs'"),
     ({"dims": {"M": -1}}, DLBricksError, "dims cannot be"),
     ({"end_to_end": "yes"}, DLBricksError, "end_to_end cannot be 'yes'"),
     ({"system": "lab", "measure": True}, DLBricksError, "is for estimates that run nothing")],
)  # fmt: skip
def test_wrong_arguments_of_a_sweep_are_told_before_anything_is_read(wrong, error, message):
    with pytest.raises(error, match=message):
        dlbricks.sweep("absent.onnx", {"N": [1]}, backend="onnxruntime", **wrong)


def test_advice_on_answers(save_decoder, tmp_path):
    path, store = tmp_path / "decoder.onnx", tmp_path / "s.sqlite"
    save_decoder(path)
    dlbricks.answer(path, **ORT, measure=True, prompt=4, generate=3, batch=2, store=store)
    found = advise(path, prompt=4, generate=3, batch=2, by="time-to-first-token", store=store)
    (row,) = found
    total = row["time-to-first-token"] + 2 * row["time-per-output-token"]
    assert row["latency"] == pytest.approx(total)
    assert found.to_dict()["settings"]["workload"]["batch"] == 2
    (single,) = advise(dlbricks.load(path, batch=1, dims={"sequence": 1, "past": 4}), store=store)
    assert "time-to-first-token" not in single


@pytest.mark.parametrize(
    ("wrong", "message"),
    [({"prompt": [4, 8]}, "advice is for one workload"), ({"generate": 0}, "generate 0 is too"),
     ({"prompt": "4"}, "prompt cannot be '4'"), ({"batch": -1}, "batch cannot be -1"),
     ({"by": "time-per-output-token"}, "is a figure of a language model's answer")],
)  # fmt: skip
def test_wrong_answers_are_told_before_advice(wrong, message, tmp_path):
    with pytest.raises(DLBricksError, match=message):
        advise("absent.onnx", **wrong, store=tmp_path / "s.sqlite")
