"""Operators that make codes of floats and floats of codes, and those that ONNX Runtime adds."""

from __future__ import annotations

import math
from collections.abc import Mapping

from dlbricks_core.ir import Layer
from dlbricks_core.operators.operator import (
    ANYTHING,
    DATA,
    FlopsRule,
    Input,
    Operator,
    Specs,
    each_input,
    each_output,
    given,
    kept,
    size,
)
from dlbricks_core.operators.weights import SCALE, ZERO_POINT


def _window(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    window: int = math.prod(given(layer, "kernel_shape"))
    return size(outputs) * window


def _row(kind: str, flops: FlopsRule, *inputs: Input, folded: bool = True) -> Operator:
    return Operator(
        kind=kind,
        flops=flops,
        ranges=ANYTHING,
        power=kept,
        inputs=inputs,
        folded=folded,
    )


_CODED = (DATA, SCALE, ZERO_POINT)
"""An input of codes, with their scale and zero point."""

_RESULT = (SCALE, ZERO_POINT)
"""Scale and zero point of the codes of a result."""

_COARSE = Input(zero_point=True, coarse=True)

_READ = _row("codes:read", each_output(2), DATA, SCALE, _COARSE, folded=False)
_WRITTEN = _row("codes:written", each_output(2), DATA, SCALE, _COARSE)

ROWS: Mapping[str, Operator] = {
    "DequantizeLinear": _READ,
    # Least and greatest element, and each element scaled and shifted.
    "DynamicQuantizeLinear": _row("codes:ranged", each_output(4), DATA),
    "QuantizeLinear": _WRITTEN,
    "com.microsoft.DequantizeLinear": _READ,
    "com.microsoft.QuantizeLinear": _WRITTEN,
    # What is quantized is shifted and scaled (2), as is what is quantized again.
    "com.microsoft.QLinearAdd": _row("elementwise:add", each_output(7), *_CODED * 2, *_RESULT),
    "com.microsoft.QLinearAveragePool": _row("pool:mean", _window, *_CODED, *_RESULT),
    "com.microsoft.QLinearConcat": Operator(
        kind="copy:joined",
        flops=each_output(4),
        ranges=ANYTHING,
        power=kept,
        inputs=(*_RESULT, *_CODED),
        repeated=len(_CODED),
    ),
    "com.microsoft.QLinearGlobalAveragePool": _row("reduce:map", each_input(1), *_CODED, *_RESULT),
    "com.microsoft.QLinearLeakyRelu": _row("elementwise", each_output(5), *_CODED, *_RESULT),
    "com.microsoft.QLinearMul": _row("elementwise:mul", each_output(7), *_CODED * 2, *_RESULT),
    "com.microsoft.QLinearReduceMean": _row("reduce:sum", each_input(1), *_CODED, *_RESULT),
    "com.microsoft.QLinearSigmoid": _row("function", each_output(5), *_CODED, *_RESULT),
    "com.microsoft.QLinearSoftmax": _row("softmax", each_output(4 + 5), *_CODED, *_RESULT),
    "com.microsoft.QLinearWhere": _row("elementwise", each_output(4), DATA, *_CODED * 2, *_RESULT),
}
