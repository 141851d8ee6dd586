"""Converters that complete or replace those of MXNet's ONNX exporter.

One small function an operator, in the table ``CONVERTERS``. Every node carries the shapes and
types of its outputs, so a converter writes what is rather than how to compute it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import NodeProto, ValueInfoProto, helper, numpy_helper

from dlbricks_core.errors import UnsupportedError
from dlbricks_core.ir import numpy_dtype

#: Attributes that hold the shapes and types of a node's outputs, as JSON.
SHAPES = "__dlbricks_shapes__"
TYPES = "__dlbricks_types__"
#: Marks a softmax over all axes but the first.
FLAT = "__dlbricks_flat__"

Converted = list[NodeProto] | tuple[list[NodeProto] | list[ValueInfoProto], tuple[Any, ...]]
Converter = Callable[..., Converted]

CONVERTERS: dict[str, Converter] = {}


@dataclass(frozen=True)
class Node:
    """One MXNet node, as the exporter hands it to a converter."""

    raw: Mapping[str, Any]
    context: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Its name, which is also that of its (first) output."""
        return str(self.raw["name"])

    @property
    def inputs(self) -> list[str]:
        """Names of the tensors that it reads."""
        return [self.context["outputs_lookup"][i][k].name for i, k, *_ in self.raw["inputs"]]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of its first output."""
        return tuple(json.loads(self.raw["attrs"][SHAPES])[0])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of its first output."""
        return numpy_dtype(json.loads(self.raw["attrs"][TYPES])[0])

    def input_shape(self, position: int = 0) -> tuple[int, ...]:
        """Shape of a tensor that it reads."""
        index, output, *_ = self.raw["inputs"][position]
        return tuple(json.loads(self.context["mx_graph"][index]["attrs"][SHAPES])[output])

    def text(self, key: str, default: str = "") -> str:
        """An attribute as MXNet writes it."""
        return str(self.raw["attrs"].get(key, default))

    def flag(self, key: str, default: bool = False) -> bool:
        """A boolean attribute."""
        return self.text(key, str(default)) in ("True", "1", "true")

    def sizes(self, key: str) -> list[int]:
        """An attribute that is a tuple of integers, or one of them."""
        return [int(n) for n in re.findall(r"-?\d+", self.text(key))]

    def constant(self, role: str, value: Any, dtype: Any = np.int64) -> str:
        """Adds a constant and returns its name."""
        name = f"{self.name}/{role}"  # MXNet itself writes no slash into names
        array = np.asarray(value, dtype=dtype)
        self.context["initializer"].append(numpy_helper.from_array(array, name))
        return name

    def make(
        self, op: str, inputs: Sequence[str], output: str | None = None, **attributes: Any
    ) -> NodeProto:
        """An ONNX node; by default with this node's output."""
        output = output or self.name
        return helper.make_node(op, inputs, [output], name=output, **attributes)

    def refuse(self, reason: str) -> UnsupportedError:
        """The error to raise where ONNX cannot say the same."""
        return UnsupportedError(f"ONNX cannot express {self.raw['op']} {self.name!r}: {reason}")


def converts(*ops: str) -> Callable[[Callable[[Node], Converted]], Callable[[Node], Converted]]:
    """Registers a function as the converter of MXNet operators."""

    def register(function: Callable[[Node], Converted]) -> Callable[[Node], Converted]:
        for op in ops:
            CONVERTERS[op] = lambda raw, **context: function(Node(raw, context))
        return function

    return register


@converts("null")
def _variable(node: Node) -> Converted:
    """Inputs, and weights as inputs too: their values are nobody's business here."""
    number = helper.np_dtype_to_tensor_dtype(node.dtype)
    return [helper.make_tensor_value_info(node.name, number, node.shape)], (node.dtype,)


@converts("_zeros", "zeros_like")
def _zeros(node: Node) -> Converted:
    """A constant: initial states, whose shape follows from their readers."""
    shape = node.constant("shape", node.shape)
    value = numpy_helper.from_array(np.zeros(1, node.dtype))
    return [node.make("ConstantOfShape", [shape], value=value)], (node.dtype,)


@converts("FullyConnected")
def _fully_connected(node: Node) -> Converted:
    """One Gemm, with a reshape only where the data has other than two axes."""
    data, *weights = node.inputs
    shape = node.input_shape()
    flatten = node.flag("flatten", default=True)
    nodes = []
    if len(shape) != 2:
        rows = f"{node.name}_rows"
        if flatten:
            nodes.append(node.make("Flatten", [data], rows, axis=1))
        else:
            target = node.constant("rows_shape", [-1, shape[-1]])
            nodes.append(node.make("Reshape", [data, target], rows))
        data = rows
    if flatten or len(shape) == 2:
        return [*nodes, node.make("Gemm", [data, *weights], transB=1)]
    nodes.append(node.make("Gemm", [data, *weights], f"{node.name}_gemm", transB=1))
    nodes.append(node.make("Reshape", [f"{node.name}_gemm", node.constant("shape", node.shape)]))
    return nodes


@converts("BatchNorm", "_contrib_SyncBatchNorm")
def _batch_norm(node: Node) -> Converted:
    """With the scale of 1 for ``fix_gamma``, regardless of the parameter's value."""
    rank = len(node.shape)
    if int(node.text("axis", "1")) % rank != 1:
        raise node.refuse("channels in another place than the second axis")
    data, gamma, *others = node.inputs
    if node.flag("fix_gamma", default=True):
        gamma = node.constant("gamma", np.ones(node.shape[1]), node.dtype)
    epsilon = float(node.text("eps", "0.001"))
    return [node.make("BatchNormalization", [data, gamma, *others], epsilon=epsilon)]


@converts("_contrib_BatchNormWithReLU")
def _batch_norm_and_relu(node: Node) -> Converted:
    """Two operators, which backends fuse again."""
    (norm,) = _batch_norm(node)
    norm.name = norm.output[0] = f"{node.name}_norm"
    return [norm, node.make("Relu", norm.output)]


@converts("GroupNorm")
def _group_norm(node: Node) -> Converted:
    """One operator; MXNet's scales and shifts of groups become scales and shifts of channels."""
    data, *scales = node.inputs
    groups, channels = int(node.text("num_groups", "1")), node.shape[1]
    column = node.constant("column", [groups, 1])
    table = node.constant("table", [groups, channels // groups])
    flat = node.constant("channels", [channels])
    nodes, repeated = [], []
    for role, scale in zip(("scale", "shift"), scales, strict=True):
        name = f"{node.name}_{role}"
        nodes += [
            node.make("Reshape", [scale, column], f"{name}_column"),
            node.make("Expand", [f"{name}_column", table], f"{name}_table"),
            node.make("Reshape", [f"{name}_table", flat], name),
        ]
        repeated.append(name)
    epsilon = float(node.text("eps", "1e-5"))
    inputs = [data, *repeated]
    return [*nodes, node.make("GroupNormalization", inputs, num_groups=groups, epsilon=epsilon)]


@converts("LayerNorm")
def _layer_norm(node: Node) -> Converted:
    """One operator if it is over the last axis; MXNet's own converter splits it."""
    if int(node.text("axis", "-1")) % len(node.shape) != len(node.shape) - 1:
        return _original("layer_norm", node)
    epsilon = float(node.text("eps", "1e-5"))
    return [node.make("LayerNormalization", node.inputs, axis=-1, epsilon=epsilon)]


@converts("LeakyReLU")
def _leaky_relu(node: Node) -> Converted:
    """One operator for GELU as well; MXNet's own converter splits it.

    A slope for each channel is along the second axis in MXNet, and along the last one in ONNX.
    """
    kind, rank = node.text("act_type"), len(node.shape)
    if kind == "gelu":
        return [node.make("Gelu", node.inputs)]
    if kind == "prelu" and rank > 2 and math.prod(node.input_shape(1)) > 1:
        slope = f"{node.name}_slope"
        target = node.constant("slope_shape", [-1, *[1] * (rank - 2)])
        reshape = node.make("Reshape", [node.inputs[1], target], slope)
        return [reshape, node.make("PRelu", [node.inputs[0], slope])]
    return _original("leakyrelu", node)


@converts("softmax")
def _softmax(node: Node) -> Converted:
    """One operator over any axis; a former loss layer over several axes is refused.

    MXNet's own converter, for temperatures and lengths, divides by a temperature of one.
    """
    if FLAT in node.raw["attrs"] and len(node.shape) > 2:
        raise node.refuse(f"over all but the first of {len(node.shape)} axes")
    if len(node.inputs) == 1 and node.text("temperature", "None") in ("None", "1.0"):
        return [node.make("Softmax", node.inputs, axis=int(node.text("axis", "-1")))]
    return _original("softmax", node)


@converts("mean")
def _mean(node: Node) -> Converted:
    """One operator; MXNet's own converter adds a reshape, for a result without axes."""
    axes = node.sizes("axis")
    if not axes or node.flag("exclude") or len(axes) == len(node.input_shape()):
        return _original("mean", node)
    keep = int(node.flag("keepdims"))
    return [node.make("ReduceMean", node.inputs, axes=axes, keepdims=keep)]


@converts("broadcast_to")
def _broadcast_to(node: Node) -> Converted:
    """To the shape that MXNet inferred: zeros stand for the sizes of the input."""
    return [node.make("Expand", [node.inputs[0], node.constant("shape", node.shape)])]


@converts("Reshape", "reshape_like")
def _reshape(node: Node) -> Converted:
    """To the shape that MXNet inferred, whatever codes it was written with."""
    return [node.make("Reshape", [node.inputs[0], node.constant("shape", node.shape)])]


@converts("SwapAxis")
def _swap_axes(node: Node) -> Converted:
    """One transposition; MXNet's own converter uses eight axes."""
    perm = list(range(len(node.shape)))
    first, second = (int(node.text(key, "0")) for key in ("dim1", "dim2"))
    perm[first], perm[second] = perm[second], perm[first]
    return [node.make("Transpose", node.inputs, perm=perm)]


@converts("batch_dot")
def _batch_dot(node: Node) -> Converted:
    """A matrix product, after a transposition of either side if required."""
    nodes, operands = [], []
    for position, key in enumerate(("transpose_a", "transpose_b")):
        operand = node.inputs[position]
        if node.flag(key):
            *batch, rows, columns = range(len(node.input_shape(position)))
            nodes.append(
                node.make(
                    "Transpose", [operand], f"{node.name}/{key}", perm=[*batch, columns, rows]
                )
            )
            operand = f"{node.name}/{key}"
        operands.append(operand)
    return [*nodes, node.make("MatMul", operands)]


@converts("_contrib_AdaptiveAvgPooling2D")
def _adaptive_average_pooling(node: Node) -> Converted:
    """A global or an ordinary average pooling, where all windows have one size."""
    sizes, targets = node.input_shape()[2:], node.shape[2:]
    if targets == (1, 1):
        return [node.make("GlobalAveragePool", node.inputs)]
    if any(size % target for size, target in zip(sizes, targets, strict=True)):
        raise node.refuse(f"windows of different sizes ({sizes} to {targets})")
    window = [size // target for size, target in zip(sizes, targets, strict=True)]
    return [node.make("AveragePool", node.inputs, kernel_shape=window, strides=window)]


@converts("_contrib_BilinearResize2D")
def _bilinear_resize(node: Node) -> Converted:
    """To the size that MXNet inferred, in any of its modes."""
    corners = node.flag("align_corners", default=True)
    sizes = node.constant("sizes", node.shape)
    mode = "align_corners" if corners else "half_pixel"
    inputs = [node.inputs[0], "", "", sizes]
    return [node.make("Resize", inputs, mode="linear", coordinate_transformation_mode=mode)]


@converts("UpSampling")
def _upsampling(node: Node) -> Converted:
    """Repeats pixels; the bilinear kind is a transposed convolution with a learned kernel."""
    if node.text("sample_type") == "bilinear":
        scale = int(node.text("scale"))
        attributes = {
            "strides": [scale] * 2,
            "pads": [scale // 2] * 4,
            "group": node.shape[1],
        }
        return [node.make("ConvTranspose", node.inputs, **attributes)]
    repeated = [_repeated(node, position) for position in range(len(node.inputs))]
    if len(repeated) == 1:
        return [node.make("Resize", repeated[0].input, **_NEAREST)]
    names = [each.output[0] for each in repeated]
    if node.text("multi_input_mode", "concat") == "sum":
        return [*repeated, node.make("Sum", names)]
    return [*repeated, node.make("Concat", names, axis=1)]


_NEAREST = {
    "mode": "nearest",
    "coordinate_transformation_mode": "asymmetric",
    "nearest_mode": "floor",
}


def _repeated(node: Node, position: int) -> NodeProto:
    """An input of UpSampling whose pixels are repeated until it has the size of the output."""
    factor = node.shape[2] / node.input_shape(position)[2]
    scales = node.constant(f"scales{position}", [1, 1, factor, factor], np.float32)
    inputs = [node.inputs[position], "", scales]
    return node.make("Resize", inputs, f"{node.name}/part{position}", **_NEAREST)


def _scalar(op: str, *, reverse: bool = False) -> Callable[[Node], Converted]:
    """Arithmetic with one number."""

    def convert(node: Node) -> Converted:
        value = node.constant("scalar", float(node.text("scalar", "1")), node.dtype)
        operands = [node.inputs[0], value]
        return [node.make(op, operands[::-1] if reverse else operands)]

    return convert


_SCALAR_OPERATORS = {
    "_plus_scalar": _scalar("Add"),
    "_minus_scalar": _scalar("Sub"),
    "_rminus_scalar": _scalar("Sub", reverse=True),
    "_mul_scalar": _scalar("Mul"),
    "_div_scalar": _scalar("Div"),
    "_rdiv_scalar": _scalar("Div", reverse=True),
    "_power_scalar": _scalar("Pow"),
    "_rpower_scalar": _scalar("Pow", reverse=True),
    "_maximum_scalar": _scalar("Max"),
    "_minimum_scalar": _scalar("Min"),
}
for _op, _function in _SCALAR_OPERATORS.items():
    converts(_op)(_function)


def _channels_first(op: str) -> Callable[[Node], Converted]:
    """MXNet's own converter, which does not know that NCW is channels-first as well."""

    def convert(node: Node) -> Converted:
        layout = node.text("layout", "None")
        if layout not in ("None", "NCW", "NCHW", "NCDHW"):
            raise node.refuse(f"layout {layout}")
        return _original(op.lower(), node, without="layout")

    return convert


for _op in ("Convolution", "Deconvolution", "Pooling"):
    converts(_op)(_channels_first(_op))


def _original(op: str, node: Node, without: str = "") -> Converted:
    """Result of MXNet's own converter for the node, without one attribute."""
    from mxnet.onnx.mx2onnx._op_translations import (
        _op_translations_opset12 as older,
    )
    from mxnet.onnx.mx2onnx._op_translations import (
        _op_translations_opset13 as newer,
    )

    attributes = {key: value for key, value in node.raw["attrs"].items() if key != without}
    name = f"convert_{op}"
    convert: Converter = getattr(newer, name, None) or getattr(older, name)
    return convert({**node.raw, "attrs": attributes}, **node.context)
