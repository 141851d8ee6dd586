"""Configurations by name and by file, and what is said where they cannot be read."""

from __future__ import annotations

import json
import re

import pytest
from dlbricks_decoders import collection
from dlbricks_decoders.collection import LanguageModels
from dlbricks_decoders.families import decoder_of, text_of
from dlbricks_decoders.parameters import parameters

from dlbricks_core.errors import ModelError

TINY = {
    "model_type": "llama",
    "vocab_size": 32,
    "hidden_size": 8,
    "intermediate_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
}

#: Parameters that the publishers of models count.
PUBLISHED = {
    "gpt-oss-20b": 20_914_757_184,
    "deepseek-v2-lite": 15_706_484_224,
    "lfm2-1.2b": 1_170_340_608,
    "qwen1.5-moe-a2.7b": 14_315_784_192,
    "gpt2": 124_439_808,
    "gpt2-xl": 1_557_611_200,
    "opt-125m": 125_239_296,
    "opt-350m": 331_196_416,
    "bloom-560m": 559_214_592,
    "pythia-410m": 405_334_016,
    "llama-2-7b": 6_738_415_616,
    "llama-3-8b": 8_030_261_248,
    "llama-3-70b": 70_553_706_496,
    "llama-3.2-1b": 1_235_814_400,
    "tinyllama-1.1b": 1_100_048_384,
    "smollm2-135m": 134_515_008,
    "mistral-7b": 7_241_732_096,
    "mixtral-8x7b": 46_702_792_704,
    "qwen2-0.5b": 494_032_768,
    "qwen2.5-7b": 7_615_616_512,
    "qwen3-0.6b": 596_049_920,
    "qwen3-30b-a3b": 30_532_122_624,
    "gemma-2b": 2_506_172_416,
    "gemma-2-2b": 2_614_341_888,
    "gemma-3-1b": 999_885_952,
    "phi-2": 2_779_683_840,
    "phi-3-mini": 3_821_079_552,
    "olmo-1b": 1_176_764_416,
    "olmo-2-1b": 1_484_916_736,
    "olmoe-1b-7b": 6_919_161_856,
    "falcon-7b": 6_921_720_704,
    "starcoder2-3b": 3_030_371_328,
}


@pytest.mark.process
@pytest.mark.parametrize("name", PUBLISHED)
def test_decoders_have_as_many_parameters_as_published(name):
    notes = LanguageModels().describe(name)
    assert notes is not None
    assert notes.parameters == PUBLISHED[name]


@pytest.mark.long
def test_every_listed_model_loads_without_weights():
    collection = LanguageModels()
    for name in collection.names():
        model = collection.load(name)
        assert model.source == f"llm:{name}"
        assert model.inputs[0] == "input_ids"
        assert re.fullmatch(r"past_(key_values\.0\.key|conv\.0)", model.inputs[1])
        assert model.outputs[0] == "logits"
        assert sum(value.size for value in model.constants.values()) < 1e6


def test_a_configuration_is_named_by_its_folder(tmp_path):
    path = tmp_path / "mine" / "config.json"
    path.parent.mkdir()
    path.write_text(json.dumps(TINY))
    for spelled in (path, path.parent):
        model = LanguageModels().load(str(spelled))
        assert model.name == "mine"
        assert model.source == f"llm:{spelled}"


def test_a_configuration_runs_no_code_that_it_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "evil.py").write_text("open('ran', 'w').close()\nclass Config: pass\n")
    code = {"auto_map": {"AutoConfig": "evil.Config", "AutoModel": "evil.Config"}}
    (tmp_path / "config.json").write_text(json.dumps(TINY | code))
    assert LanguageModels().load(str(tmp_path / "config.json")).layers
    assert not (tmp_path / "ran").exists()


def test_a_file_of_another_name_names_the_model(tmp_path):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(TINY))
    assert LanguageModels().load(str(path)).name == "mine"


def test_a_misspelt_name_gets_the_nearest_and_the_way_to_a_file():
    with pytest.raises(ModelError, match="no model 'lama-3-8b'") as caught:
        LanguageModels().load("lama-3-8b")
    assert "llama-3-8b" in caught.value.hint
    assert "config.json" in caught.value.hint


#: A configuration with a truth value in the place of a list.
_LFM2 = re.sub(
    rb'("full_attn_idxs": )\[[^]]*\]',
    rb"\1true",
    next(collection._FOLDER.glob("lfm2*.json")).read_bytes(),
)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is not JSON"),
        (b'{"model_type": "llama",', "is not JSON .line 1"),
        (b"\xff\xfe\x00", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"[1]", "it has no model_type"),
        (b'{"model_type": 3}', "it has no model_type"),
        (b'{"model_type": ["llama"]}', "it has no model_type"),
        (b'{"model_type": {}, "text_config": {}}', "it has no model_type"),
        (b" " * (1 << 23), "too large"),
        (_LFM2, "its values do not fit"),
    ],
)
def test_a_file_that_is_no_configuration_gives_one_line(tmp_path, content, says):
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=says) as caught:
        LanguageModels().load(str(path))
    assert "\n" not in caught.value.message
    assert caught.value.hint


def test_a_path_that_does_not_exist_gives_one_line(tmp_path):
    with pytest.raises(ModelError, match="no such file") as caught:
        LanguageModels().load(str(tmp_path / "config.json"))
    assert "dlbricks list models llm:" in caught.value.hint


#: What the publishers count of the language model alone, and the sizes that their files leave out.
LANGUAGE = {
    "gemma3": (
        3_880_099_328 + 64 * 2560,  # gemma-3-4b, and 64 further tokens
        {"model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240,
         "num_hidden_layers": 34, "sliding_window": 1024,
         "rope_scaling": {"factor": 8.0, "rope_type": "linear"}},
    ),
    "llava": (
        6_738_939_904,  # llama-2-7b, and 64 further tokens
        {"model_type": "llama", "rms_norm_eps": 1e-5, "vocab_size": 32064,
         "max_position_embeddings": 4096},
    ),
}  # fmt: skip


@pytest.mark.parametrize("family", LANGUAGE)
def test_of_a_model_of_images_and_text_the_language_model_is_read(tmp_path, family):
    count, text = LANGUAGE[family]
    path = tmp_path / "mine" / "config.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"model_type": family, "text_config": text, "vision_config": {}}))
    values, part = text_of(json.loads(path.read_text()), "config.json")
    assert part == "text_config"
    assert parameters(decoder_of(values, "config.json")) == count
    assert LanguageModels().load(str(path)).name == "mine text_config"


def test_fields_of_the_language_model_stand_at_the_top_or_in_a_part():
    sizes = {name: value for name, value in TINY.items() if name != "model_type"}
    rotation = {"type": "mrope", "mrope_section": [1, 1, 0]}
    top = {
        "model_type": "qwen2_vl",
        **sizes,
        "rope_scaling": rotation,
        "vision_config": {"depth": 2},
    }
    text = {"model_type": "qwen2_vl_text", **sizes, "rope_scaling": rotation}
    whole = {"model_type": "qwen2_vl", "text_config": text, "vision_config": {"depth": 2}}
    values, part = text_of(top, "config.json")
    inner, named = text_of(whole, "config.json")
    assert (part, named) == ("", "text_config")
    decoder = decoder_of(values, "config.json")
    assert decoder.blocks == decoder_of(inner, "config.json").blocks
    assert decoder.attentions[0].rotary.frequencies[1] == pytest.approx(1e6**-0.5)


@pytest.mark.parametrize("seeing", [[0, 1], "all"])
def test_blocks_without_a_picture_have_to_remain(seeing):
    values = {**TINY, "model_type": "mllama_text_model", "cross_attention_layers": seeing}
    with pytest.raises(ModelError, match="cross_attention_layers"):
        decoder_of(values, "config.json")


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"text_config": {"model_type": "gemma9_text"}}, "text_config: model_type 'gemma9_text'"),
        ({"text_config": {"model_type": ["llama"]}}, "text_config is not a configuration"),
        ({"text_config": {**TINY, "odd": 1}}, "text_config: unknown field odd"),
        ({"text_config": TINY, "quantization_config": {"bits": 4}}, "quantized"),
        ({"text_config": [1]}, "model_type 'both' is not supported"),
    ],
)
def test_what_is_wrong_with_the_language_model_is_said_with_its_place(tmp_path, more, says):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": "both", **more}))
    with pytest.raises(ModelError, match=says) as caught:
        LanguageModels().load(str(path))
    assert caught.value.hint


@pytest.mark.long
def test_a_configuration_of_too_many_layers_is_refused_before_it_is_built(tmp_path, monkeypatch):
    values = {
        "model_type": "mixtral", "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 100,
        "num_key_value_heads": 4, "intermediate_size": 64,
        "num_hidden_layers": 1024, "num_local_experts": 1024,
    }  # fmt: skip
    path = tmp_path / "config.json"
    path.write_text(json.dumps(values))
    monkeypatch.setattr("dlbricks_decoders.collection.build", None)
    with pytest.raises(ModelError, match=r"1024 blocks would be .* layers, more than 250,000"):
        LanguageModels().load(str(path))


def test_layers_are_counted_as_they_are_built(tmp_path, monkeypatch):
    values = {
        "model_type": "mixtral", "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 100,
        "num_key_value_heads": 4, "intermediate_size": 64,
        "num_hidden_layers": 3, "num_local_experts": 5,
    }  # fmt: skip
    path = tmp_path / "config.json"
    path.write_text(json.dumps(values))
    layers = len(LanguageModels().load(str(path)).layers)
    for most, refused in ((layers, False), (layers - 1, True)):
        monkeypatch.setattr("dlbricks_decoders.parameters.MAX_LAYERS", most)
        if refused:
            with pytest.raises(ModelError, match=f"would be {layers} layers"):
                LanguageModels().load(str(path))
        else:
            assert LanguageModels().load(str(path))
