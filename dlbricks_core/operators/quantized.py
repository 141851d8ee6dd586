"""Operators that make codes of floats and floats of codes, and those that ONNX Runtime adds."""

from __future__ import annotations

from collections.abc import Mapping

from dlbricks_core.operators.operator import (
    DATA,
    Input,
    Operator,
    each_input,
    each_output,
    row,
)
from dlbricks_core.operators.reductions import window
from dlbricks_core.operators.weights import CODED, SCALE, ZERO_POINT

_RESULT = (SCALE, ZERO_POINT)
"""Scale and zero point of the codes of a result."""

_COARSE = Input(zero_point=True, coarse=True)

_READ = row("codes:read", each_output(2), DATA, SCALE, _COARSE, folded=False)
_WRITTEN = row("codes:written", each_output(2), DATA, SCALE, _COARSE)

ROWS: Mapping[str, Operator] = {
    "DequantizeLinear": _READ,
    # Least and greatest element, and each element scaled and shifted.
    "DynamicQuantizeLinear": row("codes:ranged", each_output(4), DATA),
    "QuantizeLinear": _WRITTEN,
    "com.microsoft.DequantizeLinear": _READ,
    "com.microsoft.QuantizeLinear": _WRITTEN,
    # Quantizing shifts and scales (2), and so does requantizing.
    "com.microsoft.QLinearAdd": row("elementwise:add", each_output(7), *CODED * 2, *_RESULT),
    "com.microsoft.QLinearAveragePool": row("pool:mean", window(1), *CODED, *_RESULT),
    "com.microsoft.QLinearConcat": row(
        "copy:joined", each_output(4), *_RESULT, *CODED, repeated=len(CODED)
    ),
    "com.microsoft.QLinearGlobalAveragePool": row("reduce:map", each_input(1), *CODED, *_RESULT),
    "com.microsoft.QLinearLeakyRelu": row("elementwise", each_output(5), *CODED, *_RESULT),
    "com.microsoft.QLinearMul": row("elementwise:mul", each_output(7), *CODED * 2, *_RESULT),
    "com.microsoft.QLinearReduceMean": row("reduce:sum", each_input(1), *CODED, *_RESULT),
    "com.microsoft.QLinearSigmoid": row("function", each_output(5), *CODED, *_RESULT),
    "com.microsoft.QLinearSoftmax": row("softmax", each_output(4 + 5), *CODED, *_RESULT),
    "com.microsoft.QLinearWhere": row("elementwise", each_output(4), DATA, *CODED * 2, *_RESULT),
}  # fmt: skip
