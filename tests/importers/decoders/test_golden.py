"""Decoders compute what transformers computes with the same configuration and weights."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from golden_weights import tokens, weight
from onnx import helper
from onnx.reference import ReferenceEvaluator

from dlbricks_core.importers.decoders.build import build
from dlbricks_core.importers.decoders.families import FAMILIES, decoder_of
from dlbricks_core.ir import RawModel
from dlbricks_core.ir.onnx_writer import node_proto
from dlbricks_core.ir.tensors import DTYPE_NUMBERS

HERE = Path(__file__).parent
CONFIGURATIONS = sorted((HERE / "configurations").glob("*.json"), key=lambda path: path.stem)
GOLDEN = np.load(HERE / "golden.npz")
PROMPT = 7


def proto_of(model: RawModel):
    """The raw model as a protobuf with the weights of the formula, for every size."""

    def info(name):
        spec = model.tensors[name]
        return helper.make_tensor_value_info(name, DTYPE_NUMBERS[spec.dtype], spec.shape)

    def initializer(name):
        value = model.constants.get(name)
        value = weight(name, model.tensors[name].shape) if value is None else value
        return helper.make_tensor(
            name, DTYPE_NUMBERS[model.tensors[name].dtype], value.shape, value.tobytes(), raw=True
        )

    graph = helper.make_graph(
        [node_proto(layer) for layer in model.layers],
        model.name or "decoder",
        [info(name) for name in model.inputs],
        [info(name) for name in model.outputs],
        [initializer(name) for name in sorted(model.weights)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", model.opsets[""])])


def run(evaluator, model: RawModel, ids: np.ndarray, cache: dict) -> tuple[np.ndarray, dict]:
    """Logits, and the cache afterwards."""
    found = dict(zip(model.outputs, evaluator.run(None, {"input_ids": ids, **cache}), strict=True))
    after = {
        name.replace("present", "past_key_values"): value
        for name, value in found.items()
        if name != "logits"
    }
    return found["logits"], after


def test_every_family_has_a_golden_file():
    families = {json.loads(path.read_text())["model_type"] for path in CONFIGURATIONS}
    assert families == set(FAMILIES)


@pytest.mark.parametrize("path", CONFIGURATIONS, ids=lambda path: path.stem)
def test_logits_and_cache_are_those_of_transformers(path):
    config = json.loads(path.read_text())
    model = build(decoder_of(config, path.name), path.stem, "")
    evaluator = ReferenceEvaluator(proto_of(model))
    ids = tokens(PROMPT + 1, config["vocab_size"])
    empty = {
        name: np.zeros([{"batch": 1, "past": 0}.get(s, s) for s in model.tensors[name].shape],
                       np.float32)
        for name in model.inputs[1:]
    }  # fmt: skip
    prompt, cache = run(evaluator, model, ids[:, :PROMPT], empty)
    token, cache = run(evaluator, model, ids[:, PROMPT:], cache)
    golden = {key: GOLDEN[f"{path.stem}/{key}"] for key in ("prompt", "token", "key", "value")}
    np.testing.assert_allclose(prompt, golden["prompt"], atol=2e-5)
    np.testing.assert_allclose(token, golden["token"], atol=2e-5)
    for part in ("key", "value"):
        ours = cache[f"past_key_values.{len(cache) // 2 - 1}.{part}"]
        # The cache of transformers keeps no more positions than a window has, and Falcon's
        # repeats keys for all heads.
        times = golden[part].shape[1] // ours.shape[1]
        ours = np.repeat(ours, times, axis=1)[:, :, -golden[part].shape[2] :]
        np.testing.assert_allclose(ours, golden[part], atol=2e-5)
