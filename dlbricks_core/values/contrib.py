"""Values of the weights of quantized operators, and of those that ONNX Runtime alone has.

Codes are spread over their whole type, as those of trained weights are, and scales are such that
results have the magnitude of their inputs. Nothing then overflows through many layers, and
nothing becomes denormal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from dlbricks_core.ir import Layer, TensorSpec

Interval = tuple[float, float]
Rule = Callable[[Layer, TensorSpec], Interval]
"""Least and greatest value of a weight, from its reader and its specification."""


def always(low: float, high: float) -> Rule:
    """Rule with the same interval for every layer."""
    return lambda layer, spec: (low, high)


def _about(value: float) -> Interval:
    return 0.9 * value, 1.1 * value


def _of_depth(depth: int) -> Interval:
    """Weights of sums over so many products that keep the magnitude."""
    half = math.sqrt(3 / max(depth, 1))
    return -half, half


def _columns(layer: Layer, spec: TensorSpec) -> Interval:
    """Factor on the right of a matrix product, maybe transposed."""
    turned = layer.attributes.get("transB", 0)
    return _of_depth(spec.sizes[-1 if turned else -2] if spec.rank > 1 else spec.elements)


def _last_axis(layer: Layer, spec: TensorSpec) -> Interval:
    return _of_depth(spec.sizes[-1])


def _number(layer: Layer, name: str, default: int) -> int:
    value = layer.attributes.get(name, default)
    assert isinstance(value, int)
    return value


def _block_scale(layer: Layer, spec: TensorSpec) -> Interval:
    """Scales of blocks of a matrix of ``K`` rows."""
    codes = 1 << _number(layer, "bits", 4)
    spread = math.sqrt((codes**2 - 1) / 12)
    return _about(1 / (spread * math.sqrt(max(_number(layer, "K", 1), 1))))


def _codes(layer: Layer, spec: TensorSpec) -> Interval:
    """All codes of a type; the signed ones are as many below zero as above."""
    return {"int8": (-127, 127), "uint8": (0, 255), "int4": (-7, 7), "uint4": (0, 15)}.get(
        spec.dtype, (0, 1)
    )


def _middle(layer: Layer, spec: TensorSpec) -> Interval:
    """Zero point in the middle of the codes of a type."""
    middle = {"uint8": 128, "uint4": 8}.get(spec.dtype, 0)
    return middle, middle


def _packed_middle(layer: Layer, spec: TensorSpec) -> Interval:
    """Zero points in the middle, as many in a byte as the codes are."""
    bits = _number(layer, "bits", 4)
    if spec.dtype != "uint8":
        return (1 << bits - 1,) * 2
    return (sum(1 << place + bits - 1 for place in range(0, 8, bits)),) * 2


_NEAR_ONE = always(0.9, 1.1)
_SMALL = always(-0.1, 0.1)
_TURN = always(-0.7, 0.7)
_SCALE = always(0.01, 0.02)
_WEIGHT_SCALE = always(0.0005, 0.0010)
"""Scales of eight-bit weights of sums over some hundreds to thousands of products."""

_MOST_JOINED = 1024
"""Maximum inputs of a Concat that get scales."""


def _of(rule: Rule, *positions: int) -> dict[int, Rule]:
    return dict.fromkeys(positions, rule)


#: Operator with its domain -> input position -> rule for its floats, or for its codes.
RULES: Mapping[str, Mapping[int, Rule]] = {
    "MatMulInteger": {**_of(_codes, 1), **_of(_middle, 3)},
    "SimplifiedLayerNormalization": _of(_NEAR_ONE, 1),
    **{
        f"com.microsoft.{op}": rules
        for op, rules in {
            "Attention": _of(_columns, 1),
            "DynamicQuantizeLSTM": {
                **_of(_codes, 1, 2), **_of(_WEIGHT_SCALE, 8, 10), **_of(_middle, 9, 11),
            },
            "DynamicQuantizeMatMul": {
                **_of(_codes, 1), **_of(_WEIGHT_SCALE, 2), **_of(_middle, 3),
            },
            "EmbedLayerNormalization": _of(_NEAR_ONE, 5),
            "FusedGemm": _of(_columns, 1),
            "FusedMatMul": _of(_columns, 1),
            "GatherBlockQuantized": {
                **_of(_codes, 0), **_of(always(0.1, 0.12), 2), **_of(_packed_middle, 3),
            },
            "GroupQueryAttention": {**_of(_TURN, 7, 8), **_of(_NEAR_ONE, 14, 15)},
            "MatMulIntegerToFloat": {
                **_of(_codes, 1), **_of(_SCALE, 2), **_of(_WEIGHT_SCALE, 3), **_of(_middle, 5),
            },
            "MatMulNBits": {
                **_of(_codes, 1), **_of(_block_scale, 2), **_of(_packed_middle, 3),
            },
            "MoE": _of(_last_axis, 2, 4, 6),
            "QAttention": {
                **_of(_codes, 1), **_of(_SCALE, 3), **_of(_WEIGHT_SCALE, 4), **_of(_middle, 7),
            },
            "QGemm": _of(_SCALE, 1, 4, 7),
            "QLinearAveragePool": _of(_SCALE, 1, 3),
            "QLinearConcat": _of(_SCALE, 0, *range(3, 3 * _MOST_JOINED, 3)),
            "QLinearGlobalAveragePool": _of(_SCALE, 1, 3),
            "QLinearLeakyRelu": _of(_SCALE, 1, 3),
            "QLinearMul": _of(_SCALE, 1, 4, 6),
            "QLinearReduceMean": _of(_SCALE, 1, 3),
            "QLinearSigmoid": _of(_SCALE, 1, 3),
            "QLinearSoftmax": _of(_SCALE, 1, 3),
            "QLinearWhere": _of(_SCALE, 2, 5, 7),
            "QMoE": {**_of(_codes, 2, 5, 8), **_of(_WEIGHT_SCALE, 3, 6, 9),
                     **_of(_middle, 11, 12, 13)},
            "RotaryEmbedding": _of(_TURN, 2, 3),
            "SkipLayerNormalization": {**_of(_NEAR_ONE, 2), **_of(_SMALL, 3)},
            "SkipSimplifiedLayerNormalization": _of(_NEAR_ONE, 2),
        }.items()
    },
}  # fmt: skip

#: Operator -> position of the weight that compensates the power of the activations that it reads.
WEIGHTED: Mapping[str, int] = {
    "com.microsoft.Attention": 1,
    "com.microsoft.FusedGemm": 1,
    "com.microsoft.FusedMatMul": 1,
    "com.microsoft.MatMulNBits": 2,
}

#: Operator without its domain -> positions of zero points of activations.
ZERO_POINTS: Mapping[str, frozenset[int]] = {
    op: frozenset(positions)
    for op, positions in {
        "MatMulIntegerToFloat": (4,),
        "QAttention": (6,),
        "QGemm": (2, 5, 8),
        "QLinearAdd": (2, 5, 7),
        "QLinearAveragePool": (2, 4),
        "QLinearConcat": (1, *range(4, 3 * _MOST_JOINED, 3)),
        "QLinearGlobalAveragePool": (2, 4),
        "QLinearLeakyRelu": (2, 4),
        "QLinearMul": (2, 5, 7),
        "QLinearReduceMean": (2, 4),
        "QLinearSigmoid": (2, 4),
        "QLinearSoftmax": (2, 4),
        "QLinearWhere": (3, 6, 8),
    }.items()
}
