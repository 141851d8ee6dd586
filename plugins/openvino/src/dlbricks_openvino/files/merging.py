"""Layers that a file of OpenVINO has in parts, and that ONNX has as one.

Converters write the bias of a layer as a sum behind it. The same network from an ONNX file has one
layer, so bricks of both have one signature.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from onnx import NodeProto, numpy_helper

from dlbricks_openvino.files.building import Graph

_BIASED = {"Conv": 1, "ConvTranspose": 1, "Gemm": -1}
"""Layers with a bias as their third input, and the axis of its elements."""


def with_biases(graph: Graph, outputs: Sequence[str]) -> None:
    """Moves constants into the layer before them: added ones, and factors of a normalization.

    Args:
        graph: Changed in place.
        outputs: Results of the model.
    """
    makers = {name: node for node in graph.nodes for name in node.output}
    reads = Counter(name for node in graph.nodes for name in node.input)
    reads.update(outputs)
    kept: list[NodeProto] = []
    for node in graph.nodes:
        before, constant = _parts(graph, node, makers)
        alone = before is not None and reads[before.output[0]] == 1
        if before is not None and alone and _Merge(graph, makers, before, constant).takes(node):
            makers[node.output[0]] = before
            before.output[0] = node.output[0]
        else:
            kept.append(node)
    graph.nodes[:] = kept


def _parts(
    graph: Graph, node: NodeProto, makers: Mapping[str, NodeProto]
) -> tuple[NodeProto | None, str]:
    """The layer before a sum or product with a constant, and the constant."""
    if node.op_type in ("Add", "Mul"):
        for name, other in (node.input, reversed(node.input)):
            if name in makers and (other in graph.values or other in graph.weights):
                return makers[name], other
    return None, ""


@dataclass(frozen=True)
class _Merge:
    """A layer, and a constant behind it.

    Attributes:
        graph: The graph.
        makers: Node of each result.
        before: The layer.
        constant: The constant.
    """

    graph: Graph
    makers: Mapping[str, NodeProto]
    before: NodeProto
    constant: str

    def takes(self, node: NodeProto) -> bool:
        """Whether the layer takes in the constant that a sum or product reads."""
        if self.before.op_type == "LayerNormalization":
            return self._norm_takes(node.op_type)
        if node.op_type != "Add" or len(self.before.input) != 2:
            return False
        axis, shape = _BIASED.get(self.before.op_type), self._shape(self.constant)
        if axis is None or len(shape) <= axis or not shape:
            return False
        channels = shape[axis]
        if prod(shape) == channels == self._channels():
            self.before.input.append(self._reshaped((channels,)))
            return True
        return False

    def _norm_takes(self, op: str) -> bool:
        normalized, shape = self._shape(self.before.input[1]), self._shape(self.constant)
        if len(self.before.input) > 2 or prod(shape) != prod(normalized):
            return False
        if shape[-len(normalized) :] != normalized:
            return False
        if op == "Add":
            self.before.input.append(self._reshaped(normalized))
        elif self.before.input[1].startswith(self.before.name):  # the ones of a norm by itself
            self.before.input[1] = self._reshaped(normalized)
        else:
            return False
        return True

    def _channels(self) -> int:
        """Channels of the layer's result; 0 if nobody knows."""
        given: dict[str, int] = {each.name: each.i for each in self.before.attribute}
        shape = self._shape(self.before.input[1])
        if not shape:
            return 0
        if self.before.op_type == "ConvTranspose":
            return shape[1] * given.get("group", 1)
        return shape[0]

    def _shape(self, name: str) -> tuple[int, ...]:
        if name in self.graph.weights:
            return self.graph.weights[name][1]
        if name in self.graph.values:
            return tuple(self.graph.values[name].dims)
        made = self.makers.get(name)
        is_stored = made is not None and made.op_type == "DequantizeLinear"
        return self._shape(made.input[0]) if made is not None and is_stored else ()

    def _reshaped(self, shape: tuple[int, ...]) -> str:
        """The constant in another shape of as many elements."""
        graph, name = self.graph, self.constant
        if self._shape(name) == shape:
            return name
        if name in graph.weights:
            return graph.weight(graph.new(name), graph.weights[name][0], shape)
        return graph.constant(name, numpy_helper.to_array(graph.values[name]).reshape(shape))
