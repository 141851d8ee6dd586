"""Leaves the data of large weights out of a serialized model before it is parsed.

The engine never reads these data, which make up most of a model's file. If the file is mapped into
memory, the system does not fetch the pages that contain them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import NamedTuple, Protocol, overload

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import TensorProto

from dlbricks_core.errors import ModelError
from dlbricks_core.ir.limits import MAX_CONSTANT_ELEMENTS, MAX_MESSAGES, SMALL_FILE_BYTES
from dlbricks_core.ir.tensors import DTYPE_NAMES, data_bytes

# Counts the messages in a serialized model before it is parsed.
#
# A message of two bytes takes a hundred bytes when it is parsed, and more as a layer. A file of a
# few megabytes can fill the memory of a machine.

_MESSAGE, _TEXT = 8, 1
"""Approximate memory of a message and of a text, in eighths of a message."""

_MAX_DEPTH = 300

#: Kind of message -> number of each field that holds messages -> their kind. The contents of a
#: message without a kind are not counted.
_FIELDS: Mapping[str, Mapping[int, str]] = {
    "model": {7: "graph", 8: "", 14: "", 20: "training", 25: "function", 26: ""},
    "training": {1: "graph", 2: "graph", 3: "", 4: ""},
    "graph": {1: "node", 5: "tensor", 11: "value", 12: "value", 13: "value", 14: "", 15: "sparse",
              16: ""},
    "function": {7: "node", 9: "", 11: "attribute", 12: "value", 14: ""},
    "node": {5: "attribute", 9: "", 10: ""},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 14: "type", 15: "type",
                  22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {3: "", 13: "", 16: ""},
    "value": {2: "type", 4: ""},
    "type": {1: "tensor type", 4: "element", 5: "map", 8: "tensor type", 9: "element"},
    "element": {1: "type"},
    "map": {2: "type"},
    "tensor type": {2: "shape"},
    "shape": {1: ""},
}  # fmt: skip


def check_messages(raw: bytes) -> None:
    """Counts the messages in a serialized model.

    Args:
        raw: Any bytes; if they are no messages, parsing reports that.

    Raises:
        ModelError: If there are more messages than the limit.
    """
    if len(raw) <= SMALL_FILE_BYTES:
        return
    count = 0
    stack = [(0, len(raw), "model")]
    while stack:
        position, end, kind = stack.pop()
        fields = _FIELDS[kind]
        while position < end:
            tag, after = raw[position], position + 1
            if tag >= 0x80:
                tag, after = _read_number(raw, position, len(raw))
            if tag & 7 != 2:
                # All values of a list that is not packed are skipped at once.
                run = _run(raw[position:after], tag & 7).match(raw, position, end)
                if run is None:
                    return
                position = run.end()
                continue
            length, position = (raw[after], after + 1) if after < end else (0, end)
            if length >= 0x80:
                length, position = _read_number(raw, after, len(raw))
            inside = fields.get(tag >> 3)
            count += _TEXT if inside is None else _MESSAGE
            if count > MAX_MESSAGES * _MESSAGE:
                raise ModelError(
                    f"it holds more than {MAX_MESSAGES} layers, attributes, tensors and the like",
                    hint="No model has so many; the file is damaged, or made to do harm.",
                )
            position += length
            if inside and length and len(stack) < _MAX_DEPTH:
                stack.append((position, end, kind))
                position, end, kind = position - length, min(position, end), inside
                fields = _FIELDS[kind]


@cache
def _run(tag: bytes, wire_type: int) -> re.Pattern[bytes]:
    """Pattern of values of one field that follow each other."""
    value = {0: rb"[\x80-\xff]*+[\x00-\x7f]", 1: rb".{8}", 5: rb".{4}"}.get(wire_type, rb"(?!)")
    return re.compile(rb"(?:" + re.escape(tag) + value + rb")++", re.DOTALL)


_INSIDE = {"model": (7, "graph"), "graph": (5, "tensor")}
"""Kind of message -> number of the field that leads to weights, and the kind of its messages."""

_DATA = (4, 9, 10)
"""Fields of a tensor with values of fixed width: float_data, raw_data and double_data."""

_SHORT = 2048
"""Maximum bytes of a message that stays unchanged. A weight of so few bytes may be a constant."""

_OTHER_WIDTHS = {1: 8, 5: 4}
"""Wire type -> bytes of its values, for the types of fixed width."""


class Bytes(Protocol):
    """A sequence of bytes: a file's content, or the file mapped into memory."""

    def __len__(self) -> int: ...

    @overload
    def __getitem__(self, place: int, /) -> int: ...

    @overload
    def __getitem__(self, place: slice, /) -> bytes: ...


class _Field(NamedTuple):
    """A field with a message, a text or data: its number and its position."""

    number: int
    begin: int
    start: int
    end: int


def without_weights(raw: Bytes) -> bytes:
    """A serialized model without the data of its large weights.

    Data stay if they do not fit the type and shape of their weight. Everything after a damaged
    place stays, too. The reader of the model therefore finds the defect.
    """
    return b"".join(_rewritten(raw, 0, len(raw), "model"))


def large_weights(raw: Bytes) -> Iterator[tuple[str, int, int]]:
    """Element type of each large weight in a serialized model, and where its data begin and end."""
    for graph in _fields(raw, 0, len(raw)):
        if graph.number != _INSIDE["model"][0]:
            continue
        for field in _fields(raw, graph.start, graph.end):
            if field.number != _INSIDE["graph"][0] or field.end - field.start <= _SHORT:
                continue
            if found := _weight(raw, field.start, field.end):
                tensor, data = found
                yield DTYPE_NAMES[tensor.data_type], data.start, data.end


def _rewritten(raw: Bytes, position: int, end: int, kind: str) -> Iterator[bytes]:
    number, inside = _INSIDE[kind]
    kept = position
    for field in _fields(raw, position, end):
        if field.number != number or field.end - field.start <= _SHORT:
            continue
        if inside == "tensor":
            content = _tensor(raw, field.start, field.end)
        else:
            content = b"".join(_rewritten(raw, field.start, field.end, inside))
        yield raw[kept : field.begin] + bytes([number << 3 | 2]) + _number(len(content)) + content
        kept = field.end
    yield raw[kept:end]


def _tensor(raw: Bytes, position: int, end: int) -> bytes:
    """A large weight without its data if the data fit it; otherwise the weight itself."""
    found = _weight(raw, position, end)
    if found is None or math.prod(found[0].dims) <= MAX_CONSTANT_ELEMENTS:
        return raw[position:end]
    return raw[position : found[1].begin] + raw[found[1].end : end]


def _weight(raw: Bytes, position: int, end: int) -> tuple[TensorProto, _Field] | None:
    """A weight without its data, and the data's field, if they fit type and shape."""
    data = [field for field in _fields(raw, position, end) if field.number in _DATA]
    if len(data) != 1:
        return None
    (found,) = data
    tensor = TensorProto()
    try:
        tensor.ParseFromString(raw[position : found.begin] + raw[found.end : end])
    except DecodeError:
        return None
    dtype = DTYPE_NAMES.get(tensor.data_type, "string")
    if dtype == "string" or found.end - found.start != data_bytes(dtype, math.prod(tensor.dims)):
        return None
    return tensor, found


def _fields(raw: Bytes, position: int, end: int) -> Iterator[_Field]:
    """The fields of a message that have a length, up to the first that is damaged."""
    while position < end:
        tag, after = _read_number(raw, position, end)
        wire_type = tag & 7
        if wire_type == 2:
            length, start = _read_number(raw, after, end)
            if start + length > end:
                return
            yield _Field(tag >> 3, position, start, start + length)
            position = start + length
        elif wire_type == 0:
            _, position = _read_number(raw, after, end)
        elif wire_type in _OTHER_WIDTHS:
            position = after + _OTHER_WIDTHS[wire_type]
        else:
            return


def _read_number(raw: Bytes, position: int, end: int) -> tuple[int, int]:
    """The number that begins at a position, and the position after it; past the end if none."""
    number = shift = 0
    while position < end and shift < 70:
        byte = raw[position]
        number |= (byte & 0x7F) << shift
        position += 1
        if byte < 0x80:
            return number, position
        shift += 7
    return 0, end + 1


def _number(number: int) -> bytes:
    """A number as protobuf writes it."""
    written = bytearray()
    while number >= 0x80:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*written, number))
