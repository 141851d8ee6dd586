"""Upgrades the output of MXNet's converters from opset 13 to opset 21.

That opset has operators for layer and group normalization and GELU, which the exporter would
otherwise decompose or refuse. Few other operators changed their form in between.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from onnx import GraphProto, NodeProto, TensorProto, helper, numpy_helper

OPSET = 21
"""Version of ONNX's operators that is written."""


def upgrade(graph: GraphProto) -> None:
    """Brings the nodes of a graph from opset 13 to 21, in place."""
    for node in graph.node:
        change = _CHANGES.get(node.op_type)
        if change is not None:
            graph.initializer.extend(change(node))


def _axes_as_input(node: NodeProto) -> list[TensorProto]:
    axes = next((a for a in node.attribute if a.name == "axes"), None)
    if axes is None:
        return []
    name = f"{node.output[0]}/axes"
    node.attribute.remove(axes)
    node.input.append(name)
    return [numpy_helper.from_array(np.array(axes.ints, np.int64), name)]


def _count_of_outputs(node: NodeProto) -> list[TensorProto]:
    if len(node.input) == 1:
        node.attribute.append(helper.make_attribute("num_outputs", len(node.output)))
    return []


def _old_coordinates(node: NodeProto) -> list[TensorProto]:
    """Opset 16 added the attribute, with another default than what had been meant."""
    mode = helper.make_attribute("coordinate_transformation_mode", "output_half_pixel")
    if all(attribute.name != mode.name for attribute in node.attribute):
        node.attribute.append(mode)
    return []


_CHANGES: dict[str, Callable[[NodeProto], list[TensorProto]]] = {
    **dict.fromkeys(
        ("ReduceMax", "ReduceMin", "ReduceMean", "ReduceProd", "ReduceL1", "ReduceL2"),
        _axes_as_input,
    ),
    "Split": _count_of_outputs,
    "RoiAlign": _old_coordinates,
}
