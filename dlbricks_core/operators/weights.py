"""Random values of weights that keep the magnitude from inputs to results.

Codes are spread over their whole type, as those of trained weights are. Nothing then overflows
through many layers, and nothing becomes denormal.
"""

from __future__ import annotations

import math

from dlbricks_core.ir.model import Layer
from dlbricks_core.ir.tensors import TensorSpec
from dlbricks_core.operators.operator import DATA, Drawn, Input, Interval, whole
from dlbricks_core.operators.ranges.domain import DomainRule


def always(low: float, high: float) -> Drawn:
    """Rule with the same interval for every layer."""
    return lambda layer, spec: (low, high)


def of_variance(variance: float) -> Interval:
    """Numbers around zero with this variance."""
    half = math.sqrt(3 * variance)
    return -half, half


def _of_depth(depth: int) -> Interval:
    """Weights of sums over so many products that keep the magnitude."""
    half = math.sqrt(3 / max(depth, 1))
    return -half, half


def _fan_in(first_axis: int) -> Drawn:
    """Values that keep the variance of a weighted sum over the axes from ``first_axis`` on."""
    return lambda layer, spec: of_variance(1 / max(math.prod(spec.sizes[first_axis:]), 1))


def _transposed_filter(layer: Layer, spec: TensorSpec) -> Interval:
    strides = layer.attributes.get("strides", ())
    taps = math.prod(spec.sizes[2:]) / math.prod(strides if isinstance(strides, tuple) else ())
    return of_variance(1 / max(spec.sizes[0] * taps, 1))


def _gemm(layer: Layer, spec: TensorSpec) -> Interval:
    return of_variance(1 / max(spec.sizes[1 if layer.attributes.get("transB") else 0], 1))


def _matmul(layer: Layer, spec: TensorSpec) -> Interval:
    return of_variance(1 / max(spec.sizes[-2 if spec.rank > 1 else -1], 1))


def _columns(layer: Layer, spec: TensorSpec) -> Interval:
    """Factor on the right of a matrix product, maybe transposed."""
    turned = layer.attributes.get("transB", 0)
    return _of_depth(spec.sizes[-1 if turned else -2] if spec.rank > 1 else spec.elements)


def _block_scale(layer: Layer, spec: TensorSpec) -> Interval:
    """Scales of blocks of a matrix of ``K`` rows."""
    codes = 1 << whole(layer, "bits", 4)
    spread = math.sqrt((codes**2 - 1) / 12)
    value = 1 / (spread * math.sqrt(max(whole(layer, "K"), 1)))
    return 0.9 * value, 1.1 * value


def codes(layer: Layer, spec: TensorSpec) -> Interval:
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
    bits = whole(layer, "bits", 4)
    if spec.dtype != "uint8":
        return (1 << bits - 1,) * 2
    return (sum(1 << place + bits - 1 for place in range(0, 8, bits)),) * 2


SMALL = Input(drawn=always(-0.1, 0.1))
NEAR_ONE = Input(drawn=always(0.9, 1.1))
TURN = Input(drawn=always(-0.7, 0.7))
SCALE = Input(drawn=always(0.01, 0.02))
WEIGHT_SCALE = Input(drawn=always(0.0005, 0.0010))
"""Scales of eight-bit weights of sums over some hundreds to thousands of products."""

BLOCK_SCALE = Input(drawn=_block_scale, compensates=True)
BIAS = Input(drawn=always(-0.1, 0.1), bias=True)
FILTER = Input(drawn=_fan_in(1), compensates=True)
TRANSPOSED_FILTER = Input(drawn=_transposed_filter, compensates=True)
GEMM = Input(drawn=_gemm, compensates=True)
FACTOR = Input(drawn=_matmul, compensates=True)
COLUMNS = Input(drawn=_columns, compensates=True)
RECURRENT = Input(drawn=_fan_in(2))
EXPERTS = Input(drawn=lambda layer, spec: _of_depth(spec.sizes[-1]))
CODES = Input(codes=codes)
MIDDLE = Input(codes=_middle)
PACKED_MIDDLE = Input(codes=_packed_middle)
ZERO_POINT = Input(zero_point=True)
CODED = (DATA, SCALE, ZERO_POINT)
"""An input of codes, with their scale and zero point."""


def argument(valid: DomainRule, low: float, high: float) -> Input:
    """Argument of a function that is not defined everywhere, with the values to draw for it."""
    return Input(valid=valid, drawn=always(low, high))
