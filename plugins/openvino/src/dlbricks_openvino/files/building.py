"""An ONNX graph under construction, and operations of OpenVINO that it is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from typing import Any

import numpy as np
import openvino
from onnx import NodeProto, TensorProto, helper, numpy_helper
from openvino.passes import ConstantFolding, Manager

from dlbricks_core.backends import Array
from dlbricks_core.errors import ModelError, shown
from dlbricks_core.ir.tensors import DTYPE_NUMBERS
from dlbricks_openvino.files.reading import name_of_tensor

TYPES: Mapping[str, str] = {
    "f16": "float16", "f32": "float32", "f64": "float64", "bf16": "bfloat16", "boolean": "bool",
    "i4": "int4", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
    "u4": "uint4", "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64",
    "f8e4m3": "float8e4m3fn", "f8e5m2": "float8e5m2",
}  # fmt: skip
"""Element types of ONNX, by OpenVINO's name of each."""

SHORT = frozenset(("int4", "uint4"))
"""Types of which several elements share a byte."""

GIVE = "Give the ONNX file that it was converted from."
"""Advice on a file that ONNX cannot say."""


def refusal(operation: openvino.Node, why: str, hint: str = GIVE) -> ModelError:
    """The error for an operation that ONNX cannot say."""
    name = shown(operation.get_friendly_name())
    return ModelError(f"{operation.get_type_name()} {name}: {why}", hint=hint)


def dtype_of(port: openvino.Output) -> str:
    """Element type of a tensor.

    Raises:
        ModelError: If ONNX lacks it.
    """
    name = port.get_element_type().get_type_name()
    if name not in TYPES:
        raise refusal(port.get_node(), f"ONNX has no element type {name}")
    return TYPES[name]


def number_of(dtype: str) -> int:
    """ONNX's number of an element type."""
    return DTYPE_NUMBERS[dtype]


def sizes_of(port: openvino.Output) -> list[int | None] | None:
    """Sizes of a tensor, ``None`` for each that is open; ``None`` if it may have any axes."""
    shape = port.get_partial_shape()
    if shape.rank.is_dynamic:
        return None
    return [None if each.is_dynamic else each.get_length() for each in shape]


@dataclass
class Graph:
    """An ONNX graph under construction.

    Attributes:
        source: OpenVINO's graph, with a name for each tensor.
        nodes: Its nodes so far.
        values: Small constants by name.
        weights: Element type and shape of large constants by name; their values are not read.
        names: Name in ONNX of each tensor of OpenVINO, by OpenVINO's name.
        numbers: Numbers that no name has yet.
    """

    source: openvino.Model
    nodes: list[NodeProto] = field(default_factory=list)
    values: dict[str, TensorProto] = field(default_factory=dict)
    weights: dict[str, tuple[str, tuple[int, ...]]] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=count)

    @cached_property
    def folded(self) -> Mapping[str, Array]:
        """Values that OpenVINO computes from constants and static sizes, by name of the tensor.

        A converter may leave an axis or a range as the result of layers. Folding widens compressed
        weights, so a copy is folded, and only where such a value is asked for.
        """
        copy = self.source.clone()
        manager = Manager()
        manager.register_pass(ConstantFolding())
        manager.run_passes(copy)
        constants = (node for node in copy.get_ops() if node.get_type_name() == "Constant")
        return {
            name: np.asarray(node.get_data())
            for node in constants
            for name in node.output(0).get_names()
        }

    def new(self, stem: str) -> str:
        """A name that no other tensor has."""
        return f"{stem}/{next(self.numbers)}"

    def add(
        self, stem: str, op: str, inputs: Sequence[str], outputs: int, **attributes: Any
    ) -> list[str]:
        """Adds a node, and returns the names of its results."""
        domain, _, name = op.rpartition(".")
        results = [self.new(stem) for _ in range(outputs)]
        given = {key: value for key, value in attributes.items() if value is not None}
        self.nodes.append(
            helper.make_node(name, inputs, results, results[0], domain=domain, **given)
        )
        return results

    def constant(self, stem: str, value: Array) -> str:
        """Adds a small constant."""
        name = self.new(stem)
        self.values[name] = numpy_helper.from_array(np.asarray(value, order="C"), name)
        return name

    def weight(self, name: str, dtype: str, shape: Sequence[int]) -> str:
        """Adds a constant whose values are not read."""
        self.weights[name] = dtype, tuple(shape)
        return name


@dataclass(frozen=True)
class Operation:
    """An operation of OpenVINO, and the graph that its counterparts are added to.

    Attributes:
        node: The operation.
        graph: The graph under construction.
    """

    node: openvino.Node
    graph: Graph

    @property
    def attributes(self) -> Mapping[str, Any]:
        """OpenVINO's attributes."""
        found: Mapping[str, Any] = self.node.get_attributes()
        return found

    @property
    def inputs(self) -> list[str]:
        """Names of the inputs in ONNX."""
        return [self.named(port) for port in self.node.input_values()]

    @property
    def stem(self) -> str:
        """Beginning of the names of tensors that OpenVINO does not have."""
        return name_of_tensor(self.node.output(0))

    def named(self, port: openvino.Output) -> str:
        """Name in ONNX of a tensor of OpenVINO."""
        return self.graph.names[name_of_tensor(port)]

    def rank(self, position: int = 0) -> int:
        """Number of axes of an input.

        Raises:
            ModelError: If the file leaves it open.
        """
        return len(self.shape(position))

    def shape(self, position: int = 0) -> list[int | None]:
        """Sizes of an input; ``None`` where the file leaves one open.

        Raises:
            ModelError: If the file leaves the number of axes open.
        """
        found = self.node.input(position).get_partial_shape()
        if found.rank.is_dynamic:
            raise refusal(self.node, "its input may have any number of axes")
        return [None if each.is_dynamic else each.get_length() for each in found]

    def value(self, position: int) -> Array | None:
        """Value of an input that is constant; ``None`` of any other input."""
        return constant_value(self.node.input_value(position))

    def computed(self, position: int) -> Array | None:
        """Value of an input that follows from constants; ``None`` of any other input."""
        found = self.value(position)
        if found is None:
            found = self.graph.folded.get(name_of_tensor(self.node.input_value(position)))
        return found

    def known(self, position: int) -> Array:
        """Value of an input that has to follow from constants.

        Raises:
            ModelError: If it does not.
        """
        found = self.computed(position)
        if found is None:
            raise self.refuse(f"its input {position} is computed, where ONNX has a constant")
        return found

    def add(self, op: str, *inputs: str, **attributes: Any) -> str:
        """Adds a node with one result."""
        return self.graph.add(self.stem, op, inputs, 1, **attributes)[0]

    def several(self, op: str, *inputs: str, results: int, **attributes: Any) -> list[str]:
        """Adds a node with several results."""
        return self.graph.add(self.stem, op, inputs, results, **attributes)

    def integers(self, *numbers: int) -> str:
        """A constant of 64-bit integers along one axis."""
        return self.graph.constant(self.stem, np.array(numbers, np.int64))

    def like(self, position: int, value: object) -> str:
        """A constant in the element type of an input."""
        name = self.node.input(position).get_element_type()
        return self.graph.constant(self.stem, np.array(value, name.to_dtype()))

    def int64(self, position: int) -> str:
        """An input as 64-bit integers along one axis, as ONNX takes sizes, places and axes."""
        found = self.value(position)
        if found is not None:
            return self.integers(*(int(each) for each in np.ravel(found)))
        name = self.inputs[position]
        if dtype_of(self.node.input_value(position)) != "int64":
            name = self.add("Cast", name, to=TensorProto.INT64)
        return name if self.rank(position) == 1 else self.add("Reshape", name, self.integers(-1))

    def cast(self, name: str, dtype: str, result: int = 0) -> str:
        """A tensor in the type of a result, if ONNX computes it in another one."""
        wanted = dtype_of(self.node.output(result))
        return name if wanted == dtype else self.add("Cast", name, to=number_of(wanted))

    def refuse(self, why: str) -> ModelError:
        """The error for this operation."""
        return refusal(self.node, why)


Rule = Callable[[Operation], str | Sequence[str]]
"""Adds the counterparts of an operation; names of its results."""


def constant_value(port: openvino.Output) -> Array | None:
    """Value of a constant, also one that is converted to another type; else ``None``."""
    node = port.get_node()
    if node.get_type_name() == "Constant":
        return np.asarray(node.get_data())
    if node.get_type_name() in ("Convert", "ConvertLike"):
        value = constant_value(node.input_value(0))
        return None if value is None else value.astype(port.get_element_type().to_dtype())
    return None
