"""Configurations, the files that are written for them, and the chains that stand for models."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path

import pytest
from dlbricks_llamacpp import architecture, files
from dlbricks_llamacpp.architecture import architecture_of
from dlbricks_llamacpp.backend import LlamaBackend
from dlbricks_llamacpp.files import Block
from dlbricks_llamacpp.rewrite import COLD_BYTES, rewrite, smallest
from dlbricks_llamacpp.timer import Blocks
from dlbricks_llamacpp.weights import MIXTURES, TYPES, drawn, is_fine, type_for
from dlbricks_testing import cases

from dlbricks_core.backends import BackendSettings
from dlbricks_core.bricks import BrickSet
from dlbricks_core.errors import UnsupportedError
from dlbricks_core.importers.base import LoadOptions
from dlbricks_core.importers.host import canonical
from dlbricks_core.plugins import find

MODELS = find("models", "llm").loaded()


def settings(dtype="f16"):
    return BackendSettings(1, {"dtype": dtype, "attention": "auto"})


def sized(name, tokens, past):
    raw = MODELS.load(name)
    sizes = {"sequence": tokens, "past": past}
    return canonical(raw, LoadOptions(batch=1, dims=sizes), raw.source).model


@pytest.mark.parametrize(
    "name",
    ["llama-3.2-1b", "smollm2-360m", "mistral-7b-v0.3", "qwen2-0.5b", "qwen2.5-1.5b", "qwen3-0.6b",
     "gemma-2b", "gemma-2-2b", "gemma-3-270m", "phi-3-mini", "gemma-2-9b", "gemma-3-1b",
     "olmo-2-1b", "olmoe-1b-7b", "qwen1.5-moe-a2.7b", "qwen3-30b-a3b", "smollm3-3b",
     "ernie-4.5-0.3b"],
)  # fmt: skip
def test_a_file_has_as_many_weights_as_the_model(name):
    of = architecture_of(MODELS.load(name).configuration)
    blocks = [Block(window=of.has_window(index)) for index in range(of.blocks)]
    found = files.tensors_of(of, blocks, "f16")
    count = sum(each.columns * each.all_rows for each in found if not each.name.startswith("rope"))
    assert count == MODELS.describe(name).parameters


OTHERS = {
    "granite": {"embedding_multiplier": 12.0, "attention_multiplier": 0.015, "logits_scaling": 8.0,
                "residual_multiplier": 0.22},
    "hunyuan_v1_dense": {"head_dim": 128},
}  # fmt: skip
"""Fields of families that the collection has no configuration of, beside those of Llama."""


def configurations():
    """A configuration of each family."""
    names = [
        *("llama-3.2-1b", "qwen2-0.5b", "qwen3-0.6b", "gemma-2b", "gemma-2-2b", "gemma-3-270m"),
        *("phi-3-mini", "olmo-2-1b", "olmoe-1b-7b", "qwen1.5-moe-a2.7b", "qwen3-30b-a3b"),
        *("smollm3-3b", "ernie-4.5-0.3b"),
    ]
    found = [json.loads(MODELS.load(name).configuration) for name in names]
    llama = {**found[0], "rope_scaling": None}
    return found + [{**llama, **more, "model_type": kind} for kind, more in OTHERS.items()]


def architectures():
    """An architecture of each family, by its name in llama.cpp."""
    found = [architecture_of(json.dumps(each)) for each in configurations()]
    return {each.family: each for each in found}


def test_every_family_is_tried():
    families = architecture._FAMILIES
    tried = {families[each["model_type"]] for each in configurations()}
    assert tried == set(families.values())


@pytest.mark.parametrize("family", architectures())
def test_names_of_weights_are_those_of_gguf(family):
    gguf = pytest.importorskip("gguf", reason="gguf is not installed")
    of = architectures()[family]
    (kind,) = (each for each, name in gguf.MODEL_ARCH_NAMES.items() if name == family)
    known = {gguf.TENSOR_NAMES[each] for each in gguf.MODEL_TENSORS[kind]}
    for each in files.tensors_of(of, [Block()], "f16"):
        stem = each.name.removesuffix(".weight").removesuffix(".bias")
        assert stem.replace("blk.0.", "blk.{bid}.") in known


@pytest.mark.parametrize("family", architectures())
def test_keys_are_those_of_gguf(family):
    gguf = pytest.importorskip("gguf", reason="gguf is not installed")
    groups = [group for group in vars(gguf.Keys).values() if isinstance(group, type)]
    known = {key for group in groups for key in vars(group).values() if isinstance(key, str)}
    for key in files.metadata_of(architectures()[family], [Block()], 64):
        assert key.replace(f"{family}.", "{arch}.") in known


def test_the_smallest_block_keeps_what_scales_the_ends():
    every = architectures()
    assert every["granite"].smallest.scales == every["granite"].scales
    assert every["gemma2"].smallest.cap == 30.0
    for family in ("phi3", "qwen3moe", "olmo2"):
        small = every[family].smallest
        assert (small.family, small.hidden) == ("llama", every[family].hidden)


def test_experts_lie_in_one_matrix_and_the_router_stays_precise():
    of = architectures()["qwen2moe"]
    found = {each.name: each for each in files.block_tensors(of, Block(fine=True), "q4_k_m")}
    assert found["blk.0.ffn_down_exps.weight"].sizes == (1408, 2048, 60)
    assert found["blk.0.ffn_gate_inp.weight"].kind is TYPES["f32"]
    assert found["blk.0.ffn_down_exps.weight"].kind is type_for("q6_k", 1408)


def test_other_families_are_refused_by_name():
    with pytest.raises(UnsupportedError, match="family gpt2"):
        architecture_of(MODELS.load("gpt2").configuration)


def test_fields_that_change_the_graph_are_refused():
    fields = json.loads(MODELS.load("qwen3-0.6b").configuration)
    with pytest.raises(UnsupportedError, match="mlp_bias"):
        architecture_of(json.dumps({**fields, "mlp_bias": True}))
    del fields["vocab_size"]
    with pytest.raises(UnsupportedError, match="vocab_size"):
        architecture_of(json.dumps(fields))


def test_a_prompt_is_an_embedding_equal_blocks_a_shorter_last_one_and_a_head():
    model = sized("qwen3-0.6b", 16, 0)
    chain = rewrite(model, settings())
    cut = BrickSet.of([model], 128, "segments", {0: chain}, rereading=True)
    (found,) = cut.models
    ops = Counter()
    for signature, count in found.counts.items():
        (layer,) = cut.bricks[signature].model.layers
        ops[layer.op, layer.attributes["last"]] += count
    assert ops == {("Embedding", 0): 1, ("Block", 0): 27, ("Block", 1): 1, ("Head", 1): 1}
    assert (chain.inputs, chain.outputs) == (model.inputs, model.outputs)


def test_prompts_of_any_length_share_the_head():
    def head(tokens):
        model = sized("qwen3-0.6b", tokens, 0)
        cut = BrickSet.of([model], 128, "segments", {0: rewrite(model, settings())})
        return {s for s, each in cut.bricks.items() if each.model.layers[0].op == "Head"}

    assert head(16) == head(64)


def test_windows_are_those_of_the_model():
    model = sized("gemma-3-270m", 1, 16)
    blocks = [each for each in rewrite(model, settings()).layers if each.op == "Block"]
    found = Counter()
    for each in blocks:
        found[each.attributes["window"]] += each.attributes["blocks"]
    assert found == {1: 15, 0: 3}
    model = sized("gemma-3-270m", 16, 0)
    blocks = [each for each in rewrite(model, settings()).layers if each.op == "Block"]
    assert [each.attributes["window"] for each in blocks] == ([1] * 5 + [0]) * 3


def test_only_types_that_differ_make_blocks_differ():
    model = sized("qwen3-0.6b", 1, 16)
    for dtype, fine in (("q8_0", 0), ("q4_k_m", 14)):
        layers = rewrite(model, settings(dtype)).layers
        counts = [each.attributes for each in layers if each.op == "Block"]
        assert sum(each["fine"] * each["blocks"] for each in counts) == fine


def test_other_models_and_batches_are_refused():
    with pytest.raises(UnsupportedError, match="configuration"):
        rewrite(cases.network("relu").model, settings())
    raw = MODELS.load("qwen3-0.6b")
    two = canonical(raw, LoadOptions(batch=2, dims={"sequence": 1, "past": 4}), raw.source).model
    with pytest.raises(UnsupportedError, match="batches of 2"):
        rewrite(two, settings())


def test_layers_of_onnx_are_refused_and_chains_are_not():
    backend, relu = LlamaBackend(), cases.network("relu").model
    assert list(backend.check(relu)) == [0]
    with pytest.raises(UnsupportedError, match="language models"):
        Blocks.of_model(relu)
    assert not backend.check(smallest(3))
    assert len(Blocks.of_model(smallest(3)).blocks) == 3


def test_a_last_projection_alone_is_read_by_one_token():
    model = sized("qwen3-0.6b", 64, 0)
    cut = BrickSet.of([model], 128, "segments", {0: rewrite(model, settings())})
    found = {each.model.layers[0].op: Blocks.of_model(each.model) for each in cut.bricks.values()}
    assert (found["Head"].tokens, found["Head"].outputs) == (1, "last")
    assert found["Head"].of.vocabulary == 151936
    assert (found["Embedding"].tokens, found["Embedding"].outputs) == (64, "none")
    assert found["Block"].of.vocabulary == 32


@pytest.mark.parametrize("dtype", MIXTURES)
def test_a_file_is_as_long_as_its_weights(dtype, tmp_path: Path):
    of = architecture_of(MODELS.load("qwen3-0.6b").configuration).of_block
    path = tmp_path / "blocks.gguf"
    files.write(path, of, [Block(), Block(True)], dtype, 64)
    data = sum(
        math.ceil(each.nbytes / 32) * 32
        for each in files.tensors_of(of, [Block(), Block(True)], dtype)
    )
    assert 0 < path.stat().st_size - data < 4096


def test_rows_that_cannot_be_grouped_have_another_type():
    assert type_for("q4_k", 896) is TYPES["q5_0"]
    assert type_for("q6_k", 960) is TYPES["q8_0"]
    assert type_for("q8_0", 24) is TYPES["f16"]
    assert type_for("q4_k", 1024) is TYPES["q4_k"]


@pytest.mark.parametrize("name", TYPES)
def test_drawn_weights_have_the_bytes_of_their_type(name):
    kind = TYPES[name]
    assert sum(map(len, drawn(kind, 3000, 1024, 0))) == 3000 * kind.row_bytes(1024)


def test_as_many_blocks_are_fine_as_in_a_file_of_llama_cpp():
    assert [i for i in range(16) if is_fine(i, 16)] == [0, 1, 4, 7, 10, 13, 14, 15]


@pytest.mark.parametrize("dtype", ["q8_0", "q4_k_m", "f16"])
def test_blocks_of_a_token_are_so_many_that_no_cache_keeps_them(dtype):
    chain = rewrite(sized("qwen2.5-1.5b", 1, 128), settings(dtype))
    layers = [each for each in chain.layers if each.op == "Block"]
    assert sum(each.attributes["blocks"] for each in layers) == 28
    assert min(chain.tensors[each.inputs[1]].nbytes for each in layers) >= COLD_BYTES
    sizes = {(each.attributes["fine"], each.attributes["blocks"]) for each in layers}
    assert len({n for fine, n in sizes if not fine}) <= 2
    files_of = [Blocks.of_model(chain).blocks, [b for each in layers for b in one_file(each)]]
    assert len(files_of[0]) == len(files_of[1]) == 28


def one_file(layer):
    return range(layer.attributes["blocks"])


def test_every_part_of_the_cache_is_read_and_written_once():
    chain = rewrite(sized("gemma-3-270m", 1, 16), settings())
    read = [name for each in chain.layers for name in each.inputs if name.startswith("past")]
    written = [name for each in chain.layers for name in each.outputs if name.startswith("pres")]
    assert sorted(read) == sorted(chain.inputs[1:])
    assert sorted(written) == sorted(chain.outputs[1:])
