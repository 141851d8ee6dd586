"""Convolutions, products, pools, recurrences and resizing of OpenVINO's files in ONNX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dlbricks_core.backends import Array
from dlbricks_core.ir.limits import MAX_CONSTANT_ELEMENTS
from dlbricks_openvino.files.building import SHORT, Operation, dtype_of
from dlbricks_openvino.files.compressed import codes_of, dequantized, product_of_codes


def _ends(operation: Operation) -> dict[str, Any]:
    """Strides and pads in ONNX."""
    given = operation.attributes
    auto = str(given["auto_pad"])
    found: dict[str, Any] = {"strides": given["strides"]}
    if auto == "explicit":
        return {**found, "pads": [*given["pads_begin"], *given["pads_end"]]}
    return {**found, "auto_pad": auto.upper()}


def _weight(operation: Operation, shape: Sequence[int], axis: int) -> str:
    """The weight of a convolution, in a shape of ONNX."""
    port = operation.node.input_value(1)
    codes = codes_of(port)
    name = dequantized(operation, codes, shape, axis) if codes else None
    return name or reshaped(operation, 1, shape)


def reshaped(operation: Operation, position: int, shape: Sequence[int]) -> str:
    """An input in another shape; a constant is only declared in it."""
    port = operation.node.input_value(position)
    if list(port.get_shape()) == list(shape):
        return operation.inputs[position]
    value = operation.value(position)
    if value is None:
        return operation.add("Reshape", operation.inputs[position], operation.integers(*shape))
    return constant(operation, value.reshape(shape), dtype_of(port))


def constant(operation: Operation, value: Array, dtype: str) -> str:
    """A constant, without its values if it is large."""
    graph = operation.graph
    if value.size <= MAX_CONSTANT_ELEMENTS:
        return graph.constant(operation.stem, value)
    return graph.weight(graph.new(operation.stem), dtype, value.shape)


def _static(operation: Operation, position: int) -> list[int]:
    found = [size for size in operation.shape(position) if size is not None]
    if len(found) != operation.rank(position):
        raise operation.refuse("the shape of its weight is open")
    return found


def convolution(operation: Operation) -> str:
    """A convolution, of groups too."""
    sizes, groups = _static(operation, 1), 1
    if operation.node.get_type_name().startswith("Group"):
        groups, rows, *others = sizes
        sizes = [groups * rows, *others]
    weight = _weight(operation, sizes, 0)
    return operation.add(
        "Conv", operation.inputs[0], weight, group=groups, kernel_shape=sizes[2:],
        dilations=operation.attributes["dilations"], **_ends(operation),
    )  # fmt: skip


def deconvolution(operation: Operation) -> str:
    """A transposed convolution, of groups too."""
    size = None
    if len(operation.inputs) > 2:
        size = [int(each) for each in np.ravel(operation.known(2))]
    sizes, groups = _static(operation, 1), 1
    if operation.node.get_type_name().startswith("Group"):
        groups, rows, *others = sizes
        sizes = [groups * rows, *others]
    weight = _weight(operation, sizes, 1 if groups == 1 else 0)
    return operation.add(
        "ConvTranspose", operation.inputs[0], weight, group=groups, kernel_shape=sizes[2:],
        dilations=operation.attributes["dilations"],
        output_padding=operation.attributes["output_padding"], output_shape=size,
        **_ends(operation),
    )  # fmt: skip


def _pool(operation: Operation) -> dict[str, Any]:
    given = operation.attributes
    ceil = int(str(given["rounding_type"]).lower().startswith("ceil"))
    return {"kernel_shape": given["kernel"], "ceil_mode": ceil, **_ends(operation)}


def max_pool(operation: Operation) -> Sequence[str]:
    """The largest element of each window, and its place if something reads it."""
    given = {**_pool(operation), "dilations": operation.attributes.get("dilations")}
    outputs = operation.node.outputs()
    if len(outputs) < 2 or not outputs[1].get_target_inputs():
        return [operation.add("MaxPool", operation.inputs[0], **given)]
    values, places = operation.several("MaxPool", operation.inputs[0], results=2, **given)
    return [values, operation.cast(places, "int64", 1)]


def average_pool(operation: Operation) -> str:
    """Means of windows."""
    exclude = operation.attributes.get("exclude-pad", operation.attributes.get("exclude_pad"))
    return operation.add(
        "AveragePool", operation.inputs[0], count_include_pad=int(not exclude),
        dilations=operation.attributes.get("dilations"), **_pool(operation),
    )  # fmt: skip


def adaptive_pool(operation: Operation) -> str:
    """Means of a given number of windows that do not overlap.

    Raises:
        ModelError: If windows have different sizes.
    """
    wanted = [int(size) for size in np.ravel(operation.known(1))]
    sizes = operation.shape()[2:]
    if set(wanted) == {1}:
        return operation.add("GlobalAveragePool", operation.inputs[0])
    if None in sizes or any((size or 0) % count for size, count in zip(sizes, wanted, strict=True)):
        raise operation.refuse("its windows have different sizes")
    kernel = [(size or 0) // count for size, count in zip(sizes, wanted, strict=True)]
    return operation.add("AveragePool", operation.inputs[0], kernel_shape=kernel, strides=kernel)


def matmul(operation: Operation) -> str:
    """A product of matrices, with the operator that exporters of ONNX write for it."""
    first, second = (bool(operation.attributes[f"transpose_{which}"]) for which in "ab")
    codes, left = codes_of(operation.node.input_value(1)), operation.inputs[0]
    right = None
    if codes and len(codes.shape) == 2:
        small = codes.is_blocked or codes.dtype in SHORT
        if small and second and not first:
            right = product_of_codes(operation, codes)
            if right:
                return right
        shape = codes.shape[::-1] if second else codes.shape
        right = dequantized(operation, codes, shape, 1)
    if first:
        left = _turned(operation, 0)
    if right is None:
        right = operation.inputs[1]
        plain = operation.rank(0) == operation.rank(1) == 2 and not first
        if second and plain and operation.value(1) is not None:
            return operation.add("Gemm", left, right, transB=1)
        if second:
            right = _turned(operation, 1)
    return operation.add("MatMul", left, right)


def _turned(operation: Operation, position: int) -> str:
    """An input with its last two axes exchanged; of a constant, only the shape."""
    rank, value = operation.rank(position), operation.value(position)
    if rank < 2:
        return operation.inputs[position]
    if value is not None:
        port = operation.node.input_value(position)
        return constant(operation, np.swapaxes(value, -1, -2), dtype_of(port))
    order = [*range(rank - 2), rank - 1, rank - 2]
    return operation.add("Transpose", operation.inputs[position], perm=order)


_RECURRENCES = {"LSTMSequence": ("LSTM", 4, (1, 3, 0, 2)), "GRUSequence": ("GRU", 3, (0, 1, 2)),
                "RNNSequence": ("RNN", 1, (0,))}  # fmt: skip
"""ONNX's operator, its gates, and the place of each of them in OpenVINO's order."""


def recurrent(operation: Operation) -> Sequence[str]:
    """A recurrence over the tokens of a sequence, of one or both directions."""
    op, gates, order = _RECURRENCES[operation.node.get_type_name()]
    given, hidden = operation.attributes, int(operation.attributes["hidden_size"])
    has_cell = op == "LSTM"
    x, *states = operation.inputs[: 3 if has_cell else 2]
    lengths, w, r, b = range(len(states) + 1, len(states) + 5)
    tokens = operation.add("Transpose", x, perm=[1, 0, 2])
    begin = [operation.add("Transpose", each, perm=[1, 0, 2]) for each in states]
    weights = [_gates(operation, each, gates, order) for each in (w, r)]
    bias = _biases(operation, b, gates, order)
    short = operation.add("Cast", operation.inputs[lengths], to=6)
    # Lengths that are those of all tokens say nothing, and kernels without them are other ones.
    known, (_, count, _) = operation.computed(lengths), operation.shape()
    lens = "" if known is not None and count is not None and (known == count).all() else short
    activations = _activations(operation, op)
    results = operation.several(
        op, tokens, *weights, bias, lens, *begin, results=3 if has_cell else 2,
        hidden_size=hidden, direction=str(given["direction"]).lower(), activations=activations,
        linear_before_reset=int(bool(given["linear_before_reset"])) if op == "GRU" else None,
    )  # fmt: skip
    every, *last = results
    turned = operation.add("Transpose", every, perm=[2, 1, 0, 3])
    return [turned, *(operation.add("Transpose", each, perm=[1, 0, 2]) for each in last)]


_NAMES = {"sigmoid": "Sigmoid", "tanh": "Tanh", "relu": "Relu"}
_USUAL = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}


def _activations(operation: Operation, op: str) -> list[str] | None:
    given = operation.attributes["activations"]
    if float(operation.attributes["clip"]) or any(name not in _NAMES for name in given):
        raise operation.refuse("ONNX lacks its activations")
    names = [_NAMES[name] for name in given]
    both = 2 if str(operation.attributes["direction"]).lower() == "bidirectional" else 1
    return None if names == _USUAL[op] else names * both


def _gates(operation: Operation, position: int, gates: int, order: Sequence[int]) -> str:
    """Weights of a recurrence, its gates in ONNX's order."""
    value = operation.known(position)
    parts = np.split(value, gates, axis=1)
    return constant(operation, np.concatenate([parts[i] for i in order], 1), "float32")


def _biases(operation: Operation, position: int, gates: int, order: Sequence[int]) -> str:
    """Biases of a recurrence: ONNX has those of inputs and of states, OpenVINO their sum."""
    value = operation.known(position)
    extra = value.shape[1] * gates // (gates + 1) if _is_parted(operation, gates) else None
    parts = np.split(value, gates if extra is None else gates + 1, axis=1)
    own = [parts[i] for i in order]
    states = [np.zeros_like(each) for each in own]
    if extra is not None:
        states[-1] = parts[-1]
    return constant(operation, np.concatenate([*own, *states], 1), "float32")


def _is_parted(operation: Operation, gates: int) -> bool:
    """Whether the last gate has a bias of its state beside that of its input."""
    return gates == 3 and bool(operation.attributes["linear_before_reset"])


_MODES = {"nearest": "nearest", "linear": "linear", "linear_onnx": "linear", "cubic": "cubic"}
_COORDINATES = frozenset(("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners"))


def interpolate(operation: Operation) -> str:
    """A resized feature map.

    Raises:
        ModelError: If ONNX lacks its mode.
    """
    given = {name: str(value).lower() for name, value in operation.attributes.items()}
    version = operation.node.get_type_info().version_id
    mode, coordinates = given.get("mode", ""), given.get("coordinate_transformation_mode", "")
    padded = any(
        any(np.ravel(operation.attributes.get(name) or 0)) for name in ("pads_begin", "pads_end")
    )
    if padded:
        raise operation.refuse("it pads what it resizes, which ONNX does not")
    if version not in ("opset4", "opset11") or mode not in _MODES:
        raise operation.refuse(f"ONNX does not resize in the mode {mode or 'of opset 1'}")
    nearest = given["nearest_mode"] if mode == "nearest" else None
    if coordinates not in _COORDINATES or nearest == "simple":
        raise operation.refuse("ONNX places its points otherwise")
    by_sizes = given["shape_calculation_mode"] == "sizes"
    old = version == "opset4"
    where = 3 if old else 2
    scale = operation.inputs[2 if old else 1]
    amounts = ["", "", operation.int64(1)] if by_sizes else ["", scale]
    axes = None
    if len(operation.inputs) > where:
        axes = [int(axis) for axis in np.ravel(operation.known(where))]
    cubic = float(operation.attributes["cube_coeff"]) if mode == "cubic" else None
    return operation.add(
        "Resize", operation.inputs[0], *amounts, mode=_MODES[mode], nearest_mode=nearest,
        coordinate_transformation_mode=coordinates, axes=axes, cubic_coeff_a=cubic,
        antialias=int(bool(operation.attributes["antialias"])) or None,
    )  # fmt: skip
