"""Families of language models, each with a function that interprets its configuration.

Each function follows the definition of its family in the transformers library, including the
defaults of missing fields. Families with similar structure share a module, and ``parts`` holds the
code that all of them share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from dlbricks_core.errors import ModelError, reason, shown
from dlbricks_decoders.architecture import Decoder
from dlbricks_decoders.families import (
    deepseek,
    encoders,
    experts,
    gemma,
    glm,
    gpt,
    hybrid,
    llama,
    mamba,
    newer,
    olmo,
    parallel,
    pictures,
    qwen,
    squared,
)
from dlbricks_decoders.families.defaults import SIZES, USUAL
from dlbricks_decoders.fields import Fields
from dlbricks_decoders.quantized import FIELDS, check_quantized

FAMILIES: Mapping[str, Callable[[Fields], Decoder]] = {
    **llama.FAMILIES,
    **qwen.FAMILIES,
    **gemma.FAMILIES,
    **olmo.FAMILIES,
    **gpt.FAMILIES,
    **parallel.FAMILIES,
    **squared.FAMILIES,
    **glm.FAMILIES,
    **experts.FAMILIES,
    **deepseek.FAMILIES,
    **hybrid.FAMILIES,
    **mamba.FAMILIES,
    **newer.FAMILIES,
    **encoders.FAMILIES,
    **pictures.FAMILIES,
}
"""Families by ``model_type``."""

_UNUSED: Mapping[str, tuple[str, ...]] = {
    "falcon": ("ff_factor",),
    "gemma": ("num_image_tokens",),
    "gemma2": ("sliding_window_size",),
    "llama": ("activation", "perceiver_config", "pixel_shuffle_factor"),
    "qwen3_moe": ("use_qk_norm",),
    "stablelm": ("norm_eps", "num_heads", "rope_pct", "rotary_scaling_factor"),
    "starcoder2": ("activation_function", "layer_norm_epsilon"),
    "youtu": ("embedding_initializer_range",),
}
"""Fields that published configurations have although their family never reads them."""

TEXT = "text_config"
"""Field of the language model in a configuration that describes more than text."""


TIED = "tie_word_embeddings"
"""Field that says whether embedding and head share weights."""


def text_of(values: Any, source: str, dtype: str | None = None) -> tuple[Any, str]:
    """The part of a configuration that describes the language model, and the part's name.

    That is the whole configuration, without a name, unless its family reads more than text.

    Args:
        values: The configuration, as JSON holds it.
        source: Name of the configuration for messages.
        dtype: Name of the conversion to another element type that follows; ``None`` for none.

    Raises:
        ModelError: If the weights are quantized, and no conversion follows.
    """
    part = values.get(TEXT) if isinstance(values, dict) else None
    if not isinstance(part, dict):
        return values, ""
    whole = values.get("model_type")
    if isinstance(whole, str) and whole in FAMILIES and "hidden_size" in values:
        return values, ""
    stated = (values[name] for name in FIELDS if values.get(name) is not None)
    check_quantized(next(stated, None), source, dtype)
    family = part.get("model_type")
    usual = SIZES.get(family, {}) if isinstance(family, str) else {}
    # As in transformers, fields of the outer configuration come first.
    tied = {name: values[name] for name in (TIED,) if isinstance(values.get(name), bool)}
    return {**usual, **part, **tied}, TEXT


def decoder_of(values: Any, source: str, dtype: str | None = None) -> Decoder:
    """The decoder that a configuration describes.

    Args:
        values: The configuration, as JSON holds it.
        source: Name of the configuration for messages.
        dtype: Name of the conversion to another element type that follows; ``None`` for none.

    Raises:
        ModelError: If its family is not supported, or a field is missing, unknown or has an
            unsupported value.
    """
    if not isinstance(values, dict) or not isinstance(values.get("model_type"), str):
        raise ModelError(
            f"{source} is not a configuration of a language model: it has no model_type",
            hint="Name the config.json that the model ships with.",
        )
    family = values["model_type"]
    if family not in FAMILIES:
        raise ModelError(
            f"{source}: model_type {shown(family)} is not supported",
            hint=f"Most of the {len(FAMILIES)} supported are in: dlbricks list models llm: "
            "Others can be exported to an .onnx file.",
        )
    fields = Fields(values, source, usual=USUAL.get(family, {}))
    check_quantized(fields.get(*FIELDS), source, dtype)
    fields.only("is_encoder_decoder", family in encoders.FAMILIES)
    fields.only("add_cross_attention", False)
    try:
        decoder = FAMILIES[family](fields)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        # A list where a number belongs, in a field that a family reads as it is.
        raise ModelError(
            f"{source}: its values do not fit a model of type {shown(family)} ({reason(error)})",
            hint="Compare it with the config.json that the model ships with.",
        ) from error
    fields.ignore(*_UNUSED.get(family, ()))
    fields.check_all_read()
    return replace(decoder, family=family)
