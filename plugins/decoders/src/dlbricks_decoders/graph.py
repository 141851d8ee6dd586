"""Builder of raw models, which adds one layer at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from onnx import helper

from dlbricks_core.ir import (
    Array,
    Attribute,
    Dim,
    Layer,
    RawModel,
    Subgraph,
    TensorSpec,
    node_proto,
)

_OPSET = 24
"""The first opset that has all operators that decoders are written in."""

_UNKNOWN = TensorSpec("undefined", None)


@dataclass(frozen=True)
class Branch:
    """Layers of one of two alternatives.

    Attributes:
        layers: The layers, in order.
        results: Names of their results.
    """

    layers: tuple[Layer, ...]
    results: tuple[str, ...]

    @property
    def captures(self) -> tuple[str, ...]:
        """Names that the layers read from the surrounding graph."""
        made = {name for layer in self.layers for name in layer.outputs}
        read = dict.fromkeys(name for layer in self.layers for name in layer.reads)
        return tuple(name for name in read if name not in made)


class Graph:
    """Builder of a raw model. Methods return the name of a tensor, which further layers read."""

    def __init__(self) -> None:
        self._layers: list[Layer] = []
        self._tensors: dict[str, TensorSpec] = {}
        self._inputs: list[str] = []
        self._outputs: list[str] = []
        self._constants: dict[str, Array] = {}
        self._named: dict[tuple[str, tuple[int, ...], bytes], str] = {}

    def input(self, name: str, dtype: str, *shape: Dim) -> str:
        """A further input."""
        self._inputs.append(name)
        self._tensors[name] = TensorSpec(dtype, shape)
        return name

    def output(self, name: str, *shape: Dim) -> None:
        """Declares a tensor of 32-bit floats as a further output."""
        self._outputs.append(name)
        self._tensors[name] = TensorSpec("float32", shape)

    def weight(self, name: str, *shape: int, dtype: str = "float32") -> str:
        """A weight with unknown values; an existing one if the name is in use."""
        self._tensors[name] = TensorSpec(dtype, shape)
        return name

    def constant(self, value: Array) -> str:
        """A weight of known values; equal values share one weight."""
        key = value.dtype.name, value.shape, value.tobytes()
        name = self._named.setdefault(key, f"constant.{len(self._named)}")
        self._tensors[name] = TensorSpec(value.dtype.name, value.shape)
        self._constants[name] = value
        return name

    def integers(self, *values: int) -> str:
        """A constant list of integers."""
        return self.constant(np.array(values, np.int64))

    def integer(self, value: int) -> str:
        """A constant integer."""
        return self.constant(np.array(value, np.int64))

    def number(self, value: float) -> str:
        """A constant number."""
        return self.constant(np.array(value, np.float32))

    def numbers(self, values: Sequence[float]) -> str:
        """A constant list of numbers."""
        return self.constant(np.array(values, np.float32))

    def add(self, op: str, *inputs: str, out: str, **attributes: Attribute) -> str:
        """A further layer with one result.

        Args:
            op: Operator.
            inputs: Tensors that it reads; ``""`` where an optional one is left out.
            out: Name of the result and of the layer.
            **attributes: Its attributes.
        """
        return self.add_many(op, *inputs, out=(out,), **attributes)[0]

    def add_many(
        self, op: str, *inputs: str, out: tuple[str, ...], **attributes: Attribute
    ) -> tuple[str, ...]:
        """A further layer with several results; arguments as for :meth:`add`."""
        return self.append(Layer(op, inputs, out, attributes, name=out[0]))

    def append(self, layer: Layer) -> tuple[str, ...]:
        """Appends an existing layer. Returns its results."""
        self._layers.append(replace(layer, attributes=_single(layer.attributes)))
        return layer.outputs

    def cast(self, x: str, dtype: str, *, out: str) -> str:
        """A layer that gives a tensor another element type."""
        number = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return self.add("Cast", x, out=out, to=number)

    def apart(self, write: Callable[[], tuple[str, ...]]) -> Branch:
        """The layers that a function adds, which the graph does not keep."""
        before = len(self._layers)
        results = write()
        layers = tuple(self._layers[before:])
        del self._layers[before:]
        return Branch(layers, results)

    def either(
        self, condition: str, then: Branch, otherwise: Branch, out: tuple[str, ...]
    ) -> tuple[str, ...]:
        """One of two alternatives, whose results get the same names.

        Normalization chooses between them once it knows the sizes.
        """
        branches = {"then_branch": _subgraph(then), "else_branch": _subgraph(otherwise)}
        captures = dict.fromkeys(name for each in (then, otherwise) for name in each.captures)
        return self.append(
            Layer("If", (condition,), out, branches, name=out[0], captures=tuple(captures))
        )

    def scan(
        self,
        write: Callable[..., tuple[str, ...]],
        states: tuple[str, ...],
        rows: tuple[str, ...],
        out: tuple[str, ...],
        *,
        axes: Sequence[int] = (),
        stacked: int = 0,
    ) -> tuple[str, ...]:
        """A loop over an axis of some tensors, which normalization writes out.

        Args:
            write: Function that adds the layers of a step, which read no other tensors. Its
                arguments are names of the states and of the rows, and its results the new states
                and the results of the step.
            states: Tensors that the first step reads as its states.
            rows: Tensors, of which each step reads a row.
            out: Names of the last states, and of the stacked results.
            axes: Axis of each tensor that has its rows; the first ones where it is left out.
            stacked: Axis of the results' rows.
        """
        given = [f"{name}/{out[0]}" for name in (*states, *rows)]
        body = self.apart(lambda: write(*given))
        attributes: dict[str, Attribute] = {
            "body": _subgraph(body, given),
            "num_scan_inputs": len(rows),
        }
        if any(axes):
            attributes["scan_input_axes"] = tuple(axes)
        if stacked:
            attributes["scan_output_axes"] = (stacked,) * (len(out) - len(states))
        return self.append(Layer("Scan", (*states, *rows), out, attributes, name=out[0]))

    def model(self, name: str, source: str) -> RawModel:
        """The finished model."""
        made = {out: _UNKNOWN for layer in self._layers for out in layer.outputs}
        return RawModel(
            name=name,
            layers=tuple(self._layers),
            inputs=tuple(self._inputs),
            outputs=tuple(self._outputs),
            tensors={**made, **self._tensors},
            weights=frozenset(self._tensors) - {*self._inputs, *self._outputs},
            constants=self._constants,
            opsets={"": _OPSET},
            source=source,
        )


def _single(attributes: Mapping[str, Attribute]) -> dict[str, Attribute]:
    """Attributes with numbers in the precision of files, which signatures depend on."""
    return {
        name: float(np.float32(value)) if isinstance(value, float) else value
        for name, value in attributes.items()
    }


def _subgraph(branch: Branch, inputs: Sequence[str] = ()) -> Subgraph:
    # Names of a branch must differ from those of the surrounding graph.
    names = {name: f"{name}/inner" for layer in branch.layers for name in layer.outputs if name}
    nodes = []
    for layer in branch.layers:
        node = node_proto(layer)
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
        nodes.append(node)
    results = [helper.make_empty_tensor_value_info(names[name]) for name in branch.results]
    given = [helper.make_empty_tensor_value_info(name) for name in inputs]
    graph = helper.make_graph(nodes, branch.results[0], given, results)
    return Subgraph(graph.SerializeToString())
