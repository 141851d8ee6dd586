"""Serialized tensors: checks of their data, and their values.

All external data that the engine needs are read here, while the model is read. Nothing looks for
files afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, numpy_helper
from onnx.helper import tensor_dtype_to_field

from dlbricks_core.errors import INVALID_MODEL, Border, ModelError, shown
from dlbricks_core.ir.external import ExternalFiles
from dlbricks_core.ir.functions import domain_of, graphs_in
from dlbricks_core.ir.limits import MAX_ATTRIBUTE_BYTES, MAX_CONSTANT_ELEMENTS, check_shape
from dlbricks_core.ir.tensors import DTYPE_NAMES, PACKED_BITS, data_bytes

#: Maximum elements of a tensor whose raw data are counted: counting copies them.
_MAX_COUNTED = 2**24


def is_external(tensor: TensorProto) -> bool:
    """Whether the tensor's data lie in another file."""
    return bool(tensor.data_location == TensorProto.EXTERNAL)


def check_tensor(tensor: TensorProto, *, complete: bool = False) -> None:
    """Checks the type and shape of a tensor, and that its data fit them.

    Args:
        tensor: The tensor as the file has it.
        complete: Whether large data must be complete, too. Values of weights are not read.

    Raises:
        ModelError: If anything does not fit.
    """
    dtype = DTYPE_NAMES.get(tensor.data_type)
    if dtype is None:
        raise ModelError(f"its element type {tensor.data_type} is none that ONNX defines",
                         hint=INVALID_MODEL)  # fmt: skip
    check_shape(tensor.dims)
    elements = math.prod(tensor.dims)
    if is_external(tensor):
        if dtype == "string":
            raise ModelError("its texts lie in an external file, which ONNX does not allow",
                             hint=INVALID_MODEL)  # fmt: skip
        return
    found, needed, unit = _amount(tensor, dtype, elements)
    if found != needed and (found or complete or elements <= MAX_CONSTANT_ELEMENTS):
        shape = "x".join(str(size) for size in tensor.dims)
        raise ModelError(
            f"its data have {found} {unit}, its type and shape {dtype}[{shape}] need {needed}",
            hint=INVALID_MODEL,
        )


def _amount(tensor: TensorProto, dtype: str, elements: int) -> tuple[int, int, str]:
    """Amount of data in a tensor, required amount, and the unit of both."""
    if dtype == "string":
        return len(tensor.string_data), elements, "texts"
    if tensor.HasField("raw_data"):
        needed = data_bytes(dtype, elements)
        return (needed if elements > _MAX_COUNTED else len(tensor.raw_data)), needed, "bytes"
    count = len(getattr(tensor, tensor_dtype_to_field(tensor.data_type)))
    # Where no element lies in two bytes, a number is a packed byte as well; otherwise an element.
    if dtype in PACKED_BITS and 8 % PACKED_BITS[dtype] == 0:
        return count, data_bytes(dtype, elements), "packed bytes"
    return count, elements * (2 if dtype.startswith("complex") else 1), "numbers"


def array_of(tensor: TensorProto) -> np.ndarray[Any, Any]:
    """Values of a tensor that was checked and that holds its data.

    Raises:
        ModelError: If the data lie in another file.
    """
    if is_external(tensor):
        raise ModelError(
            "its values lie in an external file that was not read",
            hint="Name the model's file, so that files beside it are found.",
        )
    if tensor.data_type == TensorProto.STRING:
        texts = [text.decode("utf-8", "backslashreplace") for text in tensor.string_data]
        return np.array(texts, dtype=object).reshape(tuple(tensor.dims))
    return numpy_helper.to_array(tensor)


def read_external_data(proto: ModelProto, folder: Path | None) -> None:
    """Puts small external data into the model, and checks the places of all others.

    Tensors that are small or part of a layer get their data in place. The data of other weights
    stay in their files, which may be missing.

    Args:
        proto: The model with its functions.
        folder: Folder that locations are relative to; ``None`` if there are no files.

    Raises:
        ModelError: If a tensor names a file that the model may not read, or one whose data do
            not fit.
    """
    files = ExternalFiles(folder)
    _read_graph(proto.graph, files)
    for function in proto.functions:
        _read_nodes(function.node, files)
        for attribute in function.attribute_proto:
            _read_attribute(attribute, f"of the function {shown(function.name)}", files)


def _read_graph(graph: GraphProto, files: ExternalFiles) -> None:
    for tensor in graph.initializer:
        if is_external(tensor):
            _read_weight(tensor, "", files)
    for sparse in graph.sparse_initializer:
        for tensor in (sparse.values, sparse.indices):
            _read_weight(tensor, "", files)
    _read_nodes(graph.node, files)


def _read_nodes(nodes: Iterable[NodeProto], files: ExternalFiles) -> None:
    for node in nodes:
        for attribute in node.attribute:
            kind = attribute.type
            if kind in _WITH_TENSORS:
                where = f"of {node.op_type} {shown(node.name or next(iter(node.output), ''))}"
                weight = node.op_type == "Constant" and not domain_of(node.domain)
                _read_attribute(attribute, where, files, weight=weight)
            for graph in graphs_in(attribute):
                _read_graph(graph, files)


_WITH_TENSORS = frozenset(
    {AttributeProto.TENSOR, AttributeProto.TENSORS, AttributeProto.SPARSE_TENSOR,
     AttributeProto.SPARSE_TENSORS}
)  # fmt: skip


def _read_attribute(
    attribute: AttributeProto, where: str, files: ExternalFiles, *, weight: bool = False
) -> None:
    for tensor in _tensors_in(attribute):
        if is_external(tensor):
            read = _read_weight if weight else _read_part
            read(tensor, f" ({attribute.name} {where})", files)


def _tensors_in(attribute: AttributeProto) -> Iterator[TensorProto]:
    if attribute.type == AttributeProto.TENSOR:
        yield attribute.t
    yield from attribute.tensors
    sparse = [attribute.sparse_tensor] if attribute.HasField("sparse_tensor") else []
    for each in (*sparse, *attribute.sparse_tensors):
        yield each.values
        yield each.indices


def _read_weight(tensor: TensorProto, where: str, files: ExternalFiles) -> None:
    """Reads a weight if it has few elements; its file may be missing."""
    if not is_external(tensor):
        return
    with Border(f"tensor {shown(tensor.name)}{where}"):
        check_tensor(tensor)
        files.check(tensor)
        if math.prod(tensor.dims) <= MAX_CONSTANT_ELEMENTS:
            data = files.read(tensor)
            if data is not None:
                _put(tensor, data)


def _read_part(tensor: TensorProto, where: str, files: ExternalFiles) -> None:
    """Reads a tensor in an attribute; its file must be there."""
    with Border(f"tensor {shown(tensor.name)}{where}"):
        check_tensor(tensor)
        files.check(tensor)
        size = data_bytes(DTYPE_NAMES[tensor.data_type], math.prod(tensor.dims))
        if size > MAX_ATTRIBUTE_BYTES:
            raise ModelError(
                f"its external data have {size} bytes, an attribute may have {MAX_ATTRIBUTE_BYTES}",
                hint="Export the model with this tensor as an initializer.",
            )
        data = files.read(tensor)
        if data is None:
            raise ModelError(
                "its external data are not there",
                hint="Copy the file that holds them into the model's folder.",
            )
        _put(tensor, data)


def _put(tensor: TensorProto, data: bytes) -> None:
    tensor.raw_data = data
    tensor.data_location = TensorProto.DEFAULT
    del tensor.external_data[:]
