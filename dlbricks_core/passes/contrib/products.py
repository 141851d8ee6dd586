"""Definitions of matrix products and activation functions."""

from __future__ import annotations

import numpy as np

from dlbricks_core.errors import UnsupportedError
from dlbricks_core.passes.contrib.body import Body

_BITS = (2, 4, 8)
"""Widths of codes that divide a byte, in bits."""


def _turned(body: Body, position: int, side: str) -> str:
    """A factor of FusedMatMul after its transpositions."""
    rank = len(body.sizes(position))
    axes = list(range(rank))
    if body.attribute(f"transBatch{side}", 0):
        axes = [*axes[1:-1], axes[0], axes[-1]]
    if body.attribute(f"trans{side}", 0) and rank > 1:
        axes = [*axes[:-2], axes[-1], axes[-2]]
    name = body.input(position)
    return name if axes == list(range(rank)) else body.transpose(name, *axes)


def fused_matmul(body: Body) -> None:
    """FusedMatMul: a product of transposed factors, scaled."""
    y = body.op("MatMul", _turned(body, 0, "A"), _turned(body, 1, "B"))
    alpha = body.attribute("alpha", 1.0)
    if alpha != 1.0:
        y = body.op("Mul", y, body.value(alpha, body.dtype()))
    body.give(0, y)


#: Activation of FusedGemm -> names of its parameters in ONNX.
_PARAMETERS = {"LeakyRelu": ("alpha",), "HardSigmoid": ("alpha", "beta"), "Elu": ("alpha",)}


def fused_gemm(body: Body) -> None:
    """FusedGemm: Gemm, and an activation function."""
    names = ("alpha", "beta", "transA", "transB")
    inputs = [body.input(0), body.input(1), *filter(None, [body.input(2)])]
    given = {name: body.attribute(name) for name in names if name in body.layer.attributes}
    y = body.op("Gemm", *inputs, **given)
    function = body.attribute("activation", "")
    function = function.decode() if isinstance(function, bytes) else function
    more = {
        name: body.attribute(f"activation_{name}")
        for name in _PARAMETERS.get(function, ())
        if f"activation_{name}" in body.layer.attributes
    }
    body.give(0, body.op(function, y, **more) if function else y)


def unpacked(body: Body, packed: str, bits: int, columns: int) -> str:
    """Codes of ``bits`` bits, the lowest first, out of the bytes of a matrix.

    Args:
        body: Definition to add to.
        packed: Matrix of bytes.
        bits: Width of a code.
        columns: Codes in a row, without those that only fill the last byte.
    """
    if bits == 8:
        return packed
    per_byte = 8 // bits
    mask = body.value((1 << bits) - 1, "uint8")
    single = body.op("Unsqueeze", packed, body.integers(-1))
    shifts = body.value(np.arange(per_byte, dtype=np.uint8) * bits)
    moved = body.op("BitShift", single, shifts, direction="RIGHT")
    codes = body.reshape(body.op("BitwiseAnd", moved, mask), 0, -1)
    ends = (body.integers(n) for n in (0, columns, 1, 1))
    return body.op("Slice", codes, *ends)


def matmul_nbits(body: Body) -> None:
    """MatMulNBits: codes are unpacked, shifted, scaled by block, and multiplied as floats."""
    bits = int(body.attribute("bits", 4))
    if bits not in _BITS or body.has(4) or body.dtype(1) != "uint8":
        raise UnsupportedError(f"codes of {bits} bits or an order of groups are not unpacked")
    rows, depth, block = (int(body.attribute(name)) for name in ("N", "K", "block_size"))
    dtype, blocks = body.dtype(), -(-depth // block)
    codes = unpacked(
        body, body.reshape(body.input(1), rows, -1), bits, blocks * block
    )  # fmt: skip
    codes = body.reshape(body.cast(codes, dtype), rows, blocks, block)
    if not body.has(3):
        zero = body.value(1 << bits - 1, dtype)
    elif body.dtype(3) == "uint8":
        zero = unpacked(body, body.reshape(body.input(3), rows, -1), bits, blocks)
        zero = body.reshape(body.cast(zero, dtype), rows, blocks, 1)
    else:
        zero = body.reshape(body.input(3), rows, blocks, 1)
    scales = body.reshape(body.input(2), rows, blocks, 1)
    weight = body.op("Mul", body.op("Sub", codes, zero), scales)
    weight = body.reshape(weight, rows, blocks * block)
    if blocks * block != depth:
        weight = body.op("Slice", weight, *(body.integers(n) for n in (0, depth, 1, 1)))
    y = body.op("MatMul", body.input(0), body.transpose(weight, 1, 0))
    body.give(0, body.added(y, 5))


def _scaled(body: Body, product: str, scales: tuple[str, str], bias: int) -> None:
    """Gives a product of integers as floats."""
    both = body.op("Mul", *scales)
    body.give(0, body.added(body.op("Mul", body.cast(product, "float32"), both), bias))


def dynamic_quantize_matmul(body: Body) -> None:
    """DynamicQuantizeMatMul: the first factor is quantized as it comes."""
    codes, scale, zero = body.ops("DynamicQuantizeLinear", 3, body.input(0))
    inputs = [codes, body.input(1), zero, *filter(None, [body.input(3)])]
    _scaled(body, body.op("MatMulInteger", *inputs), (scale, body.input(2)), bias=4)


def matmul_integer_to_float(body: Body) -> None:
    """MatMulIntegerToFloat: a product of integers, scaled."""
    inputs = [body.input(position) for position in (0, 1, 4, 5)]
    while not inputs[-1]:
        inputs.pop()
    scales = (body.input(2), body.input(3))
    _scaled(body, body.op("MatMulInteger", *inputs), scales, bias=6)


def gelu(body: Body) -> None:
    """Gelu and BiasGelu: the exact function of the input, or of a sum."""
    body.give(0, body.op("Gelu", body.added(body.input(0), 1)))


def fast_gelu(body: Body) -> None:
    """FastGelu: its approximation by a hyperbolic tangent."""
    body.give(0, body.op("Gelu", body.added(body.input(0), 1), approximate="tanh"))


def quick_gelu(body: Body) -> None:
    """QuickGelu: the input times a sigmoid of a multiple of it."""
    alpha = body.value(body.attribute("alpha", 1.702), body.dtype())
    sigmoid = body.op("Sigmoid", body.op("Mul", body.input(0), alpha))
    body.give(0, body.op("Mul", body.input(0), sigmoid))
