"""Operators whose CPU kernels in ONNX Runtime 1.31 compute in fewer element types than ONNX allows.

Kernels without float16 count as complete: ONNX Runtime computes them in float32, between casts.
"""

from __future__ import annotations

from collections.abc import Mapping

from dlbricks_core.ir.tensors import DTYPE_NUMBERS

TYPES = frozenset(DTYPE_NUMBERS) - {
    "complex64", "complex128", "float4e2m1", "float6e2m3", "float6e3m2", "float8e8m0"
}  # fmt: skip
"""Element types that activations can have in ONNX Runtime."""

WITHOUT_KERNEL: Mapping[str, frozenset[str]] = {
    "float64": frozenset({
        "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "AveragePool", "Col2Im", "Conv",
        "ConvTranspose", "Cosh", "Det", "Elu", "Erf", "GlobalAveragePool", "GlobalMaxPool",
        "HardSigmoid", "HardSwish", "Hardmax", "InstanceNormalization", "LRN", "LpPool",
        "MaxUnpool", "Mean", "Mish", "RNN", "Resize", "Selu", "Sinh", "Softplus", "Softsign",
        "Tan", "ThresholdedRelu",
    }),
    "bfloat16": frozenset({
        "Abs", "Acos", "Acosh", "Add", "AffineGrid", "ArgMax", "ArgMin", "Asin", "Asinh",
        "Atan", "Atanh", "AveragePool", "BatchNormalization", "Ceil", "CenterCropPad", "Col2Im",
        "Conv", "ConvTranspose", "Cos", "Cosh", "DFT", "DeformConv", "Det", "Div", "Elu", "Erf",
        "Exp", "Expand", "Floor", "GRU", "Gelu", "Gemm", "GlobalAveragePool", "GlobalMaxPool",
        "Greater", "GreaterOrEqual", "GridSample", "GroupNormalization", "HardSigmoid",
        "HardSwish", "Hardmax", "InstanceNormalization", "LRN", "LSTM", "LeakyRelu", "Less",
        "LessOrEqual", "Log", "LogSoftmax", "LpNormalization", "LpPool", "MatMul", "Max",
        "MaxPool", "MaxUnpool", "Mean", "Min", "Mish", "Mul", "Neg",
        "NegativeLogLikelihoodLoss", "PRelu", "Pad", "Pow", "QLinearMatMul", "RMSNormalization",
        "RNN", "Reciprocal", "ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin",
        "ReduceProd", "ReduceSum", "ReduceSumSquare", "Relu", "Resize", "RotaryEmbedding",
        "Round", "STFT", "Selu", "Sigmoid", "Sin", "Sinh", "Softmax", "Softplus", "Softsign",
        "Sqrt", "Sub", "Sum", "Swish", "Tan", "Tanh", "ThresholdedRelu", "Tile", "TopK",
        "Where",
    }),
}  # fmt: skip
"""Operators without a kernel for an element type, by the type."""
