"""Bodies of operators: the layers of ONNX that define them, built one by one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dlbricks_core.ir import Array, Attribute, Layer, TensorSpec, dtype_name, numpy_dtype
from dlbricks_core.ir.tensors import DTYPE_NUMBERS
from dlbricks_core.passes.contrib.shapes import LayerInputs, Shape


@dataclass
class Body(LayerInputs):
    """The layers that compute the results of one layer.

    Attributes:
        layers: In topological order, in the domain ``ai.onnx``.
        constants: Values that the definition brings along, by name.
    """

    layers: list[Layer] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)

    def input(self, position: int) -> str:
        """Name of an input."""
        return self.layer.inputs[position] if self.has(position) else ""

    def dtype(self, position: int = 0) -> str:
        """Element type of an input."""
        return self.spec(position).dtype

    def op(self, op: str, *inputs: str, **attributes: Attribute) -> str:
        """Adds a layer with one result; returns the result's name."""
        return self.ops(op, 1, *inputs, **attributes)[0]

    def ops(self, op: str, results: int, *inputs: str, **attributes: Attribute) -> tuple[str, ...]:
        """Adds a layer with several results; returns their names."""
        made = tuple(f"_{len(self.layers)}.{at}" for at in range(results))
        self.layers.append(Layer(op, inputs, made, attributes))
        return made

    def give(self, position: int, name: str) -> None:
        """Makes a tensor a result of the layer, if the result is read."""
        if position < len(self.layer.outputs) and self.layer.outputs[position]:
            self.layers.append(Layer("Identity", (name,), (self.layer.outputs[position],)))

    def value(self, value: Any, dtype: str = "float32") -> str:
        """Adds a constant; returns its name."""
        array = (
            value if isinstance(value, np.ndarray) else np.asarray(value, dtype=numpy_dtype(dtype))
        )
        name = f"_c{len(self.constants)}"
        self.constants[name] = array
        return name

    def integers(self, *values: int) -> str:
        """Adds a constant list of 64-bit integers, such as a shape."""
        return self.value(np.asarray(values, dtype=np.int64))

    def reshape(self, name: str, *shape: int) -> str:
        """Another shape of a tensor."""
        return self.op("Reshape", name, self.integers(*shape))

    def cast(self, name: str, dtype: str) -> str:
        """A tensor as another element type."""
        return self.op("Cast", name, to=DTYPE_NUMBERS[dtype])

    def transpose(self, name: str, *perm: int) -> str:
        """A tensor with its axes in another order."""
        return self.op("Transpose", name, perm=perm)

    def split(self, name: str, sizes: Shape, axis: int) -> tuple[str, ...]:
        """Parts of a tensor along an axis."""
        return self.ops("Split", len(sizes), name, self.integers(*sizes), axis=axis)

    def added(self, name: str, position: int) -> str:
        """A tensor plus an input of the layer, if the layer has it."""
        return self.op("Add", name, self.input(position)) if self.has(position) else name

    def specs(self) -> Mapping[str, TensorSpec]:
        """Specification of each constant."""
        return {
            name: TensorSpec(dtype_name(value.dtype), value.shape)
            for name, value in self.constants.items()
        }
