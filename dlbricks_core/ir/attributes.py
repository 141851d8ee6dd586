"""ONNX attributes to IR attribute values and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from onnx import AttributeProto, NodeProto, TensorProto, helper, numpy_helper

from dlbricks_core.errors import INVALID_MODEL, Border, ModelError, shown
from dlbricks_core.ir.model import Attribute, Subgraph, TensorValue
from dlbricks_core.ir.tensor_data import array_of, check_tensor
from dlbricks_core.ir.tensors import DTYPE_NAMES, DTYPE_NUMBERS, PACKED_BITS, dtype_name

_READERS: dict[int, Callable[[AttributeProto], Attribute]] = {
    AttributeProto.INT: lambda a: int(a.i),
    AttributeProto.FLOAT: lambda a: float(a.f),
    AttributeProto.STRING: lambda a: _text(a.s),
    AttributeProto.INTS: lambda a: tuple(a.ints),
    AttributeProto.FLOATS: lambda a: tuple(a.floats),
    AttributeProto.STRINGS: lambda a: tuple(_text(s) for s in a.strings),
    AttributeProto.TENSOR: lambda a: _tensor(a.t),
    AttributeProto.TENSORS: lambda a: tuple(_tensor(t) for t in a.tensors),
    AttributeProto.GRAPH: lambda a: Subgraph(a.g.SerializeToString()),
    AttributeProto.GRAPHS: lambda a: tuple(Subgraph(g.SerializeToString()) for g in a.graphs),
    AttributeProto.SPARSE_TENSOR: lambda a: a.sparse_tensor.SerializeToString(),
    AttributeProto.TYPE_PROTO: lambda a: a.tp.SerializeToString(),
}


def read_attributes(node: NodeProto) -> dict[str, Attribute]:
    """The node's attributes by name.

    Raises:
        ModelError: If an attribute has a type that ONNX does not define.
    """
    values = {}
    for attribute in node.attribute:
        reader = _READERS.get(attribute.type)
        if reader is None:
            raise ModelError(
                f"attribute {shown(attribute.name)} has no valid type",
                hint=INVALID_MODEL,
            )
        with Border("attribute", attribute.name):
            values[attribute.name] = reader(attribute)
    return values


def has_subgraphs(attributes: Mapping[str, Attribute]) -> bool:
    """Whether one of the values is a graph or a list of graphs."""
    return any(
        isinstance(value[0] if value and isinstance(value, tuple) else value, Subgraph)
        for value in attributes.values()
    )


def write_attributes(attributes: Mapping[str, Attribute]) -> list[AttributeProto]:
    """ONNX attributes in the order of their names."""
    return [_write(name, attributes[name]) for name in sorted(attributes)]


def _write(name: str, value: Attribute) -> AttributeProto:
    if isinstance(value, TensorValue):
        return helper.make_attribute(name, tensor_proto(value))
    if isinstance(value, Subgraph):
        proto = AttributeProto(name=name, type=AttributeProto.GRAPH)
        proto.g.ParseFromString(value.proto)
        return proto
    if isinstance(value, tuple):
        # make_attribute cannot derive an empty list's type; integers are the only such lists in
        # use.
        kind = AttributeProto.INTS if not value else None
        return helper.make_attribute(name, list(value), attr_type=kind)
    return helper.make_attribute(name, value)


def tensor_proto(value: TensorValue) -> TensorProto:
    """The tensor as ONNX writes it in an attribute."""
    if value.dtype == "string":
        texts = TensorProto.FromString(value.data).string_data
        return TensorProto(data_type=TensorProto.STRING, dims=value.shape, string_data=texts)
    return TensorProto(data_type=DTYPE_NUMBERS[value.dtype], dims=value.shape, raw_data=value.data)


def tensor_value(array: np.ndarray[Any, Any]) -> TensorValue:
    """The elements of a tensor as an attribute value; the inverse of :func:`tensor_array`."""
    dtype = dtype_name(array.dtype)
    if dtype == "string":
        texts = [each if isinstance(each, bytes) else str(each).encode() for each in array.flat]
        return TensorValue(dtype, array.shape, _texts(texts))
    if dtype in PACKED_BITS:
        return TensorValue(dtype, array.shape, numpy_helper.from_array(array).raw_data)
    return TensorValue(dtype, array.shape, array.tobytes())


def tensor_array(value: TensorValue) -> np.ndarray[Any, Any]:
    """The tensor's elements."""
    return numpy_helper.to_array(tensor_proto(value))


def _tensor(proto: TensorProto) -> TensorValue:
    check_tensor(proto, complete=True)
    dtype = DTYPE_NAMES[proto.data_type]
    if dtype == "string":
        data = _texts(proto.string_data)
    elif proto.HasField("raw_data"):
        data = proto.raw_data
    else:
        data = numpy_helper.from_array(array_of(proto)).raw_data
    return TensorValue(dtype, tuple(proto.dims), data)


def _texts(items: Iterable[bytes]) -> bytes:
    """Several texts as one value; a text may contain any byte."""
    return TensorProto(string_data=items).SerializeToString()  # type: ignore[no-any-return]


def _text(raw: bytes) -> str | bytes:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw
