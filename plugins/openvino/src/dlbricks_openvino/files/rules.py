"""Counterparts in ONNX of OpenVINO's operations, by their type."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import TensorProto

from dlbricks_openvino.files.building import (
    Operation,
    Rule,
    constant_value,
    dtype_of,
    number_of,
)
from dlbricks_openvino.files.compressed import steps
from dlbricks_openvino.files.layers import (
    adaptive_pool,
    average_pool,
    constant,
    convolution,
    deconvolution,
    interpolate,
    matmul,
    max_pool,
    recurrent,
)
from dlbricks_openvino.files.moves import (
    broadcast,
    depth_to_space,
    gather,
    gather_nd,
    pad,
    reshape,
    reverse_sequence,
    roll,
    scatter,
    scatter_update,
    shuffle_channels,
    space_to_depth,
    split,
    transpose,
    with_places,
)
from dlbricks_openvino.files.norms import (
    batch_norm,
    group_norm,
    lrn,
    mvn,
    normalize_l2,
)
from dlbricks_openvino.files.slices import slice_, strided_slice


def _same(op: str, **attributes: Any) -> Rule:
    """The operator of ONNX with the same inputs."""
    return lambda operation: operation.add(op, *operation.inputs, **attributes)


def _along_axis(op: str) -> Rule:
    return lambda operation: operation.add(op, *operation.inputs, axis=operation.attributes["axis"])


def _reduction(op: str) -> Rule:
    def rule(operation: Operation) -> str:
        keep = int(bool(operation.attributes["keep_dims"]))
        return operation.add(op, operation.inputs[0], operation.int64(1), keepdims=keep)

    return rule


def _reduction_of_flags(op: str) -> Rule:
    def rule(operation: Operation) -> str:
        numbers = operation.add("Cast", operation.inputs[0], to=TensorProto.INT32)
        keep = int(bool(operation.attributes["keep_dims"]))
        found = operation.add(op, numbers, operation.int64(1), keepdims=keep)
        return operation.add("Cast", found, to=TensorProto.BOOL)

    return rule


def _squared_difference(operation: Operation) -> str:
    difference = operation.add("Sub", *operation.inputs)
    return operation.add("Mul", difference, difference)


def _floor_mod(operation: Operation) -> str:
    left, right = operation.inputs
    if "int" in dtype_of(operation.node.output(0)):
        return operation.add("Mod", left, right)
    whole = operation.add("Floor", operation.add("Div", left, right))
    return operation.add("Sub", left, operation.add("Mul", whole, right))


def _clamp(operation: Operation) -> str:
    least, most = (operation.like(0, operation.attributes[name]) for name in ("min", "max"))
    return operation.add("Clip", operation.inputs[0], least, most)


def _swish(operation: Operation) -> str:
    x, *beta = operation.inputs
    return operation.add(
        "Mul", x, operation.add("Sigmoid", operation.add("Mul", x, *beta) if beta else x)
    )


def _gelu(operation: Operation) -> str:
    mode = str(operation.attributes.get("approximation_mode", "erf")).lower()
    return operation.add(
        "Gelu", operation.inputs[0], approximate="tanh" if mode == "tanh" else "none"
    )


def _elu(operation: Operation) -> str:
    return operation.add("Elu", *operation.inputs, alpha=operation.attributes["alpha"])


def _is_infinite(operation: Operation) -> str:
    signs = {
        name: int(operation.attributes[name]) for name in ("detect_negative", "detect_positive")
    }
    return operation.add("IsInf", *operation.inputs, **signs)


def _with_numbers(op: str, *names: str) -> Rule:
    """An operator whose attributes are inputs in OpenVINO."""

    def rule(operation: Operation) -> str:
        values = {name: float(operation.known(i).item()) for i, name in enumerate(names, 1)}
        return operation.add(op, operation.inputs[0], **values)

    return rule


def _prelu(operation: Operation) -> str:
    x, slope = operation.inputs
    if operation.rank(1) == 1 and operation.rank() > 2:
        slope = operation.add(
            "Reshape", slope, operation.integers(-1, *[1] * (operation.rank() - 2))
        )
    return operation.add("PRelu", x, slope)


def _round(operation: Operation) -> str:
    (x,) = operation.inputs
    if operation.attributes["mode"] == "half_to_even":
        return operation.add("Round", x)
    size = operation.add("Add", operation.add("Abs", x), operation.like(0, 0.5))
    return operation.add("Mul", operation.add("Sign", x), operation.add("Floor", size))


def _convert(operation: Operation) -> str:
    port = operation.node.output(0)
    dtype, value = dtype_of(port), constant_value(port)
    if value is not None and dtype.startswith("float"):
        # A weight that the file keeps in fewer bits: OpenVINO widens it once.
        return constant(operation, value, dtype)
    return operation.add("Cast", operation.inputs[0], to=number_of(dtype))


def _convert_like(operation: Operation) -> str:
    return operation.add(
        "Cast", operation.inputs[0], to=number_of(dtype_of(operation.node.output(0)))
    )


def _shape(operation: Operation) -> str:
    return operation.cast(operation.add("Shape", operation.inputs[0]), "int64")


def _non_zero(operation: Operation) -> str:
    return operation.cast(operation.add("NonZero", operation.inputs[0]), "int64")


def _range(operation: Operation) -> str:
    wanted = dtype_of(operation.node.output(0))
    ends = []
    for name, port in zip(operation.inputs, operation.node.input_values(), strict=True):
        same = dtype_of(port) == wanted
        ends.append(name if same else operation.add("Cast", name, to=number_of(wanted)))
    return operation.add("Range", *ends)


def _top_k(operation: Operation) -> Sequence[str]:
    given = operation.attributes
    largest = int(given["mode"] == "max")
    values, places = operation.several(
        "TopK", operation.inputs[0], operation.int64(1), results=2,
        axis=given["axis"], largest=largest, sorted=int(given["sort"] != "none"),
    )  # fmt: skip
    return values, operation.cast(places, "int64", 1)


def _one_hot(operation: Operation) -> str:
    places, depth, on, off = operation.inputs
    both = [operation.add("Unsqueeze", each, operation.integers(0)) for each in (off, on)]
    values = operation.add("Concat", *both, axis=0)
    return operation.add("OneHot", places, depth, values, axis=operation.attributes["axis"])


def _cum_sum(operation: Operation) -> str:
    given = {name: int(bool(operation.attributes[name])) for name in ("exclusive", "reverse")}
    return operation.add("CumSum", *operation.inputs, **given)


def _fourier(operation: Operation, name: str, rank: int, **given: int) -> str:
    """Transforms along each axis in turn; the last axis holds both parts of a number.

    OpenVINO reads no other transform of ONNX than one along the second axis.
    """
    axes = [int(axis) % (rank - 1) for axis in np.ravel(operation.known(1))]
    sizes = [-1] * len(axes)
    if len(operation.inputs) > 2:
        sizes = [int(size) for size in np.ravel(operation.known(2))]
    second = min(1, rank - 2)
    for axis, size in reversed(list(zip(axes, sizes, strict=True))):
        length, at = (operation.graph.constant(operation.stem, np.array(number, np.int64))
                      for number in (size, second))  # fmt: skip
        order = list(range(rank))
        order[axis], order[second] = second, axis
        moved = name if axis == second else operation.add("Transpose", name, perm=order)
        made = operation.add("DFT", moved, "" if size == -1 else length, at, **given)
        name = made if axis == second else operation.add("Transpose", made, perm=order)
    return name


def _dft(inverse: int) -> Callable[[Operation], str]:
    return lambda operation: _fourier(
        operation, operation.inputs[0], operation.rank(), inverse=inverse
    )


_GRID_MODES = {"bilinear": "linear", "bicubic": "cubic", "nearest": "nearest"}


def _grid_sample(operation: Operation) -> str:
    given = operation.attributes
    corners = int(bool(given["align_corners"]))
    mode, padding = _GRID_MODES[str(given["mode"])], given["padding_mode"]
    return operation.add(
        "GridSample", *operation.inputs, mode=mode, padding_mode=padding, align_corners=corners
    )


def _roi_align(operation: Operation) -> str:
    given = operation.attributes
    x, boxes, _ = operation.inputs
    asymmetric = str(given.get("aligned_mode", "asymmetric")).lower() == "asymmetric"
    return operation.add(
        "RoiAlign", x, boxes, operation.int64(2), mode=str(given["mode"]).lower(),
        output_height=given["pooled_h"], output_width=given["pooled_w"],
        sampling_ratio=given["sampling_ratio"], spatial_scale=given["spatial_scale"],
        coordinate_transformation_mode="output_half_pixel" if asymmetric else "half_pixel",
    )  # fmt: skip


def _attention(operation: Operation) -> str:
    if any(operation.rank(position) != 4 for position in range(3)):
        raise operation.refuse("it has other axes than batch, heads, tokens and channels")
    heads = [operation.shape(position)[1] for position in range(3)]
    scale = float(operation.known(4).item()) if len(operation.inputs) > 4 else None
    mask = operation.inputs[3:4] if len(operation.inputs) > 3 and _is_mask(operation) else []
    if None in heads:
        raise operation.refuse("its number of heads is open")
    return operation.add(
        "Attention", *operation.inputs[:3], *mask, scale=scale,
        is_causal=int(bool(operation.attributes["causal"])) or None,
    )  # fmt: skip


def _einsum(operation: Operation) -> str:
    equation = operation.attributes["equation"]
    return operation.add("Einsum", *operation.inputs, equation=equation)


def _is_mask(operation: Operation) -> bool:
    """Whether the fourth input of an attention masks anything: a number alone stands for none."""
    return bool(operation.rank(3))


#: Operators that ONNX calls alike.
_ALIKE = (
    "Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "BitwiseAnd", "BitwiseNot",
    "BitwiseOr", "BitwiseXor", "Cos", "Cosh", "Equal", "Erf", "Exp", "Floor", "Greater",
    "Identity", "IsNaN", "Less", "Log", "Mish", "Relu", "Sigmoid", "Sign", "Sin",
    "Sinh", "Sqrt", "Tan", "Tanh",
)  # fmt: skip

#: ONNX's names of operators with the same inputs.
_RENAMED = {
    "Add": "Add", "Subtract": "Sub", "Multiply": "Mul", "Divide": "Div", "Power": "Pow",
    "Maximum": "Max", "Minimum": "Min", "GreaterEqual": "GreaterOrEqual",
    "LessEqual": "LessOrEqual", "LogicalAnd": "And", "LogicalOr": "Or", "LogicalXor": "Xor",
    "LogicalNot": "Not", "Select": "Where", "Ceiling": "Ceil", "Negative": "Neg",
    "SoftPlus": "Softplus", "SoftSign": "Softsign", "HSwish": "HardSwish",
}  # fmt: skip

RULES: Mapping[str, Rule] = {
    **{op: _same(op) for op in _ALIKE},
    **{name: _same(op) for name, op in _RENAMED.items()},
    "IsInf": _is_infinite,
    "Mod": _same("Mod", fmod=1),
    "NotEqual": lambda operation: operation.add("Not", operation.add("Equal", *operation.inputs)),
    "FloorMod": _floor_mod,
    "SquaredDifference": _squared_difference,
    "Clamp": _clamp,
    "Swish": _swish,
    "Gelu": _gelu,
    "Elu": _elu,
    "HSigmoid": _same("HardSigmoid", alpha=1 / 6, beta=0.5),
    "HardSigmoid": _with_numbers("HardSigmoid", "alpha", "beta"),
    "Selu": _with_numbers("Selu", "alpha", "gamma"),
    "PRelu": _prelu,
    "Round": _round,
    "Convert": _convert,
    "ConvertLike": _convert_like,
    "FakeQuantize": steps,
    "Convolution": convolution,
    "GroupConvolution": convolution,
    "ConvolutionBackpropData": deconvolution,
    "GroupConvolutionBackpropData": deconvolution,
    "MaxPool": max_pool,
    "AvgPool": average_pool,
    "AdaptiveAvgPool": adaptive_pool,
    "MatMul": matmul,
    "ScaledDotProductAttention": _attention,
    "Einsum": _einsum,
    "LSTMSequence": recurrent,
    "GRUSequence": recurrent,
    "RNNSequence": recurrent,
    "BatchNormInference": batch_norm,
    "MVN": mvn,
    "NormalizeL2": normalize_l2,
    "LRN": lrn,
    "GroupNormalization": group_norm,
    "Softmax": _along_axis("Softmax"),
    "LogSoftmax": _along_axis("LogSoftmax"),
    "ReduceMean": _reduction("ReduceMean"),
    "ReduceSum": _reduction("ReduceSum"),
    "ReduceMax": _reduction("ReduceMax"),
    "ReduceMin": _reduction("ReduceMin"),
    "ReduceProd": _reduction("ReduceProd"),
    "ReduceL1": _reduction("ReduceL1"),
    "ReduceL2": _reduction("ReduceL2"),
    "ReduceLogicalAnd": _reduction_of_flags("ReduceMin"),
    "ReduceLogicalOr": _reduction_of_flags("ReduceMax"),
    "CumSum": _cum_sum,
    "DFT": _dft(inverse=0),
    "IDFT": _dft(inverse=1),
    "Reshape": reshape,
    "Transpose": transpose,
    "Squeeze": with_places("Squeeze"),
    "Unsqueeze": with_places("Unsqueeze"),
    "Tile": with_places("Tile"),
    "Broadcast": broadcast,
    "Concat": _along_axis("Concat"),
    "Split": split,
    "VariadicSplit": split,
    "Slice": slice_,
    "StridedSlice": strided_slice,
    "Gather": gather,
    "GatherElements": _along_axis("GatherElements"),
    "GatherND": gather_nd,
    "ScatterUpdate": scatter_update,
    "ScatterNDUpdate": scatter("ScatterND"),
    "ScatterElementsUpdate": scatter("ScatterElements"),
    "Pad": pad,
    "ShapeOf": _shape,
    "NonZero": _non_zero,
    "Range": _range,
    "TopK": _top_k,
    "OneHot": _one_hot,
    "ShuffleChannels": shuffle_channels,
    "DepthToSpace": depth_to_space,
    "SpaceToDepth": space_to_depth,
    "Roll": roll,
    "ReverseSequence": reverse_sequence,
    "Interpolate": interpolate,
    "GridSample": _grid_sample,
    "ROIAlign": _roi_align,
}  # fmt: skip
"""Counterparts of operations; files with others are refused by name."""
