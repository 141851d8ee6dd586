"""Operators that MXNet computes in fewer element types than ONNX allows."""

from __future__ import annotations

from collections.abc import Mapping

WITHOUT_KERNEL: Mapping[str, frozenset[str]] = {
    "bool": frozenset({
        "Col2Im", "GridSample", "ReverseSequence", "ScatterElements", "ScatterND",
    }),
    "float16": frozenset({
        "Attention", "Conv", "ConvTranspose", "Det", "Einsum", "GRU", "Gemm", "GridSample",
        "LSTM", "MatMul", "RNN", "RotaryEmbedding",
    }),
    "int32": frozenset({
        "Col2Im", "Einsum", "Gemm", "GridSample", "MatMul", "PRelu", "ReduceL2", "ReduceMean",
        "ReverseSequence",
    }),
    "int64": frozenset({
        "Col2Im", "Einsum", "Gemm", "GridSample", "MatMul", "PRelu", "ReduceL1", "ReduceL2",
        "ReduceMean", "ReverseSequence",
    }),
    "int8": frozenset({
        "Col2Im", "Einsum", "GridSample", "ReverseSequence",
    }),
    "uint8": frozenset({
        "Col2Im", "Einsum", "GridSample", "ReverseSequence",
    }),
}  # fmt: skip
"""Operators without a kernel for an element type of their first input, by the type."""
