"""Language models of families that read pictures, too: Qwen 2 VL to Qwen 3 VL and Llama 3.2 Vision.

Tokens of text have the same position in all three directions, so their rotation is the usual one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from dlbricks_decoders.architecture import Decoder
from dlbricks_decoders.families import llama, qwen
from dlbricks_decoders.fields import Fields


def _qwen2_vl(fields: Fields) -> Decoder:
    """Qwen 2 VL and 2.5 VL, whose published files state the language model's fields at the top."""
    fields.ignore("vision_config", "ignore_keys_at_rope_validation")
    return qwen.FAMILIES["qwen2"](fields.with_default("rope_theta", 1e6))


def _qwen3_vl(fields: Fields) -> Decoder:
    return qwen.FAMILIES["qwen3"](fields.with_default("rope_theta", 5e5))


def _qwen3_vl_moe(fields: Fields) -> Decoder:
    return qwen.FAMILIES["qwen3_moe"](fields.with_default("rope_theta", 5e5))


def _phi4_multimodal(fields: Fields) -> Decoder:
    """Phi 4 Multimodal, whose file states the language model's fields at the top."""
    fields.ignore("vision_config", "audio_config")
    return llama.FAMILIES["phi3"](fields)


def _mllama(fields: Fields) -> Decoder:
    """Llama 3.2 Vision; blocks that attend to a picture do not run without one."""
    usual = fields.with_default("rope_theta", 5e5).with_default("rms_norm_eps", 1e-5)
    plain = llama.FAMILIES["llama"](usual)
    given = fields.get("cross_attention_layers")
    seeing = range(3, len(plain.blocks), 5) if given is None else given
    listed = isinstance(seeing, list | range)
    blocks = [block for i, block in enumerate(plain.blocks) if listed and i not in seeing]
    if not blocks:
        raise fields.refusal("cross_attention_layers", given, "Supported: numbers of some blocks.")
    return replace(plain, blocks=tuple(blocks))


FAMILIES: Mapping[str, Callable[[Fields], Decoder]] = {
    "qwen2_vl": _qwen2_vl,
    "qwen2_vl_text": _qwen2_vl,
    "qwen2_5_vl": _qwen2_vl,
    "qwen2_5_vl_text": _qwen2_vl,
    "qwen3_vl_text": _qwen3_vl,
    "qwen3_vl_moe_text": _qwen3_vl_moe,
    "phi4_multimodal": _phi4_multimodal,
    "mllama_text_model": _mllama,
}
"""Families by ``model_type``."""
