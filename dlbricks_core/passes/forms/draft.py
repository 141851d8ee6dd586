"""A layer on its way to canonical form."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dlbricks_core.errors import INVALID_MODEL, ModelError, UnsupportedError
from dlbricks_core.ir import Array, Attribute, Layer, TensorSpec, dtype_name
from dlbricks_core.passes.schemas import input_name


@dataclass
class LayerDraft:
    """A layer without the names of its model, which the passes of a form change in place.

    Tensor names are local to the draft: ``<0`` is the first input, ``>0`` the first
    output, anything else is a new constant or an intermediate result.

    Attributes:
        op: Operator type of the domain ``ai.onnx``.
        since: Version of the operator set that the layer's definition came with.
        attributes: Attribute values by name.
        inputs: Names; ``""`` where an optional input is left out.
        outputs: Names; ``""`` where an optional output is not wanted.
        specs: Static specification of every input and every new constant.
        values: Known values of inputs and new constants.
        before: Layers whose results this one reads.
        after: Layers that read this one's results.
        results: Outputs that need no layer: their values, or ``None`` if only the specification
            (in ``specs``) is known.
    """

    op: str
    since: int
    attributes: dict[str, Attribute]
    inputs: list[str]
    outputs: list[str]
    specs: dict[str, TensorSpec]
    values: dict[str, Array]
    before: list[Layer] = field(default_factory=list)
    after: list[Layer] = field(default_factory=list)
    results: dict[str, Array | None] = field(default_factory=dict)

    def has(self, position: int) -> bool:
        """Whether the input is there."""
        return position < len(self.inputs) and bool(self.inputs[position])

    def spec(self, position: int) -> TensorSpec:
        """Specification of an input that is there."""
        if not self.has(position):
            raise UnsupportedError(f"{self.op} lacks its input {input_name(self.op, position)!r}")
        return self.specs[self.inputs[position]]

    def sizes(self, position: int = 0) -> tuple[int, ...]:
        """Shape of an input."""
        return self.spec(position).sizes

    def rank(self, position: int = 0) -> int:
        """Number of axes of an input."""
        return len(self.sizes(position))

    def value(self, position: int) -> Array | None:
        """Value of an input, where it is known."""
        return self.values.get(self.inputs[position]) if self.has(position) else None

    def integers(self, position: int) -> list[int] | None:
        """Value of an input as a flat list of integers, where it is known."""
        value = self.value(position)
        return None if value is None else [int(item) for item in value.ravel()]

    def is_open(self, position: int) -> bool:
        """Whether the input is there and its value is not known before the model runs."""
        return self.has(position) and self.value(position) is None

    def put(self, position: int, value: Array) -> None:
        """Sets an input to a constant, unless it has that value."""
        known = self.value(position)
        if known is not None and known.dtype == value.dtype and known.shape == value.shape \
                and np.array_equal(known, value):  # fmt: skip
            return
        self.inputs += [""] * (position + 1 - len(self.inputs))
        self.inputs[position] = self.constant(input_name(self.op, position), value)

    def put_integers(self, position: int, values: Iterable[int]) -> None:
        """Sets an input to a constant list of 64-bit integers."""
        self.put(position, np.array(list(values), dtype=np.int64))

    def leave_out(self, position: int) -> None:
        """Removes an optional input."""
        if self.has(position):
            self.inputs[position] = ""

    def constant(self, name: str, value: Array) -> str:
        """Adds a constant and returns its local name.

        Raises:
            ModelError: If it is a number in the place of a text.
        """
        if value.dtype == object and not all(isinstance(each, (str, bytes)) for each in value.flat):
            raise ModelError(f"{name} is a number where texts are", hint=INVALID_MODEL)
        self.specs[name] = TensorSpec(dtype_name(value.dtype), value.shape)
        self.values[name] = value
        return name

    def take(self, name: str) -> Any:
        """Removes an attribute and returns its value; ``None`` if it is not there."""
        return self.attributes.pop(name, None)

    def become(self, op: str, *inputs: str, **attributes: Attribute) -> None:
        """Turns the layer into another operator with the same outputs."""
        self.op, self.inputs, self.attributes = op, list(inputs), dict(attributes)
