"""A graph of OpenVINO as an ONNX graph, and as a model in the IR."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np
import openvino
from onnx import ModelProto, helper, numpy_helper

from dlbricks_core import ir
from dlbricks_core.ir import RawModel
from dlbricks_core.ir.limits import MAX_CONSTANT_ELEMENTS
from dlbricks_core.ir.onnx_writer import NEWEST_OPSET
from dlbricks_openvino.files.building import (
    GIVE,
    SHORT,
    TYPES,
    Graph,
    Operation,
    Rule,
    dtype_of,
    number_of,
    refusal,
)
from dlbricks_openvino.files.merging import with_biases
from dlbricks_openvino.files.reading import name_of_tensor
from dlbricks_openvino.files.rules import RULES

_ENDS = frozenset(("Constant", "Parameter", "Result"))

_UNREAD = SHORT | {"bfloat16", "float8e4m3fn", "float8e5m2"}
"""Types of constants whose values are not read: numpy lacks them."""

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


@dataclass
class Graph:
    """An ONNX graph under construction.

    Attributes:
        source: OpenVINO's graph, with a name for each tensor.
        nodes: Its nodes so far.
        values: Small constants by name.
        weights: Element type and shape of large constants by name; their values are not read.
        names: Name in ONNX of each tensor of OpenVINO, by OpenVINO's name.
    """

    source: openvino.Model
    nodes: list[NodeProto] = field(default_factory=list)
    values: dict[str, TensorProto] = field(default_factory=dict)
    weights: dict[str, tuple[str, tuple[int, ...]]] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=count)

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
        return f"{stem}/{next(self._numbers)}"

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


def translated(graph: openvino.Model, *, name: str, source: str = "") -> RawModel:
    """The graph of a file in the IR.

    Args:
        graph: With a name for each tensor.
        name: Name of the model.
        source: Source of the model.

    Raises:
        ModelError: If ONNX has no counterpart of an operation.
    """
    built = Graph(graph)
    for node in graph.get_ordered_ops():
        kind = node.get_type_name()
        if kind not in _ENDS:
            if kind not in RULES:
                raise refusal(node, "it has no counterpart in ONNX", _HINTS.get(kind, GIVE))
            _add(Operation(node, built), RULES[kind])
        elif kind == "Constant":
            _constant(node, built)
        elif kind == "Parameter":
            tensor = name_of_tensor(node.output(0))
            built.names[tensor] = tensor
    outputs = [built.names[name_of_tensor(port)] for port in graph.outputs]
    with_biases(built, outputs)
    proto = _proto(built, graph, list(dict.fromkeys(outputs)))
    model = ir.read_model(proto, name=name, source=source)
    inputs = tuple(each for each in model.inputs if each not in built.weights)
    weights = model.weights.union(each for each in model.inputs if each in built.weights)
    return replace(model, inputs=inputs, weights=weights)


_STATE = "Give a model without a state, such as llm:PATH/config.json for a language model."
_HINTS = {"ReadValue": _STATE, "Assign": _STATE}


def _add(operation: Operation, rule: Rule) -> None:
    """Adds the counterparts of an operation; results get the names that OpenVINO has for them."""
    graph, before = operation.graph, len(operation.graph.nodes)
    found = rule(operation)
    results = [found] if isinstance(found, str) else found
    own = graph.nodes[before:]
    made = {name for node in own for name in node.output}
    renamed = {}
    for port, name in zip(operation.node.outputs(), results, strict=False):
        tensor = name_of_tensor(port)
        graph.names[tensor] = tensor
        if name in made and name not in renamed:
            renamed[name] = tensor
        elif name in graph.values or name in graph.weights:
            graph.names[tensor] = name
        else:
            passed = renamed.get(name, name)
            graph.nodes.append(helper.make_node("Identity", [passed], [tensor], tensor))
    for node in own:
        for names in (node.input, node.output):
            names[:] = [renamed.get(name, name) for name in names]


def _constant(node: openvino.Node, graph: Graph) -> None:
    """Adds a constant, without its values if it is large or has four bits."""
    port = node.output(0)
    name, shape = name_of_tensor(port), tuple(port.get_shape())
    graph.names[name] = name
    dtype = TYPES.get(port.get_element_type().get_type_name())
    if dtype is None:
        return  # who reads it is refused
    if prod(shape) <= MAX_CONSTANT_ELEMENTS and dtype not in _UNREAD:
        graph.values[name] = numpy_helper.from_array(np.asarray(node.get_data(), order="C"), name)
    else:
        graph.weight(name, dtype, shape)


def _proto(built: Graph, graph: openvino.Model, outputs: Sequence[str]) -> ModelProto:
    read = {name for node in built.nodes for name in node.input} | set(outputs)
    fed = [
        helper.make_tensor_value_info(name_of_tensor(port), number_of(dtype_of(port)), _sizes(port))
        for port in graph.inputs
    ]
    weights = [
        helper.make_tensor_value_info(name, number_of(dtype), shape)
        for name, (dtype, shape) in built.weights.items()
        if name in read
    ]
    results = {built.names[name_of_tensor(port)]: port for port in graph.outputs}
    given = [
        helper.make_tensor_value_info(name, number_of(dtype_of(results[name])), None)
        for name in outputs
    ]
    values = [value for name, value in built.values.items() if name in read]
    opsets = [helper.make_opsetid("", NEWEST_OPSET), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(
        helper.make_graph(built.nodes, "openvino", [*fed, *weights], given, values),
        opset_imports=opsets,
    )


def _sizes(port: openvino.Output) -> list[int | None] | None:
    shape = port.get_partial_shape()
    if shape.rank.is_dynamic:
        return None
    return [None if each.is_dynamic else each.get_length() for each in shape]
