"""MXNet's fused recurrent operator as ONNX layers, one for each of its layers.

MXNet's own converter supports one or two layers, and assumes that the input is as wide as the
state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import NodeProto

from dlbricks_mxnet.export_converters import Converted, Node, converts


@dataclass(frozen=True)
class _Kind:
    """A recurrent operator: its name in ONNX, and ONNX's order of its gates in MXNet's."""

    op: str
    gates: tuple[int, ...]
    attributes: tuple[tuple[str, Any], ...] = ()
    activation: str = ""


_KINDS = {
    "rnn_relu": _Kind("RNN", (0,), activation="Relu"),
    "rnn_tanh": _Kind("RNN", (0,), activation="Tanh"),
    "lstm": _Kind("LSTM", (0, 3, 1, 2)),
    "gru": _Kind("GRU", (1, 0, 2), (("linear_before_reset", 1),)),
}
#: Attributes that ONNX has no counterpart of, where they differ from MXNet's default.
_REFUSED = ("projection_size", "use_sequence_length", "lstm_state_clip_min", "lstm_state_clip_max")


@converts("RNN")
def _recurrent(node: Node) -> Converted:
    for key in _REFUSED:
        if node.text(key, "None") not in ("None", "False"):
            raise node.refuse(key)
    return _Recurrent(node).convert()


class _Recurrent:
    """One MXNet operator on its way to several ONNX layers."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.kind = _KINDS[node.text("mode")]
        self.layers = int(node.text("num_layers"))
        self.directions = 2 if node.flag("bidirectional") else 1
        self.size = int(node.text("state_size"))
        self.rows = len(self.kind.gates) * self.size
        self.nodes: list[NodeProto] = []

    def convert(self) -> list[NodeProto]:
        node = self.node
        data, parameters, *states = node.inputs
        width = node.input_shape()[2]
        offset = 0
        pieces: list[tuple[str, str]] = []
        for layer in range(self.layers):
            columns = width if layer == 0 else self.directions * self.size
            pieces.append(self._matrix(parameters, offset, columns, layer))
            offset += self._count(columns)
        for layer in range(self.layers):
            bias = self._bias(parameters, offset, layer)
            offset += self.directions * 2 * self.rows
            begin = [self._state(states[i], i, layer) for i in range(len(states))]
            data = self._layer(data, (*pieces[layer], bias), begin, layer)
        for position in range(len(states) if node.flag("state_outputs") else 0):
            last = [self._name(layer, f"end{position}") for layer in range(self.layers)]
            self._add("Concat", last, f"{node.name}{position + 1}", axis=0)
        return self.nodes

    def _layer(self, data: str, weights: Sequence[str], begin: Sequence[str], layer: int) -> str:
        """Adds a layer; returns its result over time, as MXNet lays it out."""
        ends = [self._name(layer, f"end{i}") for i in range(len(begin))]
        over_time = self._name(layer, "Y")
        attributes: dict[str, Any] = dict(self.kind.attributes)
        if self.kind.activation:
            attributes["activations"] = [self.kind.activation] * self.directions
        recurrent = self.node.make(
            self.kind.op,
            [data, *weights, "", *begin],
            over_time,
            hidden_size=self.size,
            direction="bidirectional" if self.directions == 2 else "forward",
            **attributes,
        )
        recurrent.output.extend(ends)
        self.nodes.append(recurrent)
        last = layer == self.layers - 1
        result = f"{self.node.name}0" if last else self._name(layer, "result")
        if self.directions == 1:
            return self._add("Squeeze", [over_time, self._constant(layer, "axis", [1])], result)
        turned = self._add("Transpose", [over_time], self._name(layer, "turned"), perm=[0, 2, 1, 3])
        return self._add("Reshape", [turned, self._constant(layer, "flat", [0, 0, -1])], result)

    def _count(self, columns: int) -> int:
        """Number of weights of a layer."""
        return self.directions * self.rows * (columns + self.size)

    def _matrix(self, parameters: str, offset: int, columns: int, layer: int) -> tuple[str, str]:
        """The matrices for the input and for the state."""
        both: tuple[list[str], list[str]] = ([], [])
        for direction in range(self.directions):
            for kind, width in enumerate((columns, self.size)):
                role = f"{'WR'[kind]}{direction}"
                shape = [1, self.rows, width]
                piece = self._piece(parameters, offset, width, shape, layer, role)
                both[kind].append(piece)
                offset += self.rows * width
        return self._joined(both[0], layer, "W", 0), self._joined(both[1], layer, "R", 0)

    def _bias(self, parameters: str, offset: int, layer: int) -> str:
        """Both biases of each direction."""
        rows = []
        for direction in range(self.directions):
            halves = []
            for kind in range(2):
                role, shape = f"B{direction}{kind}", [1, self.rows]
                halves.append(self._piece(parameters, offset, 1, shape, layer, role))
                offset += self.rows
            rows.append(self._joined(halves, layer, f"B{direction}", 1))
        return self._joined(rows, layer, "B", 0)

    def _piece(
        self, parameters: str, offset: int, width: int, shape: list[int], layer: int, role: str
    ) -> str:
        """A part of the parameters, with its gates in ONNX's order."""
        bounds = [[offset], [offset + self.rows * width], [0]]
        names = [self._constant(layer, f"{role}_{i}", b) for i, b in enumerate(bounds)]
        part = self._add("Slice", [parameters, *names], self._name(layer, f"{role}_part"))
        gates = self._constant(layer, f"{role}_gates", [len(self.kind.gates), self.size * width])
        split = self._add("Reshape", [part, gates], self._name(layer, f"{role}_split"))
        order = self._constant(layer, f"{role}_order", self.kind.gates)
        sorted_ = self._add("Gather", [split, order], self._name(layer, f"{role}_sorted"), axis=0)
        target = self._constant(layer, f"{role}_shape", shape)
        return self._add("Reshape", [sorted_, target], self._name(layer, role))

    def _state(self, state: str, position: int, layer: int) -> str:
        """The layer's part of a state."""
        if self.layers == 1:
            return state
        bounds = [[layer * self.directions], [(layer + 1) * self.directions], [0]]
        role = f"begin{position}"
        names = [self._constant(layer, f"{role}_{i}", b) for i, b in enumerate(bounds)]
        return self._add("Slice", [state, *names], self._name(layer, role))

    def _joined(self, parts: list[str], layer: int, role: str, axis: int) -> str:
        if len(parts) == 1:
            return parts[0]
        return self._add("Concat", parts, self._name(layer, role), axis=axis)

    def _add(self, op: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        self.nodes.append(self.node.make(op, inputs, output, **attributes))
        return output

    def _constant(self, layer: int, role: str, value: Any) -> str:
        return self.node.constant(f"layer{layer}_{role}_value", np.asarray(value, np.int64))

    def _name(self, layer: int, role: str) -> str:
        return f"{self.node.name}/layer{layer}_{role}"
