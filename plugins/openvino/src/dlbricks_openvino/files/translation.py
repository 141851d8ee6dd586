"""A graph of OpenVINO as an ONNX graph, and as a model in the IR."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import prod

import numpy as np
import openvino
from onnx import ModelProto, NodeProto, helper, numpy_helper

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
    sizes_of,
)
from dlbricks_openvino.files.loops import branches, loop, tensor_iterator
from dlbricks_openvino.files.merging import with_biases
from dlbricks_openvino.files.reading import name_of_tensor
from dlbricks_openvino.files.rules import RULES

_ENDS = frozenset(("Constant", "Parameter", "Result"))

_UNREAD = SHORT | {"bfloat16", "float8e4m3fn", "float8e5m2"}
"""Types of constants whose values are not read: numpy lacks them."""


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
    _fill(built)
    outputs = [built.names[name_of_tensor(port)] for port in graph.outputs]
    with_biases(built, outputs)
    proto = _proto(built, graph, list(dict.fromkeys(outputs)))
    model = ir.read_model(proto, name=name, source=source)
    inputs = tuple(each for each in model.inputs if each not in built.weights)
    weights = model.weights.union(each for each in model.inputs if each in built.weights)
    return replace(model, inputs=inputs, weights=weights)


def _fill(built: Graph) -> None:
    """Adds the counterparts of all operations of a graph."""
    for node in built.source.get_ordered_ops():
        kind = node.get_type_name()
        if kind not in _ENDS:
            if kind not in _RULES:
                raise refusal(node, "DLBricks has no ONNX layers for it", _HINTS.get(kind, GIVE))
            _add(Operation(node, built), _RULES[kind])
        elif kind == "Constant":
            _constant(node, built)
        elif kind == "Parameter":
            tensor = name_of_tensor(node.output(0))
            built.names.setdefault(tensor, tensor)


_RULES: Mapping[str, Rule] = {
    **RULES,
    **{
        kind: partial(rule, fill=_fill)
        for kind, rule in (("If", branches), ("Loop", loop), ("TensorIterator", tensor_iterator))
    },
}

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
    read = {*_read(built.nodes), *outputs}
    fed = [
        helper.make_tensor_value_info(
            name_of_tensor(port), number_of(dtype_of(port)), sizes_of(port)
        )
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


def _read(nodes: Iterable[NodeProto]) -> Iterator[str]:
    """Tensors that layers read, and those in bodies of loops and branches."""
    for node in nodes:
        yield from node.input
        for each in node.attribute:
            if each.HasField("g"):
                yield from _read(each.g.node)
