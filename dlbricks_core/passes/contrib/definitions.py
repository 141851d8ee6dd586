"""Definitions of ONNX Runtime's own operators, as layers of ONNX.

Backends of other frameworks run these layers in place of an operator without a counterpart. An
operator without a definition, or whose definition raises ``UnsupportedError``, is unsupported there
and is reported by its name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dlbricks_core.passes.contrib import attention, normalization, products, quantized
from dlbricks_core.passes.contrib.body import Body
from dlbricks_core.passes.contrib.owner import DOMAIN, WITHOUT_DOMAIN

Definition = Callable[[Body], None]

_OWN: Mapping[str, Definition] = {
    "Attention": attention.projected,
    "BiasGelu": products.gelu,
    "DynamicQuantizeMatMul": products.dynamic_quantize_matmul,
    "EmbedLayerNormalization": normalization.embedding,
    "FastGelu": products.fast_gelu,
    "FusedGemm": products.fused_gemm,
    "FusedMatMul": products.fused_matmul,
    "Gelu": products.gelu,
    "GroupQueryAttention": attention.grouped_query,
    "MatMulIntegerToFloat": products.matmul_integer_to_float,
    "MatMulNBits": products.matmul_nbits,
    "MultiHeadAttention": attention.multi_head,
    "QAttention": attention.quantized,
    "QGemm": quantized.gemm,
    "QLinearAdd": quantized.of_two("Add"),
    "QLinearAveragePool": quantized.of_one(
        "AveragePool", "kernel_shape", "strides", "pads", "ceil_mode", "auto_pad",
        "count_include_pad",
    ),
    "QLinearConcat": quantized.concat,
    "QLinearGlobalAveragePool": quantized.of_one("GlobalAveragePool"),
    "QLinearLeakyRelu": quantized.of_one("LeakyRelu", "alpha"),
    "QLinearMul": quantized.of_two("Mul"),
    "QLinearSigmoid": quantized.of_one("Sigmoid"),
    "QLinearSoftmax": quantized.softmax,
    "QLinearWhere": quantized.where,
    "QuickGelu": products.quick_gelu,
    "RotaryEmbedding": attention.rotary,
    "SkipLayerNormalization": normalization.skip,
    "SkipSimplifiedLayerNormalization": normalization.skip_simplified,
}  # fmt: skip

DEFINITIONS: Mapping[tuple[str, str], Definition] = {
    ("", WITHOUT_DOMAIN): normalization.simplified,
    **{(DOMAIN, op): define for op, define in _OWN.items()},
}
"""Definition of each operator, by domain and type."""
