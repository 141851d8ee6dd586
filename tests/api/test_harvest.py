"""Models that the user's own program runs, and what is kept of them."""

import numpy as np
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper, save

import dlbricks_core as dlbricks
from dlbricks_core.facts import LATENCY
from dlbricks_core.store import ResultStore


@pytest.fixture
def model_file(tmp_path):
    rng = np.random.default_rng(0)
    weights = [rng.standard_normal((256, 256), dtype=np.float32) for _ in range(2)]
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["a"], name="first"),
        helper.make_node("Relu", ["a"], ["b"], name="second"),
        helper.make_node("MatMul", ["b", "w1"], ["y"], name="third"),
    ]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", 256]) for n in "xy"]
    tensors = [numpy_helper.from_array(w, f"w{i}") for i, w in enumerate(weights)]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], tensors)
    path = tmp_path / "model.onnx"
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def kinds(store):
    with ResultStore.open(store) as opened:
        return {each.question.subject.kind for each in opened.sampled(LATENCY)}


def test_a_session_tells_its_latency_and_those_of_its_bricks(model_file, tmp_path):
    session = onnxruntime.InferenceSession(model_file)
    store = tmp_path / "s.sqlite"
    with dlbricks.harvest(session, store=store):
        for _ in range(4):
            session.run(None, {"x": np.ones((64, 256), np.float32)})
    assert kinds(store) == {"native", "profiled"}
    assert "run" not in vars(session)


def test_a_module_tells_its_latency_and_those_of_its_bricks(tmp_path):
    module = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3), torch.nn.ReLU()).eval()
    store = tmp_path / "s.sqlite"
    with torch.inference_mode(), dlbricks.harvest(module, store=store):
        for _ in range(3):
            module(torch.ones(1, 3, 64, 64))
    assert kinds(store) == {"native", "profiled"}
    assert not module._forward_hooks


def test_a_model_that_does_not_run_is_told(model_file, tmp_path):
    session = onnxruntime.InferenceSession(model_file)
    with (
        pytest.raises(dlbricks.DLBricksError, match="did not run"),
        dlbricks.harvest(session, store=tmp_path / "s.sqlite"),
    ):
        pass


def test_an_error_of_the_users_program_comes_through(model_file, tmp_path):
    session = onnxruntime.InferenceSession(model_file)
    with pytest.raises(ZeroDivisionError), dlbricks.harvest(session, store=tmp_path / "s.sqlite"):
        1 / 0  # noqa: B018
    assert "run" not in vars(session)


def test_anything_else_is_refused():
    with (
        pytest.raises(dlbricks.DLBricksError, match="no backend runs a list"),
        dlbricks.harvest([]),
    ):
        pass
