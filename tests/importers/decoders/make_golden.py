"""Writes golden.npz: what transformers computes with the configurations beside this file.

The tests need no transformers; this script does. Run it where torch and transformers are
installed: ``python make_golden.py``. Weights are those of a formula (golden_weights.py).
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import torch
import transformers
from golden_weights import tokens, weight
from transformers import AutoConfig, AutoModelForCausalLM, DynamicCache

from dlbricks_core.importers.decoders.build import build
from dlbricks_core.importers.decoders.families import decoder_of

HERE = Path(__file__).parent
PROMPT = 7

COMMON = [
    (r"^(model\.decoder|model|transformer|gpt_neox|decoder)\.", ""),
    (r"^h\.", "layers."),
    (r"\b(word_embeddings|wte|embed_in)\b", "embed_tokens"),
    (r"\bwpe\b", "embed_positions"),
    (r"\bword_embeddings_layernorm\b", "embed_norm"),
    (r"^(ln_f|final_layernorm|final_layer_norm)\b", "norm"),
    (r"\bembed_out\b", "lm_head"),
    (r"\b(self_attention|attention|attn)\.", "self_attn."),
    (r"\b(query_key_value|c_attn)\b", "qkv_proj"),
    (r"self_attn\.(dense|out_proj|c_proj)\b", "self_attn.o_proj"),
    (r"\b(ln_1|ln_attn|self_attn_layer_norm)\b", "input_layernorm"),
    (r"\b(ln_2|ln_mlp|final_layer_norm)\b", "post_attention_layernorm"),
    (r"\.(mlp\.)?(fc1|fc_in|c_fc|dense_h_to_4h)\b", ".mlp.up_proj"),
    (r"\.(mlp\.)?(fc2|fc_out|dense_4h_to_h)\b|\.mlp\.c_proj\b", ".mlp.down_proj"),
    (r"\bblock_sparse_moe\b", "mlp"),
]
SANDWICH = [
    (r"\bpost_attention_layernorm\b", "attention_layernorm"),
    (r"\bpre_feedforward_layernorm\b", "post_attention_layernorm"),
    (r"\bpost_feedforward_layernorm\b", "feed_forward_layernorm"),
]
AFTER_SUM = [
    (r"\binput_layernorm\b", "attention_sum_layernorm"),
    (r"\bpost_attention_layernorm\b", "feed_forward_sum_layernorm"),
]


def our_name(name: str, config: dict) -> str:
    family = config["model_type"]
    rules = list(COMMON)
    if family in ("gemma2", "gemma3_text", "olmo2", "olmo3"):
        rules += SANDWICH
    if family == "opt" and not config.get("do_layer_norm_before", True):
        rules += AFTER_SUM
    for pattern, new in rules:
        name = re.sub(pattern, new, name)
    return name


def filled(model: torch.nn.Module, config: dict, shapes: dict[str, tuple[int, ...]]) -> None:
    """Gives every parameter of the module the values of the decoder's weight."""
    used = set()

    def values(name: str) -> np.ndarray:
        used.add(name)
        return weight(name, shapes[name])

    for theirs, parameter in model.named_parameters():
        name = our_name(theirs, config)
        if ".experts." in name:
            stem, part = name.rsplit(".", 1)
            data = np.stack([values(f"{stem}.{i}.{part}.weight").T for i in range(len(parameter))])
        else:
            data = values(name)
            embeds = "embed" in name and not name.startswith("project")
            if data.ndim == 2 and not embeds and config["model_type"] != "gpt2":
                data = data.T
            if config["model_type"].startswith("gemma") and name.endswith("norm.weight"):
                data = data - 1.0
        with torch.no_grad():
            parameter.copy_(torch.from_numpy(np.ascontiguousarray(data)))
    missing = shapes.keys() - used
    assert not missing, missing


def main() -> None:
    results = {}
    for path in sorted((HERE / "configurations").glob("*.json")):
        config = json.loads(path.read_text())
        raw = build(decoder_of(config, path.name), path.stem, "")
        shapes = {name: raw.tensors[name].shape for name in raw.weights - raw.constants.keys()}
        theirs = AutoConfig.for_model(**config)
        model = AutoModelForCausalLM.from_config(theirs, attn_implementation="eager").eval()
        filled(model, config, shapes)
        ids = torch.from_numpy(tokens(PROMPT + 1, config["vocab_size"]))
        cache = DynamicCache()
        with torch.no_grad():
            first = model(ids[:, :PROMPT], past_key_values=cache, use_cache=True)
            second = model(ids[:, PROMPT:], past_key_values=cache, use_cache=True)
        results[f"{path.stem}/prompt"] = first.logits[:, -1:].numpy()
        results[f"{path.stem}/token"] = second.logits[:, -1:].numpy()
        last = cache.layers[-1]
        results[f"{path.stem}/key"] = last.keys.numpy()
        results[f"{path.stem}/value"] = last.values.numpy()
        print(path.stem, float(first.logits.abs().max()))
    np.savez_compressed(HERE / "golden.npz", transformers=transformers.__version__, **results)


if __name__ == "__main__":
    main()
