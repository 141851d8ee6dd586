"""Sizes that a configuration within another one leaves out.

A file that describes more than text has the language model under ``text_config``, with only the
fields that differ from the family's defaults in transformers.
"""

from __future__ import annotations

from collections.abc import Mapping

_LLAMA = {
    "vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008,
    "num_hidden_layers": 32, "num_attention_heads": 32,
}  # fmt: skip
_GEMMA2 = {
    "vocab_size": 256000, "hidden_size": 2304, "intermediate_size": 9216,
    "num_hidden_layers": 26, "num_attention_heads": 8, "num_key_value_heads": 4,
}  # fmt: skip

SIZES: Mapping[str, Mapping[str, int]] = {
    "llama": _LLAMA,
    "mistral": {**_LLAMA, "intermediate_size": 14336},
    "qwen2": {**_LLAMA, "vocab_size": 151936, "intermediate_size": 22016},
    "gemma": {
        "vocab_size": 256000, "hidden_size": 3072, "intermediate_size": 24576,
        "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 16,
    },
    "gemma2": _GEMMA2,
    "gemma3_text": {**_GEMMA2, "vocab_size": 262208},
    "gemma3n_text": {
        "vocab_size": 262400, "hidden_size": 2048, "intermediate_size": 16384,
        "num_hidden_layers": 35, "num_attention_heads": 8, "num_key_value_heads": 2,
    },
    "gemma4_text": {
        "vocab_size": 262144, "hidden_size": 2304, "intermediate_size": 9216,
        "num_hidden_layers": 30, "num_attention_heads": 8, "num_key_value_heads": 4,
    },
    "phi": {
        "vocab_size": 51200, "hidden_size": 2048, "intermediate_size": 8192,
        "num_hidden_layers": 24, "num_attention_heads": 32,
    },
    "llama4_text": {
        "vocab_size": 202048, "hidden_size": 5120, "intermediate_size": 8192,
        "num_hidden_layers": 48, "num_attention_heads": 40,
    },
    "ministral3": {
        "vocab_size": 131072, "hidden_size": 4096, "intermediate_size": 14336,
        "num_hidden_layers": 34, "num_attention_heads": 32,
    },
    "qwen3": {**_LLAMA, "vocab_size": 151936, "intermediate_size": 22016},
    "phi3": {
        "vocab_size": 32064, "hidden_size": 3072, "intermediate_size": 8192,
        "num_hidden_layers": 32, "num_attention_heads": 32,
    },
    "granite": _LLAMA,
    "opt": {
        "vocab_size": 50272, "hidden_size": 768, "ffn_dim": 3072,
        "num_hidden_layers": 12, "num_attention_heads": 12,
    },
}  # fmt: skip
"""Sizes by ``model_type``; families that are not here have to state theirs."""
