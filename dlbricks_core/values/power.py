"""Power of activations: their expected mean square, propagated through a model."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from dlbricks_core.ir import CanonicalModel, Layer

_Rule = Callable[[Layer, Sequence[float], CanonicalModel], float]


def _unit(layer: Layer, powers: Sequence[float], model: CanonicalModel) -> float:
    return 1.0


def _half(layer: Layer, powers: Sequence[float], model: CanonicalModel) -> float:
    return powers[0] / 2


def _sum(layer: Layer, powers: Sequence[float], model: CanonicalModel) -> float:
    return sum(powers)


def _product(layer: Layer, powers: Sequence[float], model: CanonicalModel) -> float:
    return math.prod(powers)


def _quotient(layer: Layer, powers: Sequence[float], model: CanonicalModel) -> float:
    return powers[0] / powers[1]


def _square_root(layer: Layer, powers: Sequence[float], model: CanonicalModel) -> float:
    return math.sqrt(powers[0])


def _matmul(layer: Layer, powers: Sequence[float], model: CanonicalModel) -> float:
    if layer.inputs[1] in model.weights:
        return 1.0
    return powers[0] * powers[1] * model.tensors[layer.inputs[0]].sizes[-1]


def _softmax(layer: Layer, powers: Sequence[float], model: CanonicalModel) -> float:
    axis = layer.attributes.get("axis", -1)
    assert isinstance(axis, int)
    return 3 / max(model.tensors[layer.inputs[0]].sizes[axis], 1) ** 2


#: Rule by operator. Results of weighted sums have power 1, because weights are drawn for that;
#: normalizations and bounded functions have it, too. Other operators keep the largest power
#: that they read.
_RULES: Mapping[str, _Rule] = {
    **dict.fromkeys(
        ("Conv", "ConvTranspose", "Gemm", "LSTM", "GRU", "RNN", "LayerNormalization",
         "InstanceNormalization", "GroupNormalization", "RMSNormalization", "LpNormalization",
         "MeanVarianceNormalization", "Sigmoid", "HardSigmoid", "Tanh", "Erf", "Sin", "Cos"),
        _unit,
    ),
    **dict.fromkeys(("Relu", "Gelu", "HardSwish", "Swish", "Mish", "Elu", "Selu"), _half),
    **dict.fromkeys(("Add", "Sub", "Sum"), _sum),
    "Mul": _product,
    "Div": _quotient,
    "Sqrt": _square_root,
    "MatMul": _matmul,
    "Softmax": _softmax,
    "SimplifiedLayerNormalization": _unit,
    **{
        f"com.microsoft.{op}": _unit
        for op in ("DynamicQuantizeMatMul", "EmbedLayerNormalization", "FusedGemm", "FusedMatMul",
                   "MatMulIntegerToFloat", "MatMulNBits", "SkipLayerNormalization",
                   "SkipSimplifiedLayerNormalization")
    },
    **{f"com.microsoft.{op}": _half for op in ("BiasGelu", "FastGelu", "Gelu", "QuickGelu")},
}  # fmt: skip


def activation_powers(model: CanonicalModel) -> dict[str, float]:
    """Rough mean square of every tensor when inputs and weights are near unit scale.

    Weights are drawn such that the results of weighted sums have power 1, whatever the layers
    read. Magnitudes then grow with the additions between weighted layers, not with the depth of
    the network.

    Args:
        model: In canonical form.
    """
    powers: dict[str, float] = {}
    for name, value in model.constants.items():
        if value.dtype.kind == "f" and value.size:
            finite = value[np.isfinite(value)]
            powers[name] = float(np.mean(np.square(finite, dtype=np.float64))) if finite.size else 1
    for layer in model.layers:
        read = [powers.get(name, 1.0) or 1.0 for name in layer.inputs if name]
        rule = _RULES.get(layer.qualified_op)
        power = rule(layer, read, model) if rule else max(read, default=1.0)
        for name in layer.outputs:
            # Beyond these bounds, rounding dominates.
            powers[name] = min(max(power, 1e-6), 1e12)
    return powers
