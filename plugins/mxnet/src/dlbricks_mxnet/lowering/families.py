"""Imports all families of operators, which fill the table."""

from dlbricks_mxnet.lowering import (
    activation,
    attention,
    convolution,
    einsum,
    elementwise,
    indexing,
    matrix,
    normalization,
    padding,
    pooling,
    quantization,
    recurrent,
    reduction,
    resize,
    sampling,
    shape,
)

__all__ = [
    "activation",
    "attention",
    "convolution",
    "einsum",
    "elementwise",
    "indexing",
    "matrix",
    "normalization",
    "padding",
    "pooling",
    "quantization",
    "recurrent",
    "reduction",
    "resize",
    "sampling",
    "shape",
]
