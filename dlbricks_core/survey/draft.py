"""Drafts: small networks, written a layer at a time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dlbricks_core.bricks.signature import zero_code
from dlbricks_core.ir import Array, Attribute, CanonicalModel, Layer, RawModel, TensorSpec
from dlbricks_core.passes import normalize
from dlbricks_core.passes.convert import convert

_OPSETS = {"": 24, "com.microsoft": 1}
_UNKNOWN = TensorSpec("undefined", None)


@dataclass
class Draft:
    """A small network in the making.

    Methods return the name of a tensor, which further layers read.

    Attributes:
        layers: Layers so far.
        tensors: Specifications of inputs and weights by name.
        inputs: Names of the inputs.
        constants: Values of weights that are small and known.
        dtype: Name of the conversion to another element type; ``None`` for what is written.
    """

    layers: list[Layer] = field(default_factory=list)
    tensors: dict[str, TensorSpec] = field(default_factory=dict)
    inputs: list[str] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    dtype: str | None = None

    def input(self, *shape: int, dtype: str = "float32") -> str:
        """A further input."""
        name = f"input{len(self.inputs)}"
        self.inputs.append(name)
        self.tensors[name] = TensorSpec(dtype, shape)
        return name

    def weight(self, *shape: int, dtype: str = "float32") -> str:
        """A further weight of unknown values."""
        name = f"weight{len(self.tensors)}"
        self.tensors[name] = TensorSpec(dtype, shape)
        return name

    def integers(self, *values: int) -> str:
        """A further weight: a list of integers."""
        return self._constant(np.array(values, dtype=np.int64))

    def integer(self, value: int) -> str:
        """A further weight: one integer."""
        return self._constant(np.array(value, dtype=np.int64))

    def number(self, value: float) -> str:
        """A further weight: one number."""
        return self._constant(np.array(value, dtype=np.float32))

    def zero_point(self, dtype: str, *, least: bool = False) -> str:
        """A further weight: the code of zero, which is the least one where none is negative."""
        return self._constant(np.array(zero_code(np.dtype(dtype), least=least), dtype=dtype))

    def _constant(self, value: Array) -> str:
        name = f"weight{len(self.tensors)}"
        self.constants[name] = value
        self.tensors[name] = TensorSpec(value.dtype.name, value.shape)
        return name

    def add(self, op: str, *inputs: str, results: int = 1, **attributes: Attribute) -> str:
        """A further layer; the name of its first result.

        An operator that is not ONNX's own has its domain before its name: ``domain:Operator``.
        """
        domain, _, name = op.rpartition(":")
        names = tuple(f"{name.lower()}{len(self.layers)}_{i}" for i in range(results))
        self.layers.append(Layer(name, inputs, names, attributes, domain))
        return names[0]

    def model(self, name: str) -> CanonicalModel:
        """The network in canonical form. Unread tensors are its outputs."""
        read = {each for layer in self.layers for each in layer.inputs}
        made = [each for layer in self.layers for each in layer.outputs]
        outputs = tuple(each for each in made if each not in read)
        raw = RawModel(
            name=name,
            layers=tuple(self.layers),
            inputs=tuple(self.inputs),
            outputs=outputs,
            tensors={**self.tensors, **dict.fromkeys(made, _UNKNOWN)},
            weights=frozenset(self.tensors) - frozenset(self.inputs),
            constants=self.constants,
            opsets=_OPSETS,
        )
        return convert(normalize(raw), self.dtype)


Random = np.random.Generator


def pick(random: Random, choices: Any) -> Any:
    """One of the choices, each equally likely."""
    return choices[int(random.integers(len(choices)))]
