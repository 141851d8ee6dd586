"""Builder of raw models, which adds one layer at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from onnx import helper

from dlbricks_core.ir import Array, Attribute, Dim, Layer, RawModel, Subgraph, TensorSpec
from dlbricks_core.ir.onnx_writer import node_proto
from dlbricks_core.ir.tensors import DTYPE_NUMBERS

_OPSET = 24
"""The first opset that has all operators that decoders are written in."""

_UNKNOWN = TensorSpec("undefined", None)


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

    def weight(self, name: str, *shape: int) -> str:
        """A weight of 32-bit floats with unknown values; an existing one if the name is in use."""
        self._tensors[name] = TensorSpec("float32", shape)
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
        return self.add("Cast", x, out=out, to=DTYPE_NUMBERS[dtype])

    def either(self, condition: str, then: Layer, otherwise: Layer) -> tuple[str, ...]:
        """One of two alternative layers with the same results.

        Normalization chooses between them once it knows the sizes.
        """
        captures = dict.fromkeys((*then.reads, *otherwise.reads))
        branches = {"then_branch": _branch(then), "else_branch": _branch(otherwise)}
        return self.append(
            Layer("If", (condition,), then.outputs, branches, name=then.name,
                  captures=tuple(captures))
        )  # fmt: skip

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


def _branch(layer: Layer) -> Subgraph:
    # Names of a branch must differ from those of the surrounding graph.
    node = node_proto(layer)
    node.output[:] = [f"{name}/inner" for name in layer.outputs]
    results = [helper.make_empty_tensor_value_info(name) for name in node.output]
    return Subgraph(helper.make_graph([node], layer.name, [], results).SerializeToString())
