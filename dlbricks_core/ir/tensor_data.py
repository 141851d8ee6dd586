"""Serialized tensors: checks of their data, and their values.

All external data that the engine needs are read here, while the model is read. Nothing looks for
files afterwards.
"""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, numpy_helper
from onnx.helper import tensor_dtype_to_field

from dlbricks_core.errors import INVALID_MODEL, Border, ModelError, reason, shown
from dlbricks_core.ir.functions import domain_of, graphs_in
from dlbricks_core.ir.limits import MAX_ATTRIBUTE_BYTES, MAX_CONSTANT_ELEMENTS, check_shape
from dlbricks_core.ir.tensors import DTYPE_NAMES, PACKED_BITS, data_bytes

# Tensor data in files beside a model, read as the onnx checker demands.
#
# A model file names other files. It may only name regular files in its own folder. Other files
# may belong to somebody else, and devices or pipes may never end.

_LFS_POINTER = b"version https://git-lfs"
_SAVE_AGAIN = "Save the model again with its external data in a file beside it."
_COPY = "Copy the file itself into the model's folder, as one that has no other name."


@dataclass(frozen=True, slots=True)
class DataRange:
    """Place of a tensor's data: a range of bytes of a file in the model's folder.

    Attributes:
        location: The file, relative to the folder.
        offset: Position of the first byte.
        length: Number of bytes; ``None`` where it follows from the tensor's type and shape.
    """

    location: str
    offset: int
    length: int | None

    @classmethod
    def of(cls, tensor: TensorProto) -> DataRange:
        """Place that the tensor names.

        Raises:
            ModelError: If that place is outside of the model's folder.
        """
        entries = {entry.key: entry.value for entry in tensor.external_data}
        length = _number(entries, "length") if "length" in entries else None
        location = os.fsdecode(entries.get("location", ""))
        _check_location(location)
        return cls(location, _number(entries, "offset"), length)


def _number(entries: dict[str, str], key: str) -> int:
    text = entries.get(key, "0")
    try:
        number = int(text)
    except ValueError:
        number = -1
    if not 0 <= number < 2**63:
        raise ModelError(f"{key} {shown(str(text))} of its external data is not a number of bytes",
                         hint=_SAVE_AGAIN)  # fmt: skip
    return number


def _check_location(location: str) -> None:
    path = PurePosixPath(os.path.normpath(location)) if location else PurePosixPath()
    if "\0" in location or not path.name:
        raise ModelError(f"its external data lie in {shown(location)}, which is not a file name",
                         hint=_SAVE_AGAIN)  # fmt: skip
    if path.is_absolute() or path.parts[0] == "..":
        raise ModelError(
            f"its external data lie outside of the model's folder, in {shown(location)}",
            hint="A model may only read files of its own folder; copy the data there.",
        )


class ExternalFiles:
    """Files that may contain the data of one model's tensors.

    Args:
        folder: Folder that their names are relative to; ``None`` if the model has no files.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._found = cache(self._find)

    def check(self, tensor: TensorProto) -> None:
        """Checks the place of a tensor's data, without opening a file.

        Raises:
            ModelError: If the model may not read that place.
        """
        self._found(DataRange.of(tensor).location)

    def read(self, tensor: TensorProto) -> bytes | None:
        """A tensor's data; ``None`` if the file is not there.

        Args:
            tensor: A tensor of few elements: all of it is read.

        Raises:
            ModelError: If the model may not read that place, or the data do not fit.
        """
        place = DataRange.of(tensor)
        path = self._found(place.location)
        needed = data_bytes(DTYPE_NAMES[tensor.data_type], math.prod(tensor.dims))
        if place.length not in (None, needed):
            raise ModelError(
                f"its external data have {place.length} bytes, its type and shape say {needed}",
                hint=_SAVE_AGAIN,
            )
        if path is None:
            return None
        with _opened(path, place.location) as descriptor:
            data = os.pread(descriptor, needed, place.offset)
            head = os.pread(descriptor, len(_LFS_POINTER), 0) if len(data) < needed else b""
        if head == _LFS_POINTER:
            raise ModelError(
                f"its external data lie in {shown(place.location)}, which is a Git LFS pointer",
                hint="Fetch the file itself: git lfs pull",
            )
        if len(data) < needed:
            raise ModelError(
                f"its external data end early: {shown(place.location)} holds {len(data)} of "
                f"{needed} bytes",
                hint="Check that the file was copied completely.",
            )
        return data

    def _find(self, location: str) -> Path | None:
        """The regular file of that name; ``None`` if nothing is there."""
        if self._folder is None:
            return None
        try:
            folder = self._folder.resolve()
            wanted = folder / os.path.normpath(location)
            # The file's own name is not followed: a link stays one, to be refused.
            path = wanted.parent.resolve() / wanted.name
            if not path.is_relative_to(folder):
                raise ModelError(
                    f"its external data lie outside of the model's folder, in {shown(location)}",
                    hint="A folder on the way is a link; copy the data into the model's folder.",
                )
            _check_kind(path.lstat(), location)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, RuntimeError) as error:
            raise ModelError(
                f"its external data in {shown(location)} cannot be read: {reason(error)}",
                hint=_SAVE_AGAIN,
            ) from error
        return path


def _check_kind(status: os.stat_result, location: str) -> None:
    kind = "a link" if stat.S_ISLNK(status.st_mode) else "no regular file"
    if status.st_nlink > 1:
        kind = "a file with several names (hard links)"
    elif stat.S_ISREG(status.st_mode):
        return
    raise ModelError(f"its external data lie in {shown(location)}, which is {kind}", hint=_COPY)


@contextmanager
def _opened(path: Path, location: str) -> Iterator[int]:
    """A checked file, open for reading; it is checked again, because it may have changed."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise ModelError(
            f"its external data in {shown(location)} cannot be read: {error.strerror}",
            hint="Check the file's permissions.",
        ) from error
    try:
        _check_kind(os.fstat(descriptor), location)
        yield descriptor
    finally:
        os.close(descriptor)


#: Maximum elements of a tensor whose raw data are counted: counting copies them.
_MAX_COUNTED = 2**24


def is_external(tensor: TensorProto) -> bool:
    """Whether the tensor's data are in another file."""
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
    """Values of a checked tensor that contains its data.

    Raises:
        ModelError: If the data are in another file.
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
