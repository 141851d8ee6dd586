"""DeepSeek and its relatives: latent attention, and experts in all but the first blocks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from dlbricks_decoders.architecture import Block, Decoder, Streams
from dlbricks_decoders.block_parts import (
    Attention,
    DeltaRule,
    Experts,
    FeedForward,
    Gate,
    Indexer,
    Latent,
    Norm,
    Temperature,
)
from dlbricks_decoders.families.parts import (
    FULL,
    MOST_BLOCKS,
    MOST_EXPERTS,
    FamilySizes,
    before_both,
    count_of,
    decoder_with,
    plain_feed_forward,
    renamed,
    rms_norm,
    rotary_of,
    routed,
    sizes_of,
)
from dlbricks_decoders.fields import Fields

_LATENT_NORM = Norm(1e-6)
"""Norm of compressed states, whatever the epsilon of other norms."""


def after_dense(
    fields: Fields,
    sizes: FamilySizes,
    blocks: Sequence[Block],
    dense: FeedForward,
    *,
    count: int,
    first: int,
    score: str = "Sigmoid",
    scale: float = 1.0,
    shared: int = 1,
) -> Decoder:
    """The decoder of dense blocks, with experts in all but the first ones.

    Args:
        fields: The configuration.
        sizes: Sizes of the decoder.
        blocks: Its blocks, without experts.
        dense: Feed-forward part of these blocks.
        count: Default number of experts.
        first: Default number of blocks without experts.
        score: ONNX operator that makes weights of the router's results.
        scale: Default factor of the weights.
        shared: Default number of shared experts.
    """
    width = fields.integer("moe_intermediate_size", default=1408)
    experts = _experts(fields, dense, count, width, score, scale, shared)
    sparse = routed(fields, experts, width=width)
    before = count_of(fields, "first_k_dense_replace", first)
    kinds = fields.list_of("mlp_layer_types", ("dense", "sparse"), sizes.layers)
    kinds = kinds or ["dense" if i < before else "sparse" for i in range(sizes.layers)]
    blocks = [block if kind == "dense" else replace(block, feed_forward=sparse)
              for block, kind in zip(blocks, kinds, strict=True)]  # fmt: skip
    return decoder_with(fields, sizes, blocks, blocks[0].before_attention)


def _experts(
    fields: Fields,
    dense: FeedForward,
    count: int,
    width: int,
    score: str,
    scale: float,
    shared: int,
) -> Experts:
    count = fields.integer("n_routed_experts", "num_local_experts", "num_experts", default=count,
                           most=MOST_EXPERTS)  # fmt: skip
    shared = count_of(fields, "n_shared_experts", shared)
    fields.only("moe_layer_freq", 1)
    # Groups of experts limit the router's choice, which costs little beside the experts.
    fields.ignore("n_group", "topk_group", "scoring_func", "topk_method", "num_mtp_layers",
                  "num_nextn_predict_layers", "ep_size", "aux_loss_alpha", "seq_aux")  # fmt: skip
    return Experts(
        count,
        fields.integer("num_experts_per_tok", default=8, most=count),
        fields.flag("norm_topk_prob", default=score == "Sigmoid") and score == "Sigmoid",
        score=score,
        scale=fields.number("routed_scaling_factor", default=scale),
        shared=replace(dense, width=width * shared) if shared else None,
    )


@dataclass(frozen=True)
class _LatentSizes:
    """Default sizes of latent attention, as in :class:`Latent`."""

    state: int = 512
    query: int = 1536
    plain: int = 128
    turned: int = 64
    value: int = 128


def _attention(
    fields: Fields, sizes: FamilySizes, usual: _LatentSizes, *, neighbours: bool = True,
    theta: float = 10000.0,
) -> Attention:  # fmt: skip
    """Latent attention.

    Args:
        fields: The configuration.
        sizes: Sizes of the decoder.
        usual: Default sizes.
        neighbours: Default for whether neighbouring elements are rotated together.
        theta: Default base of the frequencies.
    """
    query = fields.integer("q_lora_rank", default=0 if fields.given("q_lora_rank") else usual.query)
    turned = fields.integer("qk_rope_head_dim", default=usual.turned)
    turns = rotary_of(fields, replace(sizes, head_dim=turned), theta)
    latent = Latent(
        fields.integer("kv_lora_rank", default=usual.state), _LATENT_NORM,
        replace(turns, interleaved=fields.flag("rope_interleave", default=neighbours)), query,
        fields.integer("qk_nope_head_dim", default=usual.plain), turned,
        fields.integer("v_head_dim", default=usual.value),
    )  # fmt: skip
    fields.ignore("head_dim", "qk_head_dim", "num_key_value_heads")
    size = latent.plain + latent.turned
    scaling = fields.part("rope_parameters", "rope_scaling")
    growth = scaling.number("mscale_all_dim", default=0.0)
    factor = scaling.number("factor", default=1.0)
    raised = 0.1 * growth * math.log(factor) + 1.0 if growth and factor > 1 else 1.0
    bias = fields.flag("attention_bias", default=False)
    return Attention(
        sizes.heads, sizes.heads, size, size**-0.5 * raised * raised, bias=bias, output_bias=bias,
        latent=latent,
    )  # fmt: skip


def _sizes(fields: Fields) -> FamilySizes:
    """Sizes of a decoder whose heads need not divide its states, and all share keys and values."""
    heads = fields.replaced("num_key_value_heads", None)
    return sizes_of(heads, head_dim=fields.integer("qk_rope_head_dim", default=64))


def _deepseek_v2(fields: Fields) -> Decoder:
    sizes, norm = _sizes(fields), rms_norm(fields)
    attention = _attention(fields, sizes, _LatentSizes())
    dense = plain_feed_forward(fields, sizes, bias=fields.flag("mlp_bias", default=False))
    blocks = [before_both(norm, attention, dense)] * sizes.layers
    return after_dense(fields, sizes, blocks, dense, count=64, first=0, score="Softmax",
                       shared=2)  # fmt: skip


def _deepseek_v3(fields: Fields) -> Decoder:
    return _v3(fields, _LatentSizes(), first=3, scale=2.5)


def _axk1(fields: Fields) -> Decoder:
    """A.X K1: like DeepSeek V3, with norms after the experts."""
    plain = _v3(fields, _LatentSizes(), first=1, scale=2.5, count=192)
    norm = plain.norm
    blocks = [replace(block, after_feed_forward=norm if _is_sparse(block) else None)
              for block in plain.blocks]  # fmt: skip
    return replace(plain, blocks=tuple(blocks))


def _is_sparse(block: Block) -> bool:
    return block.feed_forward is not None and block.feed_forward.experts is not None


def _deepseek_v32(fields: Fields) -> Decoder:
    """DeepSeek V3.2: like V3; an indexer chooses the tokens that a token attends to."""
    return _indexed(_v3(fields, _LatentSizes(), first=3, scale=2.5), _indexer(fields, 64))


def _glm_dsa(fields: Fields) -> Decoder:
    """GLM 5: like DeepSeek V3.2; some blocks use the choice of the block before."""
    usual = _LatentSizes(query=2048, plain=192, value=256)
    plain = _v3(fields, usual, first=3, scale=2.5, epsilon=1e-5)
    letters = fields.get("index_topk_pattern")
    if isinstance(letters, str):
        names = [{"F": _OWN, "S": _SHARED}.get(letter, letter) for letter in letters]
        fields = fields.with_default("indexer_types", names)
    every = fields.integer("index_topk_freq", default=1)
    offset = fields.integer("index_skip_topk_offset", default=2)
    kinds = fields.list_of("indexer_types", (_OWN, _SHARED), len(plain.blocks)) or [
        _SHARED if max(i - offset + 1, 0) % every else _OWN for i in range(len(plain.blocks))
    ]
    indexer = replace(_indexer(fields, 32), interleaved=True)
    return _indexed(plain, *(replace(indexer, shared=kind == _SHARED) for kind in kinds))


_OWN, _SHARED = "full", "shared"


def _indexer(fields: Fields, heads: int) -> Indexer:
    fields.list_of("layer_types", ("indexed_attention", "full_attention"),
                   fields.integer("num_hidden_layers"))  # fmt: skip
    fields.ignore("indexer_rope_interleave")
    return Indexer(
        fields.integer("index_n_heads", default=heads),
        fields.integer("index_head_dim", default=128),
        fields.integer("index_topk", default=2048), Norm(1e-6, centered=True, bias=True),
    )  # fmt: skip


def _indexed(decoder: Decoder, *indexers: Indexer) -> Decoder:
    """The decoder with the indexer of each block, or with one that fits all."""
    each = indexers * len(decoder.blocks) if len(indexers) == 1 else indexers
    blocks = []
    for block, indexer in zip(decoder.blocks, each, strict=True):
        attention = block.attention
        if attention is None or attention.latent is None or not attention.latent.query:
            raise ValueError("an indexer reads compressed queries")
        latent = replace(attention.latent, indexer=indexer)
        blocks.append(replace(block, attention=replace(attention, latent=latent)))
    return replace(decoder, blocks=tuple(blocks))


def _glm4_lite(fields: Fields) -> Decoder:
    """GLM 4 with experts and latent attention."""
    return _v3(
        fields, _LatentSizes(query=768, plain=192, value=256), first=1, scale=1.8, epsilon=1e-5
    )


def _sarvam(fields: Fields) -> Decoder:
    """Sarvam 105B: like DeepSeek V3, under the names of its publication, too."""
    fields = renamed(fields, num_shared_experts="n_shared_experts")
    fields.ignore("q_head_dim")
    return _v3(fields, _LatentSizes(query=0), first=1, scale=2.5, count=128)


def _v3(
    fields: Fields, usual: _LatentSizes, first: int, scale: float, epsilon: float = 1e-6,
    count: int = 256,
) -> Decoder:  # fmt: skip
    sizes, norm = _sizes(fields), rms_norm(fields, default=epsilon)
    attention = _attention(fields, sizes, usual)
    dense = plain_feed_forward(fields, sizes)
    blocks = [before_both(norm, attention, dense)] * sizes.layers
    return after_dense(fields, sizes, blocks, dense, count=count, first=first, scale=scale)


def _mistral4(fields: Fields) -> Decoder:
    """Mistral 4: shares by softmax, and queries that grow with their position."""
    scaling = {**_MISTRAL4_SCALING, **(fields.get("rope_parameters", "rope_scaling") or {})}
    grows = Temperature(scaling.pop("llama_4_scaling_beta"),
                        scaling["original_max_position_embeddings"])  # fmt: skip
    # The share of a head that is rotated is that of both parts.
    scaling = {name: scaling[name] for name in scaling.keys() - {"partial_rotary_factor"}}
    stated = fields.replaced("rope_parameters", scaling)
    sizes, norm = _sizes(fields), rms_norm(fields)
    attention = replace(_attention(stated, sizes, _LatentSizes(256, 1024, 64)), temperature=grows)
    dense = plain_feed_forward(fields, sizes)
    blocks = [before_both(norm, attention, dense)] * sizes.layers
    plain = after_dense(fields, sizes, blocks, dense, count=128, first=0, score="Softmax")
    if not fields.flag("norm_topk_prob", default=True):
        return plain
    blocks = []
    for block in plain.blocks:
        part = block.feed_forward
        if part and part.experts:
            part = replace(part, experts=replace(part.experts, normalized=True))
        blocks.append(replace(block, feed_forward=part))
    return replace(plain, blocks=tuple(blocks))


_MISTRAL4_SCALING = {
    "rope_type": "yarn", "factor": 128.0, "original_max_position_embeddings": 8192,
    "beta_fast": 32.0, "beta_slow": 1.0, "mscale_all_dim": 1.0, "mscale": 1.0,
    "llama_4_scaling_beta": 0.1,
}  # fmt: skip
"""Scaling of a configuration of Mistral 4 that states none."""


def _longcat_flash(fields: Fields) -> Decoder:
    """LongCat Flash: two blocks in each layer, and experts across both, some of which are idle."""
    layers = fields.integer("num_layers", default=28, most=MOST_BLOCKS)
    fields = fields.replaced("num_hidden_layers", 2 * layers)
    fields = renamed(fields, ffn_hidden_size="intermediate_size", moe_topk="num_experts_per_tok",
                     expert_ffn_hidden_size="moe_intermediate_size")  # fmt: skip
    fields.only("zero_expert_type", "identity")
    fields.ignore("router_bias", "norm_topk_prob", "mla_scale_q_lora", "mla_scale_kv_lora",
                  "attention_method")  # fmt: skip
    sizes, norm = _sizes(fields), rms_norm(fields, default=1e-5)
    attention = _attention(fields, sizes, _LatentSizes(), theta=1e7)
    if attention.latent is None or not attention.latent.query:
        raise fields.refusal("q_lora_rank", 0, "Supported: compressed queries.")
    latent = replace(
        attention.latent,
        query_scale=(sizes.hidden / attention.latent.query) ** 0.5,
        state_scale=(sizes.hidden / attention.latent.state) ** 0.5,
    )
    block = before_both(norm, replace(attention, latent=latent), plain_feed_forward(fields, sizes))
    working = fields.integer("n_routed_experts", "num_local_experts", default=512,
                             most=MOST_EXPERTS)  # fmt: skip
    idle = count_of(fields, "zero_expert_num", 256)
    experts = Experts(
        working + idle,
        fields.integer("num_experts_per_tok", default=12, most=working + idle),
        normalized=False,
        scale=fields.number("routed_scaling_factor", default=6.0),
        idle=idle,
    )
    width = fields.integer("moe_intermediate_size", default=2048)
    first = replace(block, shortcut=routed(fields, experts, width=width))
    return decoder_with(fields, sizes, [first, block] * layers, norm)


def _hy_v4(fields: Fields) -> Decoder:
    """Hunyuan 4: like GLM 5, with several states of a token, sinks, and gated attention."""
    sizes, norm = _sizes(fields), rms_norm(fields, default=1e-5)
    attention = _attention(fields, sizes, _LatentSizes(plain=192, value=256), neighbours=False)
    attention = replace(attention, sinks=True, gate=Gate())
    streams = Streams(
        fields.integer("hc_mult", default=4), norm.epsilon,
        fields.positive("hc_eps", default=1e-6), fields.number("hc_magnitude", default=2.0),
    )  # fmt: skip
    dense = plain_feed_forward(fields, sizes)
    block = replace(before_both(norm, attention, dense), streams=streams)
    plain = after_dense(
        fields, sizes, [block] * sizes.layers, dense, count=256, first=1, scale=2.827
    )
    limit = fields.number("swiglu_limit", default=10.0)
    blocks = [_limited(block, limit) if limit > 0 and _is_sparse(block) else block
              for block in plain.blocks]  # fmt: skip
    kinds = fields.list_of("indexer_types", (_OWN, _SHARED), sizes.layers) or [
        _OWN if i == 0 or i % 4 == 1 else _SHARED for i in range(sizes.layers)
    ]
    indexer = replace(_indexer(fields, 16), last=True, norm=replace(norm, centered=True, bias=True))
    fields.ignore("learnable_sink_init")
    return _indexed(
        replace(plain, blocks=tuple(blocks)),
        *(replace(indexer, shared=kind == _SHARED) for kind in kinds),
    )


def _limited(block: Block, limit: float) -> Block:
    """The block with limited activations of its routed experts."""
    part = block.feed_forward
    if part is None:
        return block
    activation = replace(part.activation, limit=limit)
    return replace(block, feed_forward=replace(part, activation=activation))


_LINEAR = "linear_attention"


def _kimi_linear(fields: Fields) -> Decoder:
    """Kimi Linear: linear attention with decays by channel, or latent attention, not rotated."""
    fields = renamed(
        fields, moe_renormalize="norm_topk_prob", num_shared_experts="n_shared_experts",
        num_experts_per_token="num_experts_per_tok", model_max_length="max_position_embeddings",
    )  # fmt: skip
    fields.only("mla_use_nope", True)
    fields.only("moe_router_activation_func", "sigmoid")
    fields.ignore("num_expert_group", "use_grouped_topk")
    sizes, norm = _sizes(fields), rms_norm(fields, default=1e-5)
    attention = _attention(fields, sizes, _LatentSizes(query=0))
    latent = attention.latent and replace(attention.latent, rotary=None)
    dense = plain_feed_forward(fields, sizes)
    full = before_both(norm, replace(attention, latent=latent), dense)
    part = fields.part("linear_attn_config")
    heads = part.integer("num_heads", default=fields.integer("linear_num_heads", default=32))
    size = part.integer("head_dim", default=fields.integer("linear_head_dim", default=128))
    kernel = fields.integer("linear_conv_kernel_dim", default=4)
    delta = DeltaRule(
        heads, heads, size, size, part.integer("short_conv_kernel_size", default=kernel), norm,
        apart=True, by_channel=True,
    )  # fmt: skip
    attending = part.get("full_attn_layers")  # numbers from 1
    part.ignore("kda_layers")
    part.check_all_read()
    usual = [i + 1 in attending if attending else bool(i) and i % 4 == 0
             for i in range(sizes.layers)]  # fmt: skip
    kinds = fields.list_of("layer_types", (_LINEAR, FULL), sizes.layers)
    kinds = [FULL if each else _LINEAR for each in usual] if attending or not kinds else kinds
    blocks = [full if kind == FULL else replace(full, attention=None, delta=delta)
              for kind in kinds]  # fmt: skip
    return after_dense(fields, sizes, blocks, dense, count=256, first=1, scale=2.446)


def _youtu(fields: Fields) -> Decoder:
    sizes, norm = _sizes(fields), rms_norm(fields)
    attention = _attention(fields, sizes, _LatentSizes())
    block = before_both(norm, attention, plain_feed_forward(fields, sizes))
    return decoder_with(fields, sizes, [block] * sizes.layers, norm, tied=True)


def _minicpm3(fields: Fields) -> Decoder:
    """MiniCPM 3: latent attention, with factors for the embedding, the sums and the logits."""
    sizes, norm = _sizes(fields), rms_norm(fields, default=1e-5)
    usual = _LatentSizes(256, 768, 64, 32, sizes.hidden // sizes.heads)
    attention = _attention(fields, sizes, usual, neighbours=False)
    depth = fields.number("scale_depth", default=1.4)
    base = fields.integer("dim_model_base", default=256)
    part = plain_feed_forward(fields, sizes, bias=fields.flag("mlp_bias", default=False))
    block = replace(before_both(norm, attention, part), residual_scale=depth / sizes.layers**0.5)
    return decoder_with(
        fields, sizes, [block] * sizes.layers, norm, tied=True,
        embedding_scale=fields.number("scale_emb", default=12.0),
        logits_scale=base / sizes.hidden,
    )  # fmt: skip


FAMILIES: Mapping[str, Callable[[Fields], Decoder]] = {
    "deepseek_v2": _deepseek_v2,
    "deepseek_v3": _deepseek_v3,
    "deepseek_v32": _deepseek_v32,
    "glm_moe_dsa": _glm_dsa,
    "axk1": _axk1,
    "glm4_moe_lite": _glm4_lite,
    "sarvam_mla": _sarvam,
    "youtu": _youtu,
    "minicpm3": _minicpm3,
    "mistral4": _mistral4,
    "longcat_flash": _longcat_flash,
    "hy_v4": _hy_v4,
    "kimi_linear": _kimi_linear,
}
"""Families by ``model_type``."""
