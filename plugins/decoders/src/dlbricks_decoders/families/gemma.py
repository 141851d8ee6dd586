"""Gemma: a scaled embedding; from Gemma 2 on, norms before and after, and alternating windows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from dlbricks_decoders.architecture import (
    Block,
    Decoder,
    FeedForward,
)
from dlbricks_decoders.families.parts import (
    FULL,
    SLIDING,
    activation_of,
    attention_of,
    before_both,
    decoder_with,
    kinds_of,
    local_rotary,
    rms_norm,
    rotary_of,
    sizes_of,
)
from dlbricks_decoders.fields import Fields


def _gemma(fields: Fields) -> Decoder:
    sizes, norm = sizes_of(fields, head_dim=256), rms_norm(fields)
    fields.only("use_bidirectional_attention", False)
    fields.only("attention_bias", False)
    attention = attention_of(sizes, rotary=rotary_of(fields, sizes))
    feed_forward = FeedForward(
        sizes.width, activation_of(fields, "hidden_activation", "hidden_act", default="gelu_new")
    )
    return decoder_with(
        fields, sizes, [before_both(norm, attention, feed_forward)] * sizes.layers, norm,
        tied=True, embedding_scale=math.sqrt(sizes.hidden),
    )  # fmt: skip


def _gemma_alternating(
    fields: Fields,
    pattern: int,
    *,
    normalized: bool,
    local_theta: float | None,
    after: bool = True,
    softcaps: tuple[float, float] = (0.0, 0.0),
) -> Decoder:
    """Gemma 2, 3 and VaultGemma: blocks attend to a window, every ``pattern``-th one to all.

    ``softcaps`` are the default bounds on scores and logits.
    """
    sizes, norm = sizes_of(fields, head_dim=256), rms_norm(fields)
    fields.only("use_bidirectional_attention", False)
    fields.only("attention_bias", False)
    pattern = fields.integer("sliding_window_pattern", "_sliding_window_pattern", default=pattern)
    usual = [FULL if (i + 1) % pattern == 0 else SLIDING for i in range(sizes.layers)]
    kinds = kinds_of(fields, sizes.layers, usual)
    attention = attention_of(
        sizes,
        rotary=rotary_of(fields, sizes, theta=1e6 if local_theta else 10000.0, kind=FULL),
        scale=fields.positive("query_pre_attn_scalar", default=256.0) ** -0.5,
        softcap=_softcap(fields, "attn_logit_softcapping", softcaps[0]),
        norm=norm if normalized else None,
    )
    near = attention
    if local_theta:
        near = replace(attention, rotary=local_rotary(fields, sizes, local_theta))
    near = replace(near, window=fields.integer("sliding_window", default=4096))
    feed_forward = FeedForward(
        sizes.width, activation_of(fields, "hidden_activation", "hidden_act", default="gelu_new")
    )
    around = partial(
        Block, feed_forward=feed_forward, before_attention=norm, before_feed_forward=norm,
        after_attention=norm if after else None, after_feed_forward=norm if after else None,
    )  # fmt: skip
    return decoder_with(
        fields, sizes,
        [around(near if kind == SLIDING else attention) for kind in kinds], norm,
        tied=True, embedding_scale=math.sqrt(sizes.hidden),
        softcap=_softcap(fields, "final_logit_softcapping", softcaps[1]),
    )  # fmt: skip


def _softcap(fields: Fields, name: str, usual: float) -> float:
    """A soft bound; a field that is null stands for none."""
    found: float = fields.number(name, default=0.0 if fields.given(name) else usual)
    return found


_CAPPED = partial(
    _gemma_alternating, pattern=2, normalized=False, local_theta=None, softcaps=(50.0, 30.0)
)

FAMILIES: Mapping[str, Callable[[Fields], Decoder]] = {
    "gemma": _gemma,
    "gemma2": _CAPPED,
    "vaultgemma": partial(_CAPPED, after=False),
    "gemma3_text": partial(_gemma_alternating, pattern=6, normalized=True, local_theta=10000.0),
}
"""Families by ``model_type``."""
