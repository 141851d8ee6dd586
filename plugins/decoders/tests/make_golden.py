"""Writes golden.npz: what transformers computes with the configurations beside this file.

The tests need no transformers; this script does. Run it where torch and transformers are
installed: ``python make_golden.py``, with names of configurations for some of them. Weights are
those of a formula (golden_weights.py).
"""

from __future__ import annotations

import itertools
import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
import transformers
from dlbricks_decoders.build import build
from dlbricks_decoders.families import decoder_of
from golden_weights import UNCACHED, encoder_input, tokens, weight
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    AutoModelForSpeechSeq2Seq,
    DynamicCache,
    EncoderDecoderCache,
)
from transformers.models.minimax.modeling_minimax import MiniMaxCache

HERE = Path(__file__).parent
PROMPT = 7

COMMON = [
    (r"^(model\.decoder|model|transformer|gpt_neox|biogpt|decoder)\.", ""),
    (r"\bembed_positions\.weights$", "embed_positions.weight"),
    (r"^h\.", "layers."),
    (r"\b(word_embeddings|wte|embed_in|tokens_embed)\b", "embed_tokens"),
    (r"\b(wpe|positions_embed)\b", "embed_positions"),
    (r"\bword_embeddings_layernorm\b", "embed_norm"),
    (r"^(ln_f|final_layernorm|final_layer_norm|layer_norm)\b", "norm"),
    (r"\bembed_out\b", "lm_head"),
    (r"\b(self_attention|attention|attn)\.", "self_attn."),
    (r"\b(query_key_value|c_attn)\b", "qkv_proj"),
    (r"self_attn\.(dense|out_proj|c_proj)\b", "self_attn.o_proj"),
    (r"\b(ln_1|ln_attn|self_attn_layer_norm)\b", "input_layernorm"),
    (r"\b(ln_2|ln_mlp|final_layer_norm)\b", "post_attention_layernorm"),
    (r"\.(mlp\.)?(fc1|fc_in|c_fc|dense_h_to_4h)\b", ".mlp.up_proj"),
    (r"\.(mlp\.)?(fc2|fc_out|dense_4h_to_h)\b|\.mlp\.c_proj\b", ".mlp.down_proj"),
    (r"\bblock_sparse_moe\b", "mlp"),
    (r"\bnorm_f\b", "norm"),
    (r"\bblocks\.", "layers."),
    (r"\bnorm_1\b", "input_layernorm"),
    (r"\bnorm_2\b", "post_attention_layernorm"),
    (r"\bWqkv\b", "qkv_proj"),
    (r"\bffn\.", "mlp."),
    (r"\bself_attn\.self_attn\.", "self_attn."),
    (r"\bquery_layernorm\b|\bq_layernorm\b", "q_norm"),
    (r"\bkey_layernorm\b|\bk_layernorm\b", "k_norm"),
    (r"\bkv_a_proj_with_mqa\b", "kv_a_proj"),
    (r"\bmlp\.(router\.gate|router|gate\.wg)\b", "mlp.gate"),
    (r"\bmlp\.gate\.weight_", "mlp.gate.weight"),
    (r"\b(shared_experts|shared_mlp)\b(?=\.(gate_proj|up_proj|down_proj))", "shared_expert"),
    (r"(?<=layers\.\d)\.shared_mlp\.input_linear", ".mlp.shared_expert.gate_up_proj"),
    (r"(?<=layers\.\d)\.shared_mlp\.output_linear", ".mlp.shared_expert.down_proj"),
    (r"(?<=layers\.\d)\.attention_layernorm\b", ".input_layernorm"),
    (r"(?<=layers\.\d)\.feedforward_layernorm\b", ".post_attention_layernorm"),
    (r"\battn_sub_norm\b", "output_norm"),
    (r"\bffn_sub_norm\b", "inner_norm"),
    (r"^language_model\.", ""),
    (r"\bpost_self_attn_layernorm\b|\bpost_norm1\b", "attention_layernorm"),
    (r"(\bmlp\.)?\bpost_mlp_layernorm\b|\bpost_norm2\b", "feed_forward_layernorm"),
    (r"\bg_proj\b|(?<=self_attn\.)gate_proj\b", "gate_proj"),
]
SANDWICH = [
    (r"\bpost_attention_layernorm\b", "attention_layernorm"),
    (r"\bpre_(feedforward|mlp)_layernorm\b", "post_attention_layernorm"),
    (r"\bpost_feedforward_layernorm\b", "feed_forward_layernorm"),
    (r"\bpost_feedforward_layernorm_", "feed_forward_layernorm_"),
    (r"\bpre_feedforward_layernorm_", "feed_forward_input_layernorm_"),
]
AFTER_SUM = [
    (r"\binput_layernorm\b", "attention_sum_layernorm"),
    (r"\bpost_attention_layernorm\b", "feed_forward_sum_layernorm"),
    (r"\bcross_layernorm\b", "cross_sum_layernorm"),
]


T5 = [
    (r"^(encoder|decoder)\.block\.", r"\1.layers."),
    (r"^(encoder|decoder)\.final_layer_norm\b", r"\1.norm"),
    (r"\blayers\.(\d+)\.layer\.0\.layer_norm\b", r"layers.\1.input_layernorm"),
    (r"\bdecoder\.layers\.(\d+)\.layer\.1\.layer_norm\b", r"decoder.layers.\1.cross_layernorm"),
    (r"\blayers\.(\d+)\.layer\.[12]\.layer_norm\b", r"layers.\1.post_attention_layernorm"),
    (r"\blayer\.0\.SelfAttention\.relative_attention_bias\b", "self_attn.embed_distances"),
    (r"\blayer\.\d\.SelfAttention\.([qkvo])\b", r"self_attn.\1_proj"),
    (r"\blayer\.1\.EncDecAttention\.([qkvo])\b", r"encoder_attn.\1_proj"),
    (r"\blayer\.\d\.DenseReluDense\.wi_0\b", "mlp.gate_proj"),
    (r"\blayer\.\d\.DenseReluDense\.(wi_1|wi)\b", "mlp.up_proj"),
    (r"\blayer\.\d\.DenseReluDense\.wo\b", "mlp.down_proj"),
    (r"^shared\b", "embed_tokens"),
]
CROSSED = [
    (r"^model\.shared\b", "embed_tokens"),
    (r"^model\.(encoder|decoder)\.layer_norm\b", r"\1.norm"),
    (r"\bencoder_attn\.out_proj\b", "encoder_attn.o_proj"),
    (r"\bencoder_attn_layer_norm\b", "cross_layernorm"),
    (r"\blayernorm_embedding\b", "embed_norm"),
    (r"^model\.(?=encoder)", ""),
    (r"^final_logits_bias$", "lm_head.bias"),
]
BESIDE = [
    (r"(?<=layers\.\d)\.experts\b", ".experts.experts"),
    (r"\brouter\.proj\b", "experts.gate"),
    (r"\brouter\.", "experts.gate."),
]
CONSTANT = ("alpha_p", "alpha_n", "e_score_correction_bias", "expert_bias")
"""Parameters without a weight here: coefficients of an activation, zeros that choose experts."""

LESS_ONE = ("gemma", "gemma2", "gemma3_text", "vaultgemma", "nemotron", "recurrent_gemma",
            "qwen3_next", "qwen3_5_text", "qwen3_5_moe_text")  # fmt: skip
"""Families whose files hold the factor of a norm minus 1."""


HYBRID = [
    (r"^backbone\.", ""),
    (r"^embeddings\b", "embed_tokens"),
    (r"\.mixer\.(q_proj|k_proj|v_proj|o_proj)\b", r".self_attn.\1"),
    (r"\.mixer\.(up_proj|down_proj|experts|gate\b|shared_expert)", r".mlp.\1"),
    (r"\.mixer\.", ".mamba."),
    (r"\b(operator_norm|pre_mixer_layernorm)\b", "input_layernorm"),
    (r"\b(ffn_norm|pre_ff_layernorm)\b", "post_attention_layernorm"),
    (r"\bpost_operator_norm\b", "attention_layernorm"),
    (r"\bpost_ffn_norm\b", "feed_forward_layernorm"),
    (r"\bembedding_norm\b", "norm"),
    (r"\.feed_forward\.", ".mlp."),
    (r"\.mlp\.router\b", ".mlp.gate"),
    (r"\.mlp\.w1\b", ".mlp.gate_proj"),
    (r"\.mlp\.w3\b", ".mlp.up_proj"),
    (r"\.mlp\.w2\b", ".mlp.down_proj"),
]


DBRX = [
    (r"\bnorm_attn_norm\.", ""),
    (r"\bffn\.router\.layer\b", "mlp.gate"),
    (r"\bffn\.experts\.mlp\.w1$", "mlp.experts.gate_proj"),
    (r"\bffn\.experts\.mlp\.v1$", "mlp.experts.up_proj"),
    (r"\bffn\.experts\.mlp\.w2$", "mlp.experts.down_proj"),
]
OLMO_HYBRID = [
    (r"\blinear_attn\.g_proj\b", "linear_attn.in_proj_z"),
    (r"\blinear_attn\.([qkvab])_proj\b", r"linear_attn.in_proj_\1"),
    (r"\blinear_attn\.o_norm\b", "linear_attn.norm"),
    (r"\blinear_attn\.o_proj\b", "linear_attn.out_proj"),
]


def _of_both(found: re.Match[str]) -> str:
    """Name of a part of one of the two blocks that are a layer of LongCat Flash."""
    layer, part, which = found.groups()
    return f"layers.{2 * int(layer) + int(which)}.{part.replace('mlps', 'mlp')}"


def _across(found: re.Match[str]) -> str:
    """Name of a part of the experts of such a layer."""
    part = found[2].replace("router.classifier", "gate")
    return f"layers.{2 * int(found[1])}.shortcut.{part}"


LONGCAT = [
    (r"\blayers\.(\d)\.mlp\.(experts|router\.classifier)\b", _across),
    (
        r"\blayers\.(\d)\.(self_attn|mlps|input_layernorm|post_attention_layernorm)\.(\d)\b",
        _of_both,
    ),
]
GRIFFIN = [
    (r"\btemporal_block\.([qkvo])_proj\b", r"self_attn.\1_proj"),
    (r"\btemporal_block\b", "recurrent"),
    (r"\btemporal_pre_norm\b", "input_layernorm"),
    (r"\bchannel_pre_norm\b", "post_attention_layernorm"),
    (r"\bmlp_block\b", "mlp"),
    (r"\bfinal_norm\b", "norm"),
]
APART = {
    "recurrent_gemma": GRIFFIN,
    "dbrx": DBRX,
    "olmo_hybrid": OLMO_HYBRID,
    "longcat_flash": LONGCAT,
}
"""Further rules of families, which come first."""


def our_name(name: str, config: dict) -> str:
    family = config["model_type"]
    rules = [*APART.get(family, ()), *COMMON]
    if config.get("is_encoder_decoder"):
        rules = [*(T5 if "d_kv" in config else CROSSED), *COMMON]
        if family in ("t5", "mt5"):
            rules.append((r"\blayers\.0\.self_attn\.embed_distances\b", "embed_distances"))
        # Parts with norms behind them: BART's and Marian's.
        rules += AFTER_SUM if family in ("bart", "marian") else []
    if family in ("gemma2", "gemma3_text", "olmo2", "olmo3", "exaone4", "vaultgemma", "flex_olmo",
                  "afmoe", "gemma3n_text", "gemma4_text", "gemma4_unified_text"):  # fmt: skip
        rules += SANDWICH
    if family in (
        "mamba2",
        "bamba",
        "granitemoehybrid",
        "nemotron_h",
        "lfm2",
        "lfm2_moe",
        "lfm3",
        "llama4_text",
        "mamba",
        "falcon_mamba",
        "jamba",
        "falcon_h1",
    ):
        rules += HYBRID
    if family == "gemma4_text":
        rules += BESIDE
    if family == "openai-gpt" or (family == "opt" and not config.get("do_layer_norm_before", True)):
        rules += AFTER_SUM
    for pattern, new in rules:
        name = re.sub(pattern, new, name)
    return name


def spellings(name: str) -> list[str]:
    """Names that a weight has here, by what its block consists of."""
    norm = r"(?<=layers\.\d)\.norm\b"
    return [
        name,
        re.sub(norm, ".input_layernorm", name),
        re.sub(norm, ".post_attention_layernorm", name),
        name.replace(".shared_expert.", "."),
        # OLMo Hybrid has norms behind the parts of some blocks, and before those of others.
        name.replace("post_attention_layernorm", "attention_layernorm"),
        name.replace("post_feedforward_layernorm", "feed_forward_layernorm"),
    ]


def filled(model: torch.nn.Module, config: dict, shapes: dict[str, tuple[int, ...]]) -> None:
    """Gives every parameter of the module the values of the decoder's weight."""
    used = set()

    def values(name: str) -> np.ndarray:
        used.add(name)
        return weight(name, shapes[name])

    family = config["model_type"]
    for theirs, parameter in model.named_parameters():
        name = our_name(theirs, config)
        unseen = [f"layers.{i}." for i in config.get("cross_attention_layers", ())]
        unseen.append("embed_tokens_extend.")
        if name.rpartition(".")[2] in CONSTANT or name.startswith(tuple(unseen)):
            continue
        name = next((each for each in spellings(name) if each in shapes), name)
        if ".experts." in name and ".gate." not in name:
            stem, part = name.rsplit(".", 1)
            part = part.removesuffix("_bias") + (".bias" if part.endswith("_bias") else ".weight")
            # LongCat Flash keeps weights of experts that compute nothing, too.
            names = itertools.takewhile(
                shapes.__contains__, (f"{stem}.{i}.{part}" for i in itertools.count())
            )
            data = np.stack([*map(values, names)])
            if family == "dbrx":  # rows of all experts in one matrix, each a hidden element wide
                data = data.transpose(0, 2, 1) if "down_proj" not in part else data
                data = data.reshape(parameter.shape)
            if data.ndim == 3 and family not in ("gpt_oss", "llama4_text", "aria_text"):
                data = data.transpose(0, 2, 1)
        else:
            data = values(name)
            embeds = re.search(r"\bembed", name) is not None
            kept = name.endswith(("A_log", "dt_proj.weight"))
            as_is = embeds or kept or family in ("gpt2", "openai-gpt")
            if data.ndim == 2 and not as_is:
                data = data.T
            data = data.reshape(parameter.shape) if name.endswith(("sinks", "_bias")) else data
            if family in LESS_ONE and name.endswith("norm.weight") and "linear_attn" not in name:
                data = data - 1.0
        with torch.no_grad():
            # Llama 3.2 Vision embeds 8 tokens more.
            parameter[: len(data)].copy_(torch.from_numpy(np.ascontiguousarray(data)))
    for theirs, buffer in model.named_buffers():
        name = our_name(theirs, config)
        if name in shapes:
            buffer.copy_(torch.from_numpy(values(name)).reshape(buffer.shape))
    missing = shapes.keys() - used
    assert not missing, missing


class Headed(torch.nn.Module):
    """The text part of a model of pictures and text, with a projection to logits."""

    def __init__(self, config) -> None:
        super().__init__()
        self.model = AutoModel.from_config(config, attn_implementation="eager")
        self.lm_head = torch.nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    def forward(self, ids, **more):
        states = self.model(ids, **more).last_hidden_state
        return SimpleNamespace(logits=self.lm_head(states))


def their_model(config) -> torch.nn.Module:
    """The language model in transformers."""
    if config.model_type == "mistral4":
        return transformers.Mistral4ForCausalLM._from_config(config, attn_implementation="eager")
    if config.model_type == "mllama_text_model":
        return transformers.MllamaForCausalLM._from_config(config, attn_implementation="eager")
    if config.model_type.endswith(("vl_text", "vl_moe_text", "glm4v_text", "glm_ocr_text")):
        return Headed(config)
    if config.is_encoder_decoder:
        sound = config.model_type == "whisper"
        kind = AutoModelForSpeechSeq2Seq if sound else AutoModelForSeq2SeqLM
        return kind.from_config(config, attn_implementation="eager")
    return AutoModelForCausalLM.from_config(config, attn_implementation="eager")


def answered(model: torch.nn.Module, config: dict, ids: torch.Tensor, own: DynamicCache) -> list:
    """Results of a decoder for the prompt and the next token, after its encoder."""
    cache = EncoderDecoderCache(own, DynamicCache())
    read = {name: torch.from_numpy(value) for name, value in encoder_input(config).items()}
    read = {name.removeprefix("encoder_"): value for name, value in read.items()}
    return [model(**read, decoder_input_ids=each, cache=cache, use_cache=True)
            for each in (ids[:, :PROMPT], ids[:, PROMPT:])]  # fmt: skip


def results_of(path: Path) -> dict[str, np.ndarray]:
    """What transformers computes with one configuration."""
    config = json.loads(path.read_text())
    raw = build(decoder_of(config, path.name), path.stem, "")
    shapes = {name: raw.tensors[name].shape for name in raw.weights - raw.constants.keys()}
    theirs = AutoConfig.for_model(**config).get_text_config()
    model = their_model(theirs).eval()
    filled(model, config, shapes)
    ids = torch.from_numpy(tokens(PROMPT + 1, config["vocab_size"]))
    cache = DynamicCache() if theirs.is_encoder_decoder else DynamicCache(config=theirs)
    if config["model_type"] == "minimax":
        cache = MiniMaxCache()
    # Bamba derives no positions from its cache.
    places = {"position_ids": torch.tensor([[PROMPT]])} if path.stem == "bamba" else {}
    with torch.no_grad():
        if theirs.is_encoder_decoder:
            first, second = answered(model, config, ids, cache)
        elif path.stem in UNCACHED:
            first, second = model(ids[:, :PROMPT]), model(ids)
        else:
            first = model(ids[:, :PROMPT], cache=cache, use_cache=True)
            second = model(ids[:, PROMPT:], cache=cache, use_cache=True, **places)
    print(path.stem, float(first.logits.abs().max()))
    kept = [layer for layer in cache.layers if getattr(layer, "keys", None) is not None]
    last = {"key": kept[-1].keys.numpy(), "value": kept[-1].values.numpy()} if kept else {}
    logits = {"prompt": first.logits[:, -1:].numpy(), "token": second.logits[:, -1:].numpy()}
    return {f"{path.stem}/{name}": value for name, value in {**logits, **last}.items()}


def main() -> None:
    only = sys.argv[1:]
    results = dict(np.load(HERE / "golden.npz")) if only else {}
    for path in sorted((HERE / "configurations").glob("*.json")):
        if not only or path.stem in only:
            results.update(results_of(path))
    results["transformers"] = transformers.__version__
    np.savez_compressed(HERE / "golden.npz", **results)


if __name__ == "__main__":
    main()
