"""Definitions of ONNX Runtime's own operators as layers of ONNX, and the bodies that they build."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dlbricks_core.errors import UnsupportedError
from dlbricks_core.ir import Array, Attribute, Layer, TensorSpec, dtype_name, numpy_dtype
from dlbricks_core.ir.tensors import DTYPE_NUMBERS
from dlbricks_core.operators.results import LayerInputs, Shape


@dataclass
class Body(LayerInputs):
    """The layers that compute the results of one layer.

    Attributes:
        layers: In topological order, in the domain ``ai.onnx``.
        constants: Values that the definition brings along, by name.
    """

    layers: list[Layer] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)

    def input(self, position: int) -> str:
        """Name of an input."""
        return self.layer.inputs[position] if self.has(position) else ""

    def dtype(self, position: int = 0) -> str:
        """Element type of an input."""
        return self.spec(position).dtype

    def op(self, op: str, *inputs: str, **attributes: Attribute) -> str:
        """Adds a layer with one result; returns the result's name."""
        return self.ops(op, 1, *inputs, **attributes)[0]

    def ops(self, op: str, results: int, *inputs: str, **attributes: Attribute) -> tuple[str, ...]:
        """Adds a layer with several results; returns their names."""
        made = tuple(f"_{len(self.layers)}.{at}" for at in range(results))
        self.layers.append(Layer(op, inputs, made, attributes))
        return made

    def give(self, position: int, name: str) -> None:
        """Makes a tensor a result of the layer, if the result is read."""
        if position < len(self.layer.outputs) and self.layer.outputs[position]:
            self.layers.append(Layer("Identity", (name,), (self.layer.outputs[position],)))

    def value(self, value: Any, dtype: str = "float32") -> str:
        """Adds a constant; returns its name."""
        array = (
            value if isinstance(value, np.ndarray) else np.asarray(value, dtype=numpy_dtype(dtype))
        )
        name = f"_c{len(self.constants)}"
        self.constants[name] = array
        return name

    def integers(self, *values: int) -> str:
        """Adds a constant list of 64-bit integers, such as a shape."""
        return self.value(np.asarray(values, dtype=np.int64))

    def reshape(self, name: str, *shape: int) -> str:
        """Another shape of a tensor."""
        return self.op("Reshape", name, self.integers(*shape))

    def cast(self, name: str, dtype: str) -> str:
        """A tensor as another element type."""
        return self.op("Cast", name, to=DTYPE_NUMBERS[dtype])

    def transpose(self, name: str, *perm: int) -> str:
        """A tensor with its axes in another order."""
        return self.op("Transpose", name, perm=perm)

    def split(self, name: str, sizes: Shape, axis: int) -> tuple[str, ...]:
        """Parts of a tensor along an axis."""
        return self.ops("Split", len(sizes), name, self.integers(*sizes), axis=axis)

    def added(self, name: str, position: int) -> str:
        """A tensor plus an input of the layer, if the layer has it."""
        return self.op("Add", name, self.input(position)) if self.has(position) else name

    def specs(self) -> Mapping[str, TensorSpec]:
        """Specification of each constant."""
        return {
            name: TensorSpec(dtype_name(value.dtype), value.shape)
            for name, value in self.constants.items()
        }


# Definitions of matrix products and activation functions.

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


# Definitions of normalizations and embeddings.

_FOLLOWS_NORMALIZATION = 3
"""Position of the sum that a skip_normalization normalization also returns."""


def simplified_normalization(body: Body) -> None:
    """SimplifiedLayerNormalization: division by the root mean square, and scale."""
    body.give(
        0,
        body.op(
            "RMSNormalization",
            body.input(0),
            body.input(1),
            axis=body.attribute("axis", -1),
            epsilon=body.attribute("epsilon", 1e-5),
        ),
    )  # fmt: skip_normalization


def _skipped(body: Body, bias: int) -> str:
    """Sum of input, skip_normalization and bias; the skip_normalization may lack the batch."""
    total = body.added(body.op("Add", body.input(0), body.input(1)), bias)
    body.give(_FOLLOWS_NORMALIZATION, total)
    return total


def skip_simplified_normalization(body: Body) -> None:
    """SkipSimplifiedLayerNormalization: the same of a sum."""
    total = _skipped(body, bias=3)
    epsilon = body.attribute("epsilon", 1e-12)
    body.give(
        0, body.op("RMSNormalization", total, body.input(2), axis=-1, epsilon=epsilon)
    )  # fmt: skip_normalization


def skip_normalization(body: Body) -> None:
    """SkipLayerNormalization: LayerNormalization of a sum."""
    total = _skipped(body, bias=4)
    inputs = [total, body.input(2), *filter(None, [body.input(3)])]
    epsilon = body.attribute("epsilon", 1e-12)
    body.give(0, body.op("LayerNormalization", *inputs, axis=-1, epsilon=epsilon))


def embedding(body: Body) -> None:
    """EmbedLayerNormalization: LayerNormalization of a sum of rows of up to three tables."""
    batch, steps = body.sizes()
    total = body.op("Gather", body.input(2), body.input(0), axis=0)
    if body.has(8):
        place = body.op("Gather", body.input(3), body.input(8), axis=0)
    else:
        place = body.op("Slice", body.input(3), *(body.integers(n) for n in (0, steps, 0, 1)))
    total = body.op("Add", total, place)
    if body.has(4):
        segment = body.op("Gather", body.input(4), body.input(1), axis=0)
        total = body.op("Add", total, segment)
    epsilon = body.attribute("epsilon", 1e-12)
    body.give(
        0,
        body.op(
            "LayerNormalization", total, body.input(5), body.input(6), axis=-1, epsilon=epsilon
        ),
    )
    if body.has(7):
        counted = body.op("ReduceSum", body.input(7), body.integers(1), keepdims=0)
    else:
        counted = body.value([0] * batch, body.dtype())
    body.give(1, counted)
    body.give(2, total)


# Definitions of quantized operators: floats are computed with, and quantized again.


def _floats(body: Body, *positions: int) -> str:
    """A quantized input as floats, from its codes, its scale and its zero point."""
    return body.op("DequantizeLinear", *filter(None, (body.input(at) for at in positions)))


def _codes(body: Body, name: str, scale: int, zero: int) -> None:
    """Gives a result as codes."""
    if not body.has(zero):
        raise UnsupportedError("a quantized result without a zero point has no definition")
    body.give(0, body.op("QuantizeLinear", name, body.input(scale), body.input(zero)))


def quantized_of_one(op: str, *attributes: str) -> Callable[[Body], None]:
    """Definition of a function of one quantized input."""

    def define(body: Body) -> None:
        if body.attribute("channels_last", 0):
            raise UnsupportedError("maps with their channels last have no definition")
        given = {name: body.attribute(name) for name in attributes if name in body.layer.attributes}
        _codes(body, body.op(op, _floats(body, 0, 1, 2), **given), 3, 4)

    return define


def quantized_of_two(op: str) -> Callable[[Body], None]:
    """Definition of a function of two quantized inputs."""
    return lambda body: _codes(
        body, body.op(op, _floats(body, 0, 1, 2), _floats(body, 3, 4, 5)), 6, 7
    )


def quantized_concat(body: Body) -> None:
    """QLinearConcat."""
    parts = [_floats(body, at, at + 1, at + 2) for at in range(2, len(body.inputs), 3)]
    _codes(body, body.op("Concat", *parts, axis=body.attribute("axis")), 0, 1)


def quantized_where(body: Body) -> None:
    """QLinearWhere."""
    chosen = body.op("Where", body.input(0), _floats(body, 1, 2, 3), _floats(body, 4, 5, 6))
    _codes(body, chosen, 7, 8)


def quantized_softmax(body: Body) -> None:
    """QLinearSoftmax, of one axis."""
    if body.attribute("opset") < 13 and body.attribute("axis", -1) not in (-1, len(body.sizes())):
        raise UnsupportedError("a softmax over several axes has no definition")
    axis = body.attribute("axis", -1)
    _codes(body, body.op("Softmax", _floats(body, 0, 1, 2), axis=axis), 3, 4)


def quantized_gemm(body: Body) -> None:
    """QGemm: the bias has the scale of the product."""
    names = ("alpha", "transA", "transB")
    given = {name: body.attribute(name) for name in names if name in body.layer.attributes}
    if given.get("alpha", 1.0) != 1.0 or len(body.sizes(4)) or body.sizes(1):
        raise UnsupportedError("scales of columns and of the product have no definition")
    inputs = [_floats(body, 0, 1, 2), _floats(body, 3, 4, 5)]
    if body.has(6):
        scale = body.op("Mul", body.input(1), body.input(4))
        inputs.append(body.op("Mul", body.cast(body.input(6), body.dtype(1)), scale))
    y = body.op("Gemm", *inputs, **given)
    if body.has(7):
        _codes(body, y, 7, 8)
    else:
        body.give(0, y)
