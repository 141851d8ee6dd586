"""Weights of 8 and 4 bits, which a file stores as codes, and steps of 8 bits between layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import openvino

from dlbricks_core.backends import Array
from dlbricks_openvino.files.building import SHORT, TYPES, Operation, constant_value

_CODES = frozenset(("int8", "uint8", "int4", "uint4"))
_LEAST_BLOCK = 16
"""Elements of the smallest block that ``MatMulNBits`` has."""

_TYPES_OF_STEPS = {
    256: ("uint8", "int8"),
    255: ("uint8", "int8"),
    16: ("uint4", "int4"),
    15: ("uint4", "int4"),
}
"""Element types without and with a sign, by the levels of a ``FakeQuantize``."""


@dataclass(frozen=True)
class Codes:
    """A weight that the file stores as ``(codes - zero) * scale``.

    Attributes:
        dtype: Element type of the codes.
        shape: Shape of the weight.
        blocks: Shape of the codes, with an axis for the blocks of a row if there are several.
        scale: Factors, in a shape that broadcasts to that of the codes.
        zero: Code of zero, likewise; ``None`` for zero itself.
    """

    dtype: str
    shape: tuple[int, ...]
    blocks: tuple[int, ...]
    scale: Array
    zero: Array | None

    @property
    def is_blocked(self) -> bool:
        """Whether one row has several scales, one for each block of its elements."""
        return len(self.blocks) != len(self.shape)


def codes_of(port: openvino.Output) -> Codes | None:
    """The weight that a tensor holds as codes; ``None`` if it is anything else."""
    node, shape = port.get_node(), port.get_partial_shape()
    kind = node.get_type_name()
    if shape.is_dynamic:
        return None
    if kind in ("Reshape", "Convert"):
        found = codes_of(node.input_value(0))
        return replace(found, shape=tuple(shape.to_shape())) if found else None
    if kind != "Multiply":
        return None
    scale, codes, zero = constant_value(node.input_value(1)), node.input_value(0), None
    if codes.get_node().get_type_name() == "Subtract":
        zero = constant_value(codes.get_node().input_value(1))
        codes = codes.get_node().input_value(0)
    if codes.get_node().get_type_name() != "Convert" or scale is None:
        return None
    stored = codes.get_node().input_value(0)
    dtype = TYPES.get(stored.get_element_type().get_type_name(), "")
    if stored.get_node().get_type_name() != "Constant" or dtype not in _CODES:
        return None
    sizes = tuple(shape.to_shape())
    return Codes(dtype, sizes, tuple(stored.get_shape()), scale, zero)


def product_of_codes(operation: Operation, codes: Codes) -> str | None:
    """A product with a weight in blocks of codes; ``None`` where ONNX Runtime has no such product.

    Args:
        operation: Product with the transpose of a matrix.
        codes: The matrix, with a row for each column of the result.
    """
    rows, depth = codes.shape
    block = codes.blocks[-1]
    bits = 4 if codes.dtype in SHORT else 8
    if block < _LEAST_BLOCK or block & (block - 1) or depth % block:
        return None
    graph, stem, blocks = operation.graph, operation.stem, depth // block
    scales = graph.weight(graph.new(stem), "float32", (rows, blocks))
    stored = graph.weight(graph.new(stem), "uint8", (rows, blocks, block * bits // 8))
    inputs = [operation.inputs[0], stored, scales]
    if codes.zero is not None:
        packed = rows, -(-blocks * bits // 8)
        inputs.append(graph.weight(graph.new(stem), "uint8", packed))
    return operation.add(
        "com.microsoft.MatMulNBits", *inputs, K=depth, N=rows, bits=bits, block_size=block
    )


def dequantized(operation: Operation, codes: Codes, shape: Sequence[int], axis: int) -> str | None:
    """The weight of a layer, from codes with a factor for each channel.

    Args:
        operation: The layer.
        codes: Its weight in the file.
        shape: Shape of the weight in ONNX.
        axis: Axis of its channels there.

    Returns:
        Name of the weight; ``None`` if factors are not those of channels.
    """
    graph, stem, channels = operation.graph, operation.stem, shape[axis]
    if codes.is_blocked or channels % codes.scale.size:
        return None

    def spread(values: Array, dtype: str) -> str:
        flat = np.ravel(values).astype(dtype)
        own = flat[0] if flat.size == 1 else np.repeat(flat, channels // flat.size)
        return graph.constant(stem, own)

    stored = graph.weight(graph.new(stem), codes.dtype, shape)
    inputs = [stored, spread(codes.scale, "float32")]
    if codes.zero is not None:
        if codes.dtype in SHORT or channels % codes.zero.size:
            return None
        same = (
            np.broadcast_to(np.ravel(codes.zero), (codes.scale.size,))
            if codes.zero.size == 1
            else codes.zero
        )
        inputs.append(spread(same, codes.dtype))
    return operation.add("DequantizeLinear", *inputs, axis=axis if codes.scale.size > 1 else None)


def steps(operation: Operation) -> str:
    """A ``FakeQuantize`` as a pair of ``QuantizeLinear`` and ``DequantizeLinear``.

    Raises:
        ModelError: If its steps are not those of 8 or 4 bits, or zero is between two of them.
    """
    levels = int(operation.attributes["levels"])
    if levels not in _TYPES_OF_STEPS:
        raise operation.refuse(f"it has {levels} levels, where ONNX has types of 8 and 4 bits")
    low, high, low_out, high_out = (operation.known(i).astype(np.float64) for i in range(1, 5))
    low, high, low_out, high_out = np.broadcast_arrays(low, high, low_out, high_out)
    axes = [axis for axis, size in enumerate(low.shape) if size > 1]
    if len(axes) > 1:
        raise operation.refuse("its ranges differ along several axes")
    axis = operation.rank() - low.ndim + axes[0] if axes else None
    is_signed = bool((low < 0).any())
    dtype = _TYPES_OF_STEPS[levels][is_signed and _is_symmetric(low, high, levels)]
    first = (
        -(levels // 2 if levels % 2 == 0 else (levels - 1) // 2) if dtype.startswith("int") else 0
    )
    stem, graph = operation.stem, operation.graph

    def parameters(least: Array, most: Array) -> list[str]:
        scale = (most - least) / (levels - 1)
        scale = np.where(scale == 0, 1.0, scale)
        zero = first - least / scale
        if np.abs(zero - np.round(zero)).max() > 0.05:
            raise operation.refuse("zero lies between two of its levels")
        shape = () if axis is None else (-1,)
        zeros = np.round(zero).reshape(shape)
        if dtype in SHORT:
            return [graph.constant(stem, scale.reshape(shape).astype(np.float32))]
        return [
            graph.constant(stem, scale.reshape(shape).astype(np.float32)),
            graph.constant(stem, zeros.astype(dtype)),
        ]

    codes = operation.add("QuantizeLinear", operation.inputs[0], *parameters(low, high), axis=axis)
    return operation.add("DequantizeLinear", codes, *parameters(low_out, high_out), axis=axis)


def _is_symmetric(low: Array, high: Array, levels: int) -> bool:
    """Whether code 0 of a type with a sign stands for zero."""
    least = -(levels // 2) if levels % 2 == 0 else -(levels - 1) // 2
    scale = (high - low) / (levels - 1)
    scale = np.where(scale == 0, 1.0, scale)
    return bool(np.abs(low / scale - least).max() < 0.05)
