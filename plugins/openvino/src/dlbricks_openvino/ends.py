"""Inputs and outputs with the channels along the last axis, as between layers of a model.

OpenVINO accepts and returns plain tensors, and converts both. It omits a conversion that an
adjacent ``Transpose`` would undo. Then the network reads and writes its ends in the given layout.
"""

from __future__ import annotations

import numpy as np
import openvino
from openvino import opset13 as ops

from dlbricks_core.ir import CanonicalModel

LAST = "acdb"
"""OpenVINO's name of the layout with the channels along the last axis."""

_OF_CHANNELS = {"Add": ops.add, "BatchNormInference": ops.batch_norm_inference,
                "Multiply": ops.multiply}  # fmt: skip
"""Elementwise layers with a number for each channel."""

_UNDECIDED = frozenset(("AvgPool", "BatchNormInference", "Clamp", "MaxPool", "Multiply", "Relu"))
"""Layers that compute in the layout that the layer before them has chosen."""


def channels_last(graph: openvino.Model, model: CanonicalModel) -> openvino.Model:
    """The graph with a transposition at every end that has a layout in the model."""
    parameters = [_fed(port, model) for port in graph.inputs]
    results = [
        _handed_on(result, model.tensors[name].layout) if model.tensors[name].layout else result
        for name, result in zip(model.outputs, graph.get_results(), strict=True)
    ]
    return openvino.Model(results, parameters)


def _fed(port: openvino.Output, model: CanonicalModel) -> openvino.Node:
    """The parameter of an input, or its replacement."""
    name = next(name for name in port.get_names() if name in model.input_names)
    if not model.tensors[name].layout:
        return port.node
    batch, channels, *others = model.tensors[name].sizes
    fed = ops.parameter([batch, *others, channels], np.float32)
    fed.output(0).get_tensor().set_names({name})
    _feed(port, fed.output(0))
    return fed


def _feed(port: openvino.Output, last: openvino.Output) -> None:
    """Gives the readers of a feature map the same map with the channels along the last axis.

    Elementwise layers compute in the layout that they are given. So they compute in this order of
    axes, and the layers behind them read a transposition.
    """
    channels = port.get_shape()[1]
    given = ops.transpose(last, [0, 3, 1, 2])
    # In a model, an undecided layer follows one that prefers this layout. A convolution with ones
    # prefers it too, but costs more than an elementwise layer.
    ones = np.ones((channels, 1, 1, 1, 1), np.float32)
    decided = ops.group_convolution(given, ones, [1, 1], [0, 0], [0, 0], [1, 1])
    for reader in list(port.get_target_inputs()):
        layer = reader.get_node()
        computed = _on_last_axis(layer, last, channels)
        if computed is not None:
            _feed(layer.output(0), computed.output(0))
        elif layer.get_type_name() in _UNDECIDED:
            reader.replace_source_output(decided.output(0))
        else:
            reader.replace_source_output(given.output(0))


def _on_last_axis(
    layer: openvino.Node, last: openvino.Output, channels: int
) -> openvino.Node | None:
    """A layer of single points with the channels along the last axis; ``None`` for other layers."""
    kind = layer.get_type_name()
    if kind == "Relu":
        return ops.relu(last)
    if kind == "Clamp":
        return ops.clamp(last, **layer.get_attributes())
    if kind == "MaxPool" and {*layer.get_attributes()["kernel"]} == {1}:
        down, right = layer.get_attributes()["strides"]
        every, ends = [1, down, right, 1], last.get_shape()
        return ops.strided_slice(last, [0] * 4, ends, every, [0] * 4, [0] * 4)
    others = [each.get_node() for each in layer.input_values()[1:]]
    if kind not in _OF_CHANNELS or any(each.get_type_name() != "Constant" for each in others):
        return None
    values = [each.get_data() for each in others]
    if kind == "BatchNormInference":
        gamma, beta, mean, variance = values
        factor = gamma / np.sqrt(variance + layer.get_attributes()["epsilon"])
        return ops.add(ops.multiply(last, factor), beta - mean * factor)
    (value,) = values
    if value.shape not in {(channels, 1, 1), (1, channels, 1, 1)}:
        return None
    return _OF_CHANNELS[kind](last, value.reshape(channels))


def _handed_on(result: openvino.Node, layout: str) -> openvino.Node:
    """Replacement of a result, with the channels along the last axis."""
    value = result.input_value(0)
    if layout != LAST:  # blocks of channels: one conversion leads from these to the plain order
        return ops.result(ops.transpose(value, [0, 2, 3, 1]))
    relu = value.get_node().get_type_name() == "Relu"
    total = _sum_with_input((value.get_node().input_value(0) if relu else value).get_node())
    if total is None:
        return ops.result(_rows(value))
    return ops.result(ops.relu(total) if relu else total)


def _sum_with_input(node: openvino.Node) -> openvino.Node | None:
    """The sum of a result and an input, in rows; ``None`` if the node is no such sum.

    A convolution would compute the sum in the memory of the input. The caller's memory must not be
    overwritten, so OpenVINO would copy both the input and the result.
    """
    if node.get_type_name() == "Add":
        for position in (0, 1):
            turned = node.input_value(position).get_node()
            if turned.get_type_name() == "Transpose" and _is_fed(turned):
                batch, channels, *_ = node.get_output_shape(0)
                fed = ops.reshape(turned.input_value(0), [batch, -1, channels], special_zero=False)
                return ops.add(_rows(node.input_value(1 - position)), fed)
    return None


def _is_fed(transpose: openvino.Node) -> bool:
    return transpose.input_value(0).get_node().get_type_name() == "Parameter"


def _rows(value: openvino.Output) -> openvino.Node:
    """A feature map as a matrix with a row for each pixel."""
    batch, channels, *_ = value.get_shape()
    return ops.transpose(ops.reshape(value, [batch, channels, -1], special_zero=False), [0, 2, 1])
