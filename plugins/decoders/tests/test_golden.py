"""Decoders compute what transformers computes with the same configuration and weights."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from dlbricks_decoders.build import build
from dlbricks_decoders.families import FAMILIES, decoder_of
from families_page import PAGE, table
from golden_weights import UNCACHED, encoder_input, tokens, weight
from onnx import NodeProto, helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.ops.op_scan import Scan as FirstAxisScan

from dlbricks_core.ir import RawModel, node_proto
from dlbricks_core.ir.tensors import DTYPE_NUMBERS

HERE = Path(__file__).parent
CONFIGURATIONS = sorted((HERE / "configurations").glob("*.json"), key=lambda path: path.stem)
GOLDEN = np.load(HERE / "golden.npz")
PROMPT = 7
SEPARATED = ("axk1", "deepseek_v3", "deepseek_v32", "glm_moe_dsa", "glm4_moe_lite", "longcat_flash",
             "mistral4", "sarvam_mla", "youtu")  # fmt: skip
"""Configurations with rotated pairs that transformers separates in the cache."""


def proto_of(model: RawModel):
    """The raw model as a protobuf with the weights of the formula, for every size."""

    def info(name, of=""):
        spec = model.tensors[of or name]
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
        [*map(info, model.outputs), *(info(name, of) for name, of in crossed(model).items())],
        [initializer(name) for name in sorted(model.weights)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", model.opsets[""])])


class Scan(FirstAxisScan):
    """A loop over any axes; that of the onnx package takes the first ones only."""

    op_domain = ""

    def __init__(self, node: NodeProto, params: dict) -> None:
        self.axes = {each.name: list(each.ints) for each in node.attribute if each.ints}
        plain = NodeProto()
        plain.CopyFrom(node)
        kept = [each for each in node.attribute if each.name not in self.axes]
        plain.ClearField("attribute")
        plain.attribute.extend(kept)
        super().__init__(plain, params)

    def _run(self, *args, **more):
        count = len(args) - self.num_scan_inputs
        axes = self.axes.get("scan_input_axes", [0] * self.num_scan_inputs)
        rows = [np.moveaxis(row, axis, 0) for row, axis in zip(args[count:], axes, strict=True)]
        found = super()._run(*args[:count], *rows, **more)
        out = self.axes.get("scan_output_axes", [0] * (len(found) - count))
        stacked = [np.moveaxis(row, 0, axis) for row, axis in zip(found[count:], out, strict=True)]
        return (*found[:count], *stacked)


def crossed(model: RawModel) -> dict[str, str]:
    """Keys and values of an encoder's results, and the inputs that hold them afterwards."""
    return {name.replace("past_key_values.", "present."): name for name in model.inputs
            if ".encoder." in name}  # fmt: skip


def no_cache(model: RawModel) -> dict[str, np.ndarray]:
    """What a model remembers before the first token."""
    sizes = {"batch": 1, "past": 0, "encoder_sequence": 0}
    return {
        name: np.zeros([sizes.get(s, s) for s in model.tensors[name].shape], np.float32)
        for name in model.inputs if name.startswith("past_")
    }  # fmt: skip


def run(evaluator, model: RawModel, ids: np.ndarray, cache: dict) -> tuple[np.ndarray, dict]:
    """Logits, and the cache afterwards."""
    names = (*model.outputs, *crossed(model))
    found = dict(zip(names, evaluator.run(None, {"input_ids": ids, **cache}), strict=True))
    after = {
        name.replace("present.", "past_key_values.").replace("present_", "past_"): value
        for name, value in found.items()
        if name != "logits"
    }
    return found["logits"], after


def test_every_family_has_a_golden_file():
    families = {json.loads(path.read_text())["model_type"] for path in CONFIGURATIONS}
    assert families == set(FAMILIES), "each has a file in configurations/, and no other is there"
    made = {name.partition("/")[0] for name in GOLDEN.files}
    lacking = {path.stem for path in CONFIGURATIONS} - made
    assert not lacking, f"run make_golden.py {' '.join(sorted(lacking))}, with transformers"


def test_the_page_lists_every_family():
    page = PAGE.read_text()
    assert table() in page, "run families_page.py, with transformers"
    assert f"these {len(FAMILIES)} families" in page


@pytest.mark.parametrize("path", CONFIGURATIONS, ids=lambda path: path.stem)
def test_logits_and_cache_are_those_of_transformers(path):
    config = json.loads(path.read_text())
    model = build(decoder_of(config, path.name), path.stem, "")
    evaluator = ReferenceEvaluator(proto_of(model), new_ops=[Scan])
    ids = tokens(PROMPT + 1, config["vocab_size"])
    read = encoder_input(config)
    prompt, cache = run(evaluator, model, ids[:, :PROMPT], {**read, **no_cache(model)})
    token, cache = run(evaluator, model, ids[:, PROMPT:], {**read, **cache})
    golden = {key: GOLDEN[f"{path.stem}/{key}"] for key in ("prompt", "token")}
    np.testing.assert_allclose(prompt, golden["prompt"], atol=5e-5)
    np.testing.assert_allclose(token, golden["token"], atol=5e-5)
    for part in ("key", "value"):
        kept = [value for name, value in cache.items()
                if name.endswith(f".{part}") and ".encoder." not in name]  # fmt: skip
        assert (bool(kept) and path.stem not in UNCACHED) == (f"{path.stem}/{part}" in GOLDEN)
        if f"{path.stem}/{part}" not in GOLDEN:
            continue
        ours, theirs = kept[-1], GOLDEN[f"{path.stem}/{part}"]
        # The cache of transformers keeps no more positions than a window has, and Falcon's
        # repeats keys for all heads.
        times = theirs.shape[1] // ours.shape[1]
        ours = np.repeat(ours, times, axis=1)[:, :, -theirs.shape[2] :]
        if path.stem in SEPARATED and part == "value":
            ours = np.concatenate([ours[..., ::2], ours[..., 1::2]], axis=-1)
        np.testing.assert_allclose(ours, theirs, atol=5e-5)


@pytest.mark.parametrize("path", CONFIGURATIONS, ids=lambda path: path.stem)
def test_each_tensor_is_computed_once(path):
    """The reference evaluator overwrites a tensor of the same name; frameworks do not."""
    model = build(decoder_of(json.loads(path.read_text()), path.name), path.stem, "")
    made = Counter(name for layer in model.layers for name in layer.outputs if name)
    assert not [name for name, times in made.items() if times > 1 or name in model.inputs]


@pytest.mark.parametrize(("family", "decay"), [("qwen3_next", -5.0), ("kimi_linear", -2.0)])
def test_chunks_of_a_prompt_equal_its_tokens_one_by_one(family, decay):
    config = json.loads((HERE / f"configurations/{family}.json").read_text())
    model = build(decoder_of({**config, "max_position_embeddings": 128}, "c"), "c", "")
    proto = proto_of(model)
    for each in proto.graph.initializer:
        if each.name.endswith("A_log"):  # states that remember many tokens
            each.raw_data = np.full(each.dims, decay, np.float32).tobytes()
    evaluator = ReferenceEvaluator(proto, new_ops=[Scan])
    ids, one_by_one = tokens(66, config["vocab_size"]), no_cache(model)
    prompt, cache = run(evaluator, model, ids, one_by_one)
    for index in range(66):
        token, one_by_one = run(evaluator, model, ids[:, index : index + 1], one_by_one)
    np.testing.assert_allclose(prompt, token, atol=1e-4)
    for name, value in cache.items():
        np.testing.assert_allclose(value, one_by_one[name], atol=1e-4)
