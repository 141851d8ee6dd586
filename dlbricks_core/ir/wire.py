"""Counts the messages in a serialized model before it is parsed.

A message of two bytes takes a hundred bytes when it is parsed, and more as a layer. A file of a
few megabytes can fill the memory of a machine.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from dlbricks_core.errors import ModelError
from dlbricks_core.ir.limits import MAX_MESSAGES, SMALL_FILE_BYTES

_MESSAGE, _TEXT = 8, 1
"""Weights of a message and of a text: about the memory that each takes, in eighths of a message."""

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
                tag, after = _number(raw, position)
            if tag & 7 != 2:
                # All values of a list that is not packed are skipped at once.
                run = _run(raw[position:after], tag & 7).match(raw, position, end)
                if run is None:
                    return
                position = run.end()
                continue
            length, position = (raw[after], after + 1) if after < end else (0, end)
            if length >= 0x80:
                length, position = _number(raw, after)
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


def _number(raw: bytes, position: int) -> tuple[int, int]:
    """The number that begins at a position, and the position after it."""
    number = 0
    for place, byte in enumerate(raw[position : position + 10]):
        number |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return number, position + place + 1
    return 0, len(raw)


@cache
def _run(tag: bytes, wire_type: int) -> re.Pattern[bytes]:
    """Pattern of values of one field that follow each other."""
    value = {0: rb"[\x80-\xff]*+[\x00-\x7f]", 1: rb".{8}", 5: rb".{4}"}.get(wire_type, rb"(?!)")
    return re.compile(rb"(?:" + re.escape(tag) + value + rb")++", re.DOTALL)
