"""Frequencies of rotary position embeddings, plain and scaled for longer sequences.

The formulas are those of the publications and of ``modeling_rope_utils`` in transformers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from dlbricks_core.ir import Array
from dlbricks_decoders.block_parts import Rotary
from dlbricks_decoders.fields import Fields

_Scaling = Callable[[Fields, Array, float, int], Rotary]
"""The embedding from ``(fields about scaling, plain frequencies, theta, longest sequence)``."""


def rotary(scaling: Fields, theta: float, dimensions: int, longest: int) -> Rotary:
    """The rotary embedding that a configuration describes.

    Args:
        scaling: Fields about scaling; empty for none.
        theta: Base of the frequencies.
        dimensions: Rotated dimensions of a head, an even number.
        longest: Longest sequence that the model was made for.

    Raises:
        ModelError: If the kind of scaling is unknown, or one of its fields is missing.
    """
    # Sections of three directions, which are one for text.
    scaling.ignore("mrope_section", "mrope_interleaved")
    kind: _Scaling = scaling.choice("rope_type", SCALINGS, "type", default="default")
    plain = theta ** -(np.arange(0, dimensions, 2, dtype=np.float64) / dimensions)
    return kind(scaling, plain, theta, longest)


def _default(scaling: Fields, plain: Array, theta: float, longest: int) -> Rotary:
    scaling.ignore("factor")
    return Rotary(_tuple(plain))


def _linear(scaling: Fields, plain: Array, theta: float, longest: int) -> Rotary:
    return Rotary(_tuple(plain / scaling.positive("factor")))


def _dynamic(scaling: Fields, plain: Array, theta: float, longest: int) -> Rotary:
    # Beyond the longest sequence, the base grows with the length, which does not change the work.
    scaling.ignore("factor", "original_max_position_embeddings", "alpha")
    return Rotary(_tuple(plain))


def _llama3(scaling: Fields, plain: Array, theta: float, longest: int) -> Rotary:
    factor = scaling.positive("factor")
    low, high = scaling.positive("low_freq_factor"), scaling.positive("high_freq_factor")
    if low == high:
        raise scaling.refusal("high_freq_factor", high, "It is larger than low_freq_factor.")
    turns = scaling.integer("original_max_position_embeddings") * plain / (2 * math.pi)
    kept = np.clip((turns - low) / (high - low), 0.0, 1.0)
    return Rotary(_tuple((1 - kept) * plain / factor + kept * plain))


def _yarn(scaling: Fields, plain: Array, theta: float, longest: int) -> Rotary:
    """YaRN (Peng et al., 2023)."""
    factor = scaling.positive("factor")
    before = scaling.integer("original_max_position_embeddings", default=longest)
    size = 2 * len(plain)
    if theta <= 1:
        raise scaling.refusal("rope_theta", theta, "With yarn, it has to be above 1.")

    def dimension(turns: float) -> float:
        """Dimension that makes a number of turns within the original length."""
        return size * math.log(before / (turns * 2 * math.pi)) / (2 * math.log(theta))

    first = dimension(scaling.positive("beta_fast", default=32.0))
    last = dimension(scaling.positive("beta_slow", default=1.0))
    if scaling.flag("truncate", default=True):
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, size - 1)
    ramp = (np.arange(len(plain)) - first) / (max(last - first, 0.001))
    kept = 1 - np.clip(ramp, 0.0, 1.0)
    whole, parts = (
        scaling.number("mscale", default=0.0),
        scaling.number("mscale_all_dim", default=0.0),
    )
    usual = _mscale(factor, whole) / _mscale(factor, parts) if whole and parts else _mscale(factor)
    scale = scaling.number("attention_factor", default=usual)
    # Growth of queries with their position is not part of the rotation.
    scaling.ignore("llama_4_scaling_beta", "max_position_embeddings")
    return Rotary(_tuple((1 - kept) * plain / factor + kept * plain), scale)


def _mscale(factor: float, times: float = 1.0) -> float:
    return 0.1 * times * math.log(factor) + 1.0 if factor > 1 else 1.0


def _longrope(scaling: Fields, plain: Array, theta: float, longest: int) -> Rotary:
    """LongRoPE (Ding et al., 2024)."""
    before = scaling.integer("original_max_position_embeddings", default=longest)
    short, long = (np.array(scaling.list_of_numbers(f"{name}_factor", len(plain)))
                   for name in ("short", "long"))  # fmt: skip
    if before < 2:
        raise scaling.refusal("original_max_position_embeddings", before, "It has to be above 1.")
    factor = scaling.positive("factor", default=longest / before)
    usual = math.sqrt(1 + math.log(factor) / math.log(before)) if factor > 1 else 1.0
    scale = scaling.number("attention_factor", "short_mscale", default=usual)
    scaling.ignore("long_mscale")
    return Rotary(_tuple(plain / short), scale, _tuple(plain / long), before)


def _proportional(scaling: Fields, plain: Array, theta: float, longest: int) -> Rotary:
    """Frequencies of the whole head, all but the first of which are 0 (LFM3)."""
    share = scaling.number("partial_rotary_factor", default=1.0)
    turned = np.arange(len(plain)) < int(share * 2 * len(plain) // 2)
    return Rotary(_tuple(plain * turned / scaling.positive("factor", default=1.0)))


def _tuple(values: Array) -> tuple[float, ...]:
    return tuple(float(value) for value in values)


SCALINGS: Mapping[str, _Scaling] = {
    "default": _default,
    "mrope": _default,
    "linear": _linear,
    "dynamic": _dynamic,
    "llama3": _llama3,
    "yarn": _yarn,
    "deepseek_yarn": _yarn,
    "longrope": _longrope,
    "su": _longrope,
    "proportional": _proportional,
}
"""Kinds of scaling by the names that configurations use."""
