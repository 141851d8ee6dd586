"""Language models as llama.cpp builds them, from the configuration of their publisher."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from dlbricks_core.errors import UnsupportedError

Fields = Mapping[str, Any]


@dataclass(frozen=True)
class Architecture:
    """A decoder as far as llama.cpp's graph of it depends on it.

    Attributes:
        family: Name of the graph in llama.cpp.
        hidden: Elements of a token's state.
        feed_forward: Elements between the projections of the feed-forward part.
        heads: Number of heads of queries.
        kv_heads: Number of heads of keys and values.
        head_dim: Elements of a head.
        turned: Elements of a head with a rotary position embedding.
        epsilon: Number that normalizations add to the variance.
        theta: Base of the rotary position embedding.
        local_theta: The same in blocks with a window; 0 where it does not differ.
        factors: Number of weights that scale frequencies of the position embedding: 0, 1 or 2.
        biased: Whether queries, keys and values have a bias.
        normed: Whether heads of queries and keys are normalized.
        jointly: Whether that is done for all heads together.
        pre_normed: Whether inputs of both parts of a block are normalized.
        post_normed: Whether results of both parts of a block are normalized.
        joined: Whether projections of one input are in one matrix.
        attention_cap: Soft upper bound on scores; 0 for none.
        cap: Soft upper bound on logits; 0 for none.
        window: Positions that a query attends to in some blocks; 0 for all.
        every: Of so many blocks, the last attends to all positions; 0 if all blocks do.
        experts: Number of feed-forward parts of a mixture; 0 for none.
        used: Number of those that a token uses.
        expert_width: Elements between the projections of an expert.
        shared_width: The same of the expert that all tokens use; 0 for none.
        scales: Factors of some tensors, by their key in a file.
        tied: Whether the embedding is the last projection, too.
        vocabulary: Number of tokens.
        blocks: Number of blocks.
    """

    family: str
    hidden: int
    feed_forward: int
    heads: int
    kv_heads: int
    head_dim: int
    turned: int
    epsilon: float
    theta: float
    local_theta: float = 0.0
    factors: int = 0
    biased: bool = False
    normed: bool = False
    jointly: bool = False
    pre_normed: bool = True
    post_normed: bool = False
    joined: bool = False
    attention_cap: float = 0.0
    cap: float = 0.0
    window: int = 0
    every: int = 0
    experts: int = 0
    used: int = 0
    expert_width: int = 0
    shared_width: int = 0
    scales: Mapping[str, float] = field(default_factory=dict)
    tied: bool = True
    vocabulary: int = 32
    blocks: int = 1

    def has_window(self, block: int) -> bool:
        """Whether a block attends to the last positions only."""
        return bool(self.window and self.every) and block % self.every < self.every - 1

    @property
    def smallest(self) -> Architecture:
        """Embedding and last projection of the model around a block of next to no work."""
        if self.family in _OWN_ENDS:
            return replace(
                self,
                feed_forward=32,
                heads=1,
                kv_heads=1,
                head_dim=32,
                turned=32,
                window=0,
                every=0,
            )
        # Blocks of other families cannot be that small: of mixtures, or with joined heads.
        return replace(
            SMALLEST, hidden=self.hidden, epsilon=self.epsilon, tied=self.tied,
            vocabulary=self.vocabulary,
        )  # fmt: skip

    @property
    def of_block(self) -> Architecture:
        """The part of the description that a block depends on."""
        return replace(self, tied=True, vocabulary=32, blocks=1, cap=0.0)

    def text(self) -> str:
        """The description as JSON, for the attribute of a layer."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def of_text(cls, text: str) -> Architecture:
        """Reverses :meth:`text`."""
        return cls(**json.loads(text))


SMALLEST = Architecture("llama", 32, 32, 1, 1, 32, 32, 1e-5, 1e4)
"""A block of next to no work."""


_OWN_ENDS = frozenset({"gemma", "gemma2", "gemma3", "granite"})
"""Families that scale the embedding or the logits."""


def architecture_of(configuration: str) -> Architecture:
    """The architecture of a configuration.

    Args:
        configuration: JSON with the fields of Hugging Face's ``config.json``.

    Raises:
        UnsupportedError: If no file of that kind is written for llama.cpp here.
    """
    fields: Fields = json.loads(configuration)
    kind = fields.get("model_type")
    if kind not in _FAMILIES:
        raise UnsupportedError(
            f"no file of the family {kind} is written for llama.cpp here: {', '.join(_FAMILIES)}"
        )
    for name, usual in _USUAL.items():
        if fields.get(name, usual) not in (usual, None):
            raise UnsupportedError(f"llama.cpp's {kind} has no {name} {fields[name]}, only {usual}")
    try:
        return _FAMILIES[kind](fields)
    except KeyError as error:
        raise UnsupportedError(f"the configuration has no {error.args[0]}") from error


_USUAL: Fields = {
    "mlp_bias": False, "use_bias": False, "num_local_experts": 0, "use_sliding_window": False,
    "clip_qkv": None, "decoder_sparse_step": 1, "mlp_only_layers": [],
}  # fmt: skip
"""Fields whose other values change the graph in ways that no family here has."""


def _llama(fields: Fields) -> Architecture:
    heads = fields["num_attention_heads"]
    head_dim = fields.get("head_dim") or fields["hidden_size"] // heads
    scaling = fields.get("rope_scaling") or fields.get("rope_parameters") or {}
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    if kind not in _FACTORS:
        raise UnsupportedError(
            f"position embeddings that are scaled by {kind} are not written here"
        )
    return Architecture(
        family="llama",
        hidden=fields["hidden_size"],
        feed_forward=fields["intermediate_size"],
        heads=heads,
        kv_heads=fields.get("num_key_value_heads") or heads,
        head_dim=head_dim,
        turned=int(head_dim * fields.get("partial_rotary_factor", 1.0)),
        epsilon=fields.get("rms_norm_eps", 1e-6),
        theta=fields.get("rope_theta") or scaling.get("rope_theta", 1e4),
        factors=_FACTORS[kind],
        biased=bool(fields.get("attention_bias", False)),
        tied=bool(fields.get("tie_word_embeddings", False)),
        vocabulary=fields["vocab_size"],
        blocks=fields["num_hidden_layers"],
    )


_FACTORS: Mapping[str, int] = {"default": 0, "linear": 0, "llama3": 1, "longrope": 2}
"""Weights with factors of frequencies, by the kind of scaling."""


def _qwen2(fields: Fields) -> Architecture:
    return replace(_llama(fields), family="qwen2", biased=True)


def _qwen3(fields: Fields) -> Architecture:
    return replace(_llama(fields), family="qwen3", normed=True)


def _hunyuan(fields: Fields) -> Architecture:
    return replace(_llama(fields), family="hunyuan-dense", normed=True)


def _olmo2(fields: Fields) -> Architecture:
    return replace(_llama(fields), family="olmo2", normed=True, jointly=True, pre_normed=False,
                   post_normed=True)  # fmt: skip


def _smollm3(fields: Fields) -> Architecture:
    return replace(_llama(fields), family="smollm3")


def _ernie(fields: Fields) -> Architecture:
    return replace(_llama(fields), family="ernie4_5")


def _granite(fields: Fields) -> Architecture:
    scales = {key: float(fields[name]) for name, key in _SCALES.items() if fields.get(name)}
    return replace(_llama(fields), family="granite", scales=scales)


_SCALES: Mapping[str, str] = {
    "logits_scaling": "logit_scale",
    "residual_multiplier": "residual_scale",
    "embedding_multiplier": "embedding_scale",
    "attention_multiplier": "attention.scale",
}
"""Keys of a file, by fields of Granite's configurations."""


def _olmoe(fields: Fields) -> Architecture:
    return _mixture(fields, "olmoe", fields["intermediate_size"], normed=True, jointly=True)


def _qwen2_moe(fields: Fields) -> Architecture:
    return _mixture(fields, "qwen2moe", fields["moe_intermediate_size"], biased=True,
                    shared_width=fields["shared_expert_intermediate_size"])  # fmt: skip


def _qwen3_moe(fields: Fields) -> Architecture:
    return _mixture(fields, "qwen3moe", fields["moe_intermediate_size"], normed=True)


def _mixture(fields: Fields, family: str, width: int, **others: Any) -> Architecture:
    return replace(
        _llama(fields),
        family=family,
        experts=fields["num_experts"],
        used=fields["num_experts_per_tok"],
        expert_width=width,
        **others,
    )


def _phi3(fields: Fields) -> Architecture:
    return replace(_llama(fields), family="phi3", joined=True)


def _gemma(fields: Fields) -> Architecture:
    return replace(_llama({"tie_word_embeddings": True, **fields}), family="gemma")


def _gemma2(fields: Fields) -> Architecture:
    return replace(
        _gemma(fields),
        family="gemma2",
        post_normed=True,
        attention_cap=fields.get("attn_logit_softcapping") or 0.0,
        cap=fields.get("final_logit_softcapping") or 0.0,
        window=fields.get("sliding_window") or 0,
        every=2,
    )


def _gemma3(fields: Fields) -> Architecture:
    return replace(
        _gemma(fields),
        family="gemma3",
        normed=True,
        post_normed=True,
        local_theta=fields.get("rope_local_base_freq", 1e4),
        window=fields.get("sliding_window") or 0,
        every=fields.get("sliding_window_pattern", 6),
    )


_FAMILIES: Mapping[str, Callable[[Fields], Architecture]] = {
    "llama": _llama,
    "mistral": _llama,
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "qwen2_moe": _qwen2_moe,
    "qwen3_moe": _qwen3_moe,
    "olmo2": _olmo2,
    "olmoe": _olmoe,
    "granite": _granite,
    "smollm3": _smollm3,
    "ernie4_5": _ernie,
    "hunyuan_v1_dense": _hunyuan,
    "phi3": _phi3,
    "gemma": _gemma,
    "gemma2": _gemma2,
    "gemma3_text": _gemma3,
}
"""Families by ``model_type``."""
