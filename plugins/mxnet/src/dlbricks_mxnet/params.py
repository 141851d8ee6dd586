"""Names, shapes and types in an MXNet parameter file, without reading the values."""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any, BinaryIO

from dlbricks_core.errors import ModelError
from dlbricks_core.importers.formats import check_file
from dlbricks_core.ir import TensorSpec, numpy_dtype
from dlbricks_core.ir.limits import MAX_AXES, check_shape

#: MXNet's numbers for element types.
TYPES = ("float32", "float64", "float16", "uint8", "int32", "int8", "int64", "bool",
         "int16", "uint16", "uint32", "uint64", "bfloat16")  # fmt: skip

MOST_ARRAYS = 1_000_000
_MOST_NAME_BYTES = 10_000
"""Maximum number of arrays of a file, and of bytes of a name."""

_LIST_MAGIC = 0x112
_OF_64_BITS = 0xF993FAC8
"""Marks an array whose sizes are of 64 bits; one without any mark begins with its rank."""
_NUMPY = 0xF993FACA
"""Marks an array of today that may have no axes."""
_WITH_STORAGE = (0xF993FAC9, _NUMPY)
"""Mark an array that says how it is stored: today's."""
#: Index arrays that stand behind the values, by the number of the storage: dense, rows, CSR.
_INDICES = {0: 0, 1: 1, 2: 2}

_HINT = "Fetch it or save it again."


class _DamageError(Exception):
    """Damage of a file, as the rest of a sentence that begins with its name."""


def read_specs(path: Path) -> dict[str, TensorSpec]:
    """The specification of every array in the file, by name.

    Raises:
        ModelError: If the file is damaged or holds no parameters.
    """
    check_file(path, ".params file")
    try:
        with path.open("rb") as file:
            return _Reader(file, path.stat().st_size).specs()
    except (_DamageError, UnicodeDecodeError, OSError) as error:
        raise ModelError(
            f"{path} holds no MXNet parameters, or is truncated: {error}", hint=_HINT
        ) from error


class _Reader:
    """Reads headers and steps over values, never beyond the file's end or back."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self._left = size

    def specs(self) -> dict[str, TensorSpec]:
        """All arrays by name."""
        magic, _, count = self._numbers("QQQ")
        if magic != _LIST_MAGIC:
            raise _DamageError("it begins otherwise")
        if count > MOST_ARRAYS:
            raise _DamageError(f"it has {count} arrays; {MOST_ARRAYS} is the limit")
        specs = [self._array() for _ in range(count)]
        (named,) = self._numbers("Q")
        if count and not named:
            raise _DamageError("its arrays have no names; save them as a dictionary")
        if named != count:
            raise _DamageError(f"it has {count} arrays and {named} names")
        found = dict(zip([self._name() for _ in range(named)], specs, strict=True))
        if len(found) < named:
            raise _DamageError("two of its arrays have the same name")
        return found

    def _array(self) -> TensorSpec:
        (magic,) = self._numbers("I")
        held = None
        indices = 0
        if magic in _WITH_STORAGE:
            (storage,) = self._numbers("i")
            if storage not in _INDICES:
                raise _DamageError(f"an array is stored in the way {storage}, which is unknown")
            indices = _INDICES[storage]
            held = self._shape() if indices else None
            shape = self._shape()
        else:
            shape = self._shape() if magic == _OF_64_BITS else self._sizes(magic, "I")
        if not shape and magic != _NUMPY:
            raise _DamageError("an array has no shape")
        self._numbers("ii")  # the device that it was on
        spec = TensorSpec(self._type(), shape)
        others = [(self._type(), self._shape()) for _ in range(indices)]
        for dtype, sizes in [(spec.dtype, shape if held is None else held), *others]:
            self._skip(math.prod(sizes) * numpy_dtype(dtype).itemsize)
        return spec

    def _shape(self) -> tuple[int, ...]:
        return self._sizes(self._numbers("i")[0], "q")

    def _sizes(self, rank: int, form: str) -> tuple[int, ...]:
        if not 0 <= rank <= MAX_AXES:
            raise _DamageError(f"an array has {rank} axes")
        sizes: tuple[int, ...] = self._numbers(form * rank)
        if any(size < 0 for size in sizes):
            raise _DamageError(f"an array has the shape {'x'.join(map(str, sizes))}")
        try:
            check_shape(sizes)
        except ModelError as error:
            raise _DamageError(error.message) from error
        return sizes

    def _type(self) -> str:
        (number,) = self._numbers("i")
        if not 0 <= number < len(TYPES):
            raise _DamageError(f"an array has the element type {number}, which is unknown")
        return TYPES[number]

    def _name(self) -> str:
        (length,) = self._numbers("Q")
        if length > _MOST_NAME_BYTES:
            raise _DamageError(f"a name has {length} bytes")
        return self._bytes(length).decode()

    def _numbers(self, form: str) -> tuple[Any, ...]:
        return struct.unpack(f"<{form}", self._bytes(struct.calcsize(f"<{form}")))

    def _bytes(self, count: int) -> bytes:
        self._take(count)
        return self._file.read(count)

    def _skip(self, count: int) -> None:
        self._take(count)
        self._file.seek(count, 1)

    def _take(self, count: int) -> None:
        if count > self._left:
            raise _DamageError(f"{count} bytes should follow where {self._left} are left")
        self._left -= count
