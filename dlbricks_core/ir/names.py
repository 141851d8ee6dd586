"""Makes names readable that are not valid UTF-8; protobuf hands them out as bytes."""

from __future__ import annotations

from collections.abc import Iterable, MutableSequence
from typing import Any

from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, ValueInfoProto

from dlbricks_core.ir.functions import graphs_in


def text_of(raw: bytes) -> str:
    """Text of any bytes; bytes that are not UTF-8 are written as hexadecimal numbers."""
    return raw.decode("utf-8", "backslashreplace")


def make_readable(proto: ModelProto) -> None:
    """Turns every name in a model into text, in place."""
    for entry in proto.opset_import:
        _mend(entry, "domain")
    _mend_graph(proto.graph)
    for function in proto.functions:
        _mend_function(function)


def _mend(message: Any, *fields: str) -> None:
    for name in fields:
        value = getattr(message, name)
        if isinstance(value, bytes):
            setattr(message, name, text_of(value))


def _mend_all(names: MutableSequence[Any]) -> None:
    for position, name in enumerate(names):
        if isinstance(name, bytes):
            names[position] = text_of(name)


def _mend_function(function: FunctionProto) -> None:
    _mend(function, "name", "domain", "overload")
    for names in (function.input, function.output, function.attribute):
        _mend_all(names)
    for entry in function.opset_import:
        _mend(entry, "domain")
    for attribute in function.attribute_proto:
        _mend(attribute, "name")
    _mend_nodes(function.node)


def _mend_graph(graph: GraphProto) -> None:
    _mend(graph, "name")
    for value in (*graph.input, *graph.output, *graph.value_info):
        _mend_value(value)
    for tensor in graph.initializer:
        _mend(tensor, "name")
    for sparse in graph.sparse_initializer:
        _mend(sparse.values, "name")
    _mend_nodes(graph.node)


def _mend_value(value: ValueInfoProto) -> None:
    _mend(value, "name")
    if value.type.HasField("tensor_type"):
        for dim in value.type.tensor_type.shape.dim:
            if dim.HasField("dim_param"):
                _mend(dim, "dim_param")


def _mend_nodes(nodes: Iterable[NodeProto]) -> None:
    for node in nodes:
        # One look for all of them: nearly every name is text.
        names = (node.name, node.op_type, node.domain, node.overload, *node.input, *node.output)
        if bytes in map(type, names):
            _mend(node, "name", "op_type", "domain", "overload")
            _mend_all(node.input)
            _mend_all(node.output)
        for attribute in node.attribute:
            _mend(attribute, "name", "ref_attr_name")
            for graph in graphs_in(attribute):
                _mend_graph(graph)
