"""ONNX Runtime's own operators that exporters write: their definitions, and shapes of results.

The IR keeps these operators as they are. The texts follow the operators' schemas in ONNX Runtime
1.31; a test compares all of them with the schemas of the installed version.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import onnx.defs
from onnx import helper

from dlbricks_contrib import shapes
from dlbricks_contrib.domain import DOMAIN
from dlbricks_core.operators.domains import AddedOperator
from dlbricks_core.operators.results import Rule, same

_Schema = onnx.defs.OpSchema
_Formal = _Schema.FormalParameter
_Option = _Schema.FormalParameterOption
_Kind = _Schema.AttrType

_KINDS = {"int": (_Kind.INT, int), "float": (_Kind.FLOAT, float), "text": (_Kind.STRING, str),
          "ints": (_Kind.INTS, None), "floats": (_Kind.FLOATS, None),
          "texts": (_Kind.STRINGS, None)}  # fmt: skip


def _formals(text: str) -> list[_Formal]:
    """Inputs or outputs: ``?`` after the name of an optional one, ``*`` after any number."""
    options = {"?": _Option.Optional, "*": _Option.Variadic}
    return [
        _Formal(
            word.rstrip("?*"), "T", "", param_option=options.get(word[-1], _Option.Single),
            is_homogeneous=False,
        )
        for word in text.split()
    ]  # fmt: skip


def _attributes(text: str) -> Iterator[_Schema.Attribute]:
    """Attributes, each ``name:kind``, with ``!`` if it is required or ``=`` and its default."""
    for word in text.split():
        name, _, rest = word.partition(":")
        kind, _, default = rest.rstrip("!").partition("=")
        number, python = _KINDS[kind]
        if default and python is not None:
            yield _Schema.Attribute(name, helper.make_attribute(name, python(default)), "")
        else:
            yield _Schema.Attribute(name, number, "", required=rest.endswith("!"))


def _operator(
    name: str,
    inputs: str,
    outputs: str,
    rule: Rule,
    attributes: str = "",
    domain: str = DOMAIN,
) -> AddedOperator:
    schema = _Schema(
        name,
        domain,
        1,
        inputs=_formals(inputs),
        outputs=_formals(outputs),
        type_constraints=[("T", ["tensor(float)"], "")],
        attributes=list(_attributes(attributes)),
    )
    return AddedOperator(schema, rule)


_NORMALIZED = "output mean? inv_std_var? input_skip_bias_sum?"
_EPSILON = "epsilon:float=1e-12"
_TWO_QUANTIZED = "A A_scale A_zero_point? B B_scale B_zero_point? C_scale C_zero_point?"
_ONE_QUANTIZED = "X X_scale X_zero_point? Y_scale Y_zero_point?"
_WINDOW = "kernel_shape:ints! strides:ints pads:ints ceil_mode:int=0 auto_pad:text=NOTSET"
_MOE = (
    "activation_type:text=relu k:int=1 normalize_routing_weights:int=0 use_sparse_mixer:int=0 "
    "activation_alpha:float=1 activation_beta:float=0 swiglu_fusion:int=0 swiglu_limit:float"
)
_MOE_INPUTS = "input router_probs fc1_experts_weights {}fc1_experts_bias? fc2_experts_weights {}" \
    "fc2_experts_bias? fc3_experts_weights? {}fc3_experts_bias?"  # fmt: skip

_ALL = (
    # Matrix products
    _operator(
        "MatMulNBits", "A B scales zero_points? g_idx? bias?", "Y", shapes.matmul_nbits,
        "K:int! N:int! block_size:int! bits:int=4 accuracy_level:int=0 weight_prepacked:int=0",
    ),
    _operator(
        "GatherBlockQuantized", "data indices scales zero_points?", "output",
        shapes.gather_block_quantized,
        "gather_axis:int=0 quantize_axis:int=1 block_size:int=128 bits:int=4",
    ),
    _operator(
        "FusedMatMul", "A B", "Y", shapes.fused_matmul,
        "alpha:float=1 transA:int=0 transB:int=0 transBatchA:int=0 transBatchB:int=0",
    ),
    _operator(
        "FusedGemm", "A B C?", "Y", shapes.gemm(1, lambda asked: asked.spec(0).dtype),
        "alpha:float=1 beta:float=1 transA:int=0 transB:int=0 activation:text "
        "activation_alpha:float activation_beta:float activation_gamma:float",
    ),
    _operator(
        "DynamicQuantizeMatMul", "A B b_scale b_zero_point? bias?", "Y", shapes.matrix_product(1),
    ),
    _operator(
        "MatMulIntegerToFloat", "A B a_scale b_scale a_zero_point? b_zero_point? bias?", "Y",
        shapes.matrix_product(1, typed=2),
    ),
    _operator(
        "QGemm", "A a_scale a_zero_point B b_scale b_zero_point C? y_scale? y_zero_point?", "Y",
        shapes.gemm(3, shapes.qgemm_type), "alpha:float=1 transA:int=0 transB:int=0",
    ),
    # Attention
    _operator(
        "GroupQueryAttention",
        "query key? value? past_key? past_value? seqlens_k total_sequence_length cos_cache? "
        "sin_cache? position_ids? attention_bias? head_sink? k_scale? v_scale? q_norm_weight? "
        "k_norm_weight?",
        "output present_key? present_value? output_qk?", shapes.grouped_query_attention,
        "num_heads:int! kv_num_heads:int! scale:float softcap:float local_window_size:int=-1 "
        "do_rotary:int rotary_interleaved:int smooth_softmax:int=-1 qk_output:int=0 causal:int=1 "
        "k_quant_type:text=NONE v_quant_type:text=NONE kv_cache_bit_width:int "
        "sliding_window_cache:int=0 qk_norm_epsilon:float=1e-6",
    ),
    _operator(
        "MultiHeadAttention",
        "query key? value? bias? key_padding_mask? attention_bias? past_key? past_value? "
        "past_sequence_length? cache_indirection?",
        "output present_key? present_value? qk?", shapes.multi_head_attention,
        "num_heads:int! mask_filter_value:float scale:float unidirectional:int=0",
    ),
    _operator(
        "Attention",
        "input weights bias? mask_index? past? attention_bias? past_sequence_length?",
        "output present?", shapes.attention(past=4),
        "num_heads:int! unidirectional:int=0 qkv_hidden_sizes:ints past_present_share_buffer:int "
        "do_rotary:int mask_filter_value:float scale:float rotary_embedding_dim:int",
    ),
    _operator(
        "QAttention",
        "input weight bias input_scale weight_scale mask_index? input_zero_point? "
        "weight_zero_point? past?",
        "output present?", shapes.attention(past=8, typed=2),
        "num_heads:int! unidirectional:int=0 past_present_share_buffer:int do_rotary:int "
        "mask_filter_value:float scale:float",
    ),
    _operator(
        "RotaryEmbedding", "input position_ids cos_cache sin_cache", "output", shapes.rotated,
        "scale:float interleaved:int rotary_embedding_dim:int num_heads:int "
        "is_packed_batching:int",
    ),
    # Normalization and embedding
    _operator(
        "SimplifiedLayerNormalization", "X scale", "Y inv_std_var?",
        shapes.simplified_normalization, "axis:int=-1 epsilon:float=1e-5 stash_type:int=1",
        domain="",
    ),
    _operator(
        "SkipSimplifiedLayerNormalization", "input skip gamma bias?", _NORMALIZED,
        shapes.normalized, _EPSILON,
    ),
    _operator(
        "SkipLayerNormalization", "input skip gamma beta? bias?", _NORMALIZED, shapes.normalized,
        _EPSILON,
    ),
    _operator(
        "EmbedLayerNormalization",
        "input_ids segment_ids? word_embedding position_embedding segment_embedding? gamma beta "
        "mask? position_ids?",
        "output mask_index? embedding_sum?", shapes.embedding(2, 2),
        f"{_EPSILON} mask_index_type:int",
    ),
    _operator(
        "QEmbedLayerNormalization",
        "input_ids segment_ids? word_embedding_quant position_embedding_quant segment_embedding? "
        "gamma_quant beta_quant mask? word_embedding_scale position_embedding_scale "
        "segment_embedding_scale? gamma_scale beta_scale word_embedding_zero_point "
        "position_embedding_zero_point segment_embedding_zero_point? gamma_zero_point "
        "beta_zero_point",
        "layernorm_out mask_index_out", shapes.embedding(2, 8), _EPSILON,
    ),
    # Activation functions
    _operator("Gelu", "X", "Y", same),
    _operator("FastGelu", "X bias?", "Y", same),
    _operator("BiasGelu", "A B", "C", same),
    _operator("QuickGelu", "X", "Y", same, "alpha:float=1.702"),
    # Mixtures of experts
    _operator("MoE", _MOE_INPUTS.format("", "", ""), "output", same, _MOE),
    _operator(
        "QMoE",
        _MOE_INPUTS.format("fc1_scales? ", "fc2_scales? ", "fc3_scales? ")
        + " fc1_zero_points? fc2_zero_points? fc3_zero_points? router_weights? "
        "fc1_global_scale? fc2_global_scale? fc1_act_scale? fc2_act_scale? fc1_act_block_scale? "
        "fc2_act_block_scale?",
        "output", same,
        f"{_MOE} expert_weight_bits:int=4 fc1_expert_weight_bits:int fc2_expert_weight_bits:int "
        "fc3_expert_weight_bits:int block_size:int quant_type:text=int accuracy_level:int=0 "
        "weights_prepacked:int=-1",
    ),
    # Quantized
    _operator("QLinearAdd", _TWO_QUANTIZED, "C", shapes.broadcast_of(0, 3)),
    _operator("QLinearMul", _TWO_QUANTIZED, "C", shapes.broadcast_of(0, 3)),
    _operator("QLinearSigmoid", _ONE_QUANTIZED, "Y", same),
    _operator("QLinearLeakyRelu", _ONE_QUANTIZED, "Y", same, "alpha:float=0.01"),
    _operator(
        "QLinearSoftmax", "X X_scale x_zero_point? y_scale y_zero_point", "Y", same,
        "axis:int=-1 opset:int!",
    ),
    _operator(
        "QLinearGlobalAveragePool", "X x_scale x_zero_point y_scale y_zero_point", "Y",
        shapes.pooled, "channels_last:int=0",
    ),
    _operator(
        "QLinearAveragePool", "X x_scale x_zero_point? y_scale y_zero_point?", "Y",
        shapes.windowed, f"{_WINDOW} count_include_pad:int=0 channels_last:int=0",
    ),
    _operator("QLinearConcat", "Y_scale Y_zero_point inputs*", "Y", shapes.joined, "axis:int!"),
    _operator(
        "QLinearReduceMean",
        "data data_scale data_zero_point? reduced_scale reduced_zero_point?", "reduced",
        shapes.reduced, "axes:ints! keepdims:int!",
    ),
    _operator(
        "QLinearWhere",
        "condition X x_scale x_zero_point Y y_scale y_zero_point z_scale z_zero_point", "Z",
        shapes.chosen,
    ),
    _operator(
        "FusedConv", "X W B? Z?", "Y", shapes.convolved,
        "auto_pad:text=NOTSET kernel_shape:ints dilations:ints strides:ints pads:ints group:int=1 "
        "activation:text activation_params:floats",
    ),
    _operator("NhwcMaxPool", "x", "y", shapes.windowed, f"{_WINDOW} dilations:ints"),
    _operator(
        "DynamicQuantizeLSTM",
        "X W R B? sequence_lens? initial_h? initial_c? P? W_scale W_zero_point R_scale "
        "R_zero_point",
        "Y? Y_h? Y_c?", shapes.recurrent,
        "direction:text=forward hidden_size:int activation_alpha:floats activation_beta:floats "
        "activations:texts clip:float input_forget:int=0",
    ),
    _operator(
        "DequantizeLinear", "x x_scale x_zero_point?", "y", shapes.typed_as(1), "axis:int"
    ),
    _operator(
        "QuantizeLinear", "x y_scale y_zero_point?", "y",
        lambda asked: [
            asked.spec(0) if not asked.has(2)
            else shapes.typed_as(2)(asked)[0]
        ],
        "axis:int",
    ),
)  # fmt: skip

OPERATORS: Mapping[tuple[str, str], AddedOperator] = {
    (each.schema.domain, each.schema.name): each for each in _ALL
}
"""Operators by domain and type. ``SimplifiedLayerNormalization`` is ONNX Runtime's only operator in
the domain ``ai.onnx`` that ONNX does not define."""
