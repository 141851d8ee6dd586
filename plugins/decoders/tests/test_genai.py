"""The form of onnxruntime-genai's model builder: its operators, and its results."""

import json
from collections import Counter

import numpy as np
import pytest
from dlbricks_decoders.build import build
from dlbricks_decoders.collection import LanguageModels
from dlbricks_decoders.families import decoder_of
from dlbricks_decoders.genai import FAMILIES, build_genai, has_form
from golden_weights import tokens, weight
from test_golden import HERE, PROMPT

from dlbricks_core.backends import BackendSettings, Network
from dlbricks_core.importers import ImportOptions, LoadOptions
from dlbricks_core.importers.host import canonical
from dlbricks_core.passes import normalize

BUILDER = json.loads((HERE / "builder_operators.json").read_text())
"""Number of operators of each type in the files that the builder of onnxruntime-genai 0.18 wrote of
``configurations/`` (of phi3: of Phi 3 Mini with two blocks), by family and precision. Weights were
drawn, those of biases, too, which the builder leaves out where they are 0."""

TOLD = json.loads((HERE / "builder_attributes.json").read_text())
"""Attributes in the same files, by family, precision and operator; each set of them once."""

FOLDED = {"Constant", "Shape", "Cast", "Gather", "Transpose", "Reshape", "Slice"}
"""Operators of layers that follow from sizes or weights, which canonical form computes once, or
that cut an embedding of less than a block, which wider ones need not."""

ATTRIBUTES = {
    "GroupQueryAttention": {
        "num_heads": 0, "kv_num_heads": 0, "scale": 0.0, "softcap": 0.0, "local_window_size": -1,
        "do_rotary": 0, "rotary_interleaved": 0, "smooth_softmax": 0,
    },
    "MatMulNBits": {"K": 0, "N": 0, "bits": 4, "block_size": 0, "accuracy_level": 0},
    "GatherBlockQuantized": {"bits": 4, "block_size": 128, "gather_axis": 0, "quantize_axis": 1},
}  # fmt: skip
"""Attributes that are compared, with the value where the builder writes none."""

GENAI = "onnxruntime-genai"


def wider(family):
    """The small configuration of a family, with heads of 32 elements."""
    config = json.loads((HERE / f"configurations/{family}.json").read_text())
    if family == "phi3":  # whose window the builder leaves out
        config["sliding_window"] = None
    if config.get("head_dim"):
        return {**config, "head_dim": 32}
    return {**config, "hidden_size": 32 * config["num_attention_heads"]}


def operators(names):
    """Number of each operator that is not folded."""
    return Counter(name for name in names if name not in FOLDED)


def written(case, tmp_path):
    """Layers of our form of a family in a precision."""
    family, _, precision = case.partition("/")
    dtype = None if precision == "fp32" else precision
    options = ImportOptions(form=GENAI, dtype=dtype)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(wider(family)))
    raw = LanguageModels().load(str(path), options)
    dims = {"sequence": 3, "past": 5}
    return canonical(raw, LoadOptions(batch=1, dims=dims, dtype=dtype), raw.source).model.layers


@pytest.mark.parametrize("case", sorted(BUILDER))
def test_a_family_has_the_operators_of_the_builders_file(case, tmp_path):
    wanted = Counter(BUILDER[case])
    layers = written(case, tmp_path)
    assert operators(layer.op for layer in layers) == operators(wanted.elements())


@pytest.mark.parametrize("case", sorted(TOLD))
def test_operators_have_the_attributes_of_the_builders_file(case, tmp_path):
    layers = written(case, tmp_path)
    for op, wanted in TOLD[case].items():
        usual = ATTRIBUTES[op]
        found = [
            {name: layer.attributes.get(name, value) for name, value in usual.items()}
            for layer in layers
            if layer.op == op
        ]
        rounded = {
            tuple(round(x, 6) if isinstance(x, float) else x for x in each.values())
            for each in found
        }
        assert rounded == {tuple(each.values()) for each in wanted}, op


def test_every_family_of_the_form_was_compared():
    assert {case.partition("/")[0] for case in BUILDER} == FAMILIES


@pytest.mark.parametrize("family", ["falcon", "mixtral", "gpt_oss", "mamba", "olmo", "llama"])
def test_other_decoders_keep_the_operators_of_onnx(family):
    """So does a Llama with heads that ONNX Runtime does not rotate."""
    config = HERE / f"configurations/{family}.json"
    assert not has_form(decoder_of(json.loads(config.read_text()), family))
    raw = LanguageModels().load(str(config), ImportOptions(form=GENAI))
    assert {layer.domain for layer in raw.layers} == {""}


@pytest.mark.parametrize("options", [ImportOptions(), ImportOptions(form=GENAI, dtype="float16")])
def test_the_form_is_for_backends_that_ask_and_types_that_the_builder_writes(options, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(wider("llama")))
    raw = LanguageModels().load(str(path), options)
    assert {layer.domain for layer in raw.layers} == {""}


def values_of(name, shape, decoder):
    """Weights of the formula: joined projections, and a tied head, from those of the other form."""
    at, _, part = name.rpartition(".")
    if at.endswith("qkv_proj") and decoder.family != "phi3":
        attention = decoder.attentions[0]
        heads = attention.heads, attention.kv_heads, attention.kv_heads
        names = [f"{at.removesuffix('qkv_proj')}{each}_proj.{part}" for each in "qkv"]
        shapes = [(*shape[:-1], each * attention.head_dim) for each in heads]
        return np.concatenate(list(map(weight, names, shapes)), axis=-1)
    if decoder.family == "phi3" and at.endswith((".gate_proj", ".up_proj")):
        both = weight(f"{at.rpartition('.')[0]}.gate_up_proj.weight", (shape[0], 2 * shape[1]))
        return np.ascontiguousarray(np.split(both, 2, axis=1)["up_proj" in name])
    if decoder.tied and name in ("lm_head.weight", "embed_tokens.table"):
        table = weight("embed_tokens.weight", (decoder.vocabulary, decoder.hidden))
        return np.ascontiguousarray(table.T) if name == "lm_head.weight" else table
    return weight(name, shape)


def run(timer, write, decoder, ids, cache, past, runs=2):
    """Outputs for tokens after others, by name. A cache may have room for the new tokens."""
    count = ids.shape[1]
    model = normalize(write(decoder, "m", ""), batch=1, dims={"sequence": count, "past": past})
    weights = {
        name: model.constants[name]
        if name in model.constants
        else values_of(name, model.tensors[name].shape, decoder)
        for name in model.weights
    }
    given = {"input_ids": ids, "attention_mask": np.ones((1, past + count), np.int64)}
    room = {
        name: np.zeros(model.tensors[name].shape, np.float32)
        for name in model.inputs
        if name not in given
    }
    for name, value in cache.items():
        room[name][:, :, :past] = value
    inputs = {name: (given | room)[name] for name in model.inputs}
    loaded = timer.load(Network(model, weights, inputs))
    for _ in range(runs):  # a run leaves the cache as it was, but for the new tokens
        timer.run(loaded)
    found = {name: np.array(value) for name, value in timer.outputs(loaded).items()}
    timer.unload(loaded)
    return found


def answers(timer, write, decoder, prompt=PROMPT, runs=2):
    """Scores of a prompt's last token, and of the token after it."""
    ids = tokens(prompt + 1, decoder.vocabulary)
    first = run(timer, write, decoder, ids[:, :prompt], {}, 0, runs)
    cache = {
        name.replace("present", "past_key_values"): value
        for name, value in first.items()
        if name != "logits"
    }
    second = run(timer, write, decoder, ids[:, prompt:], cache, prompt, runs)
    return first["logits"], second["logits"]


@pytest.mark.parametrize(
    "family", ["llama", "qwen2", "qwen3", "gemma2", "gemma3_text", "phi", "phi3", "nemotron",
               "granite", "ernie4_5"],
)  # fmt: skip
def test_the_form_computes_what_the_operators_of_onnx_compute(family):
    """Those compute what transformers computes (``test_golden.py``)."""
    backend = pytest.importorskip("dlbricks_onnxruntime.backend")
    decoder = decoder_of(wider(family), family)
    timer = backend.OnnxruntimeBackend().timer(BackendSettings(threads=1))
    found, wanted = (answers(timer, write, decoder) for write in (build_genai, build))
    timer.close()
    assert found[0].shape[1] == PROMPT
    np.testing.assert_allclose(found[0][:, -1:], wanted[0], atol=2e-5)
    np.testing.assert_allclose(found[1], wanted[1], atol=2e-5)


WINDOW, SLACK = 4, 16


def windowed(family="gemma2"):
    return decoder_of({**wider(family), "sliding_window": WINDOW}, family)


def caches(decoder, past):
    """Room for positions in the cache of each block."""
    model = normalize(build_genai(decoder, "m", ""), batch=1, dims={"sequence": 1, "past": past})
    return [model.tensors[name].sizes[2] for name in model.inputs if name.endswith(".key")]


@pytest.mark.parametrize("past", [3, 30])
def test_blocks_with_a_window_have_a_cache_of_little_more(past):
    """The loop of onnxruntime-genai 0.18 makes one of 24 for a window of 8, and of 49 for 33."""
    decoder = windowed()
    windows = [block.attention.window for block in decoder.blocks]
    assert len(set(windows)) == 2
    most = min(past + 1, WINDOW + SLACK)
    assert caches(decoder, past) == [most if window else past + 1 for window in windows]


def test_a_text_beyond_the_window_has_the_scores_of_whole_caches():
    backend = pytest.importorskip("dlbricks_onnxruntime.backend")
    decoder = windowed()
    timer = backend.OnnxruntimeBackend().timer(BackendSettings(threads=1))
    # One run: a second one would move the window on again.
    found, wanted = (answers(timer, write, decoder, 30, 1) for write in (build_genai, build))
    timer.close()
    np.testing.assert_allclose(found[0][:, -1:], wanted[0], atol=5e-5)
    np.testing.assert_allclose(found[1], wanted[1], atol=5e-5)
