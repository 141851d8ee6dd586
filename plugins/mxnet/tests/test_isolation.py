"""Bricks that really break MXNet: the run goes on, each is named with its reason."""

from __future__ import annotations

import json

import onnx
import pytest
from onnx import TensorProto, helper

from dlbricks_core.cli import main

FLOAT, INT = TensorProto.FLOAT, TensorProto.INT32


def model(nodes, dtype, shape, result, weights=()):
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", dtype, shape)],
        [helper.make_tensor_value_info("y", dtype, result)],
        list(weights),
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def divided_by_nothing(dtype):
    """(x - x) / (x - x): not a number for floats, a signal for integers."""
    nodes = [helper.make_node("Sub", ["x", "x"], ["z"]), helper.make_node("Div", ["z", "z"], ["y"])]
    return model(nodes, dtype, [4], [4])


def too_large():
    """A hundred gigabytes from one number."""
    size = helper.make_tensor("size", TensorProto.INT64, [2], [160_000, 160_000])
    nodes = [helper.make_node("Expand", ["x", "size"], ["y"])]
    return model(nodes, FLOAT, [1, 1], [160_000, 160_000], [size])


def too_slow():
    """Many minutes of multiplication."""
    nodes = [helper.make_node("MatMul", ["x", "x"], ["y"])]
    return model(nodes, FLOAT, [12_000, 12_000], [12_000, 12_000])


def fine():
    return model([helper.make_node("Relu", ["x"], ["y"])], FLOAT, [4], [4])


@pytest.fixture
def run(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)

    def dlbricks(*arguments):
        with pytest.raises(SystemExit) as ended:
            main([*arguments, "--backend", "mxnet", "--threads", "1", "--runs", "2",
                  "--store", "s.sqlite", "--json", "out.json", "-q"])  # fmt: skip
        assert "Traceback" not in capfd.readouterr().err
        return ended.value.code, json.loads((tmp_path / "out.json").read_text())

    return dlbricks


def test_each_failure_has_its_reason_and_the_others_are_measured(run, tmp_path):
    onnx.save(divided_by_nothing(FLOAT), tmp_path / "nan.onnx")
    onnx.save(divided_by_nothing(INT), tmp_path / "crash.onnx")
    onnx.save(too_large(), tmp_path / "memory.onnx")
    onnx.save(too_slow(), tmp_path / "slow.onnx")
    onnx.save(fine(), tmp_path / "fine.onnx")
    names = ["nan.onnx", "crash.onnx", "memory.onnx", "slow.onnx", "fine.onnx"]
    status, data = run(*names, "-G", "2", "--timeout", "3", "--no-end-to-end")
    assert status == 3
    *broken, good = data["models"]
    assert all(m["partial"] and m["estimate"] is None for m in broken)
    reasons = {f["where"].split(":")[0]: f["reason"] for f in data["failures"]}
    assert "NaN" in reasons["nan"]
    assert "crashed" in reasons["crash"]
    assert "memory" in reasons["memory"].lower()
    assert "no answer within 3 s" in reasons["slow"]
    assert good["partial"] is False
    assert good["estimate"] > 0

    again, repeated = run(*names, "-G", "2", "--timeout", "3", "--no-end-to-end")
    assert again == 3
    assert all("earlier" in f["reason"] for f in repeated["failures"])
    assert repeated["benchmarking"]["wall_clock"]["bricks_runs"] == 0
