"""Names, shapes and types in an MXNet parameter file, without reading the values."""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from dlbricks_core.errors import ModelError
from dlbricks_core.ir import TensorSpec, dtype_name, numpy_dtype
from dlbricks_mxnet.framework import import_mxnet

#: MXNet's numbers for element types.
TYPES = ("float32", "float64", "float16", "uint8", "int32", "int8", "int64", "bool",
         "int16", "uint16", "uint32", "uint64", "bfloat16")  # fmt: skip

_LIST_MAGIC = 0x112
_ARRAY_MAGIC = (0xF993FAC9, 0xF993FACA)
_DENSE = 0


class _UnknownFormatError(Exception):
    """The file is not of the common kind, which MXNet 1.0 and later write."""


def read_specs(path: Path) -> dict[str, TensorSpec]:
    """The specification of every array in the file, by name.

    Raises:
        ModelError: If the file is damaged or holds no parameters.
    """
    try:
        with path.open("rb") as file:
            return _read_headers(file, path.stat().st_size)
    except (_UnknownFormatError, struct.error):
        return _read_all(path)
    except OSError as error:
        raise ModelError(
            f"{path} cannot be read: {error.strerror}", hint="Check its permissions."
        ) from error


def _read_headers(file: BinaryIO, size: int) -> dict[str, TensorSpec]:
    def number(form: str) -> Any:
        return struct.unpack(f"<{form}", file.read(struct.calcsize(form)))[0]

    magic, _, count = number("Q"), number("Q"), number("Q")
    if magic != _LIST_MAGIC:
        raise _UnknownFormatError
    specs = []
    for _ in range(count):
        if number("I") not in _ARRAY_MAGIC or number("i") != _DENSE:
            raise _UnknownFormatError
        shape = tuple(number("q") for _ in range(number("i")))
        if not shape:
            raise _UnknownFormatError
        number("Q")  # the device that it was on
        spec = TensorSpec(TYPES[number("i")], shape)
        file.seek(math.prod(shape) * numpy_dtype(spec.dtype).itemsize, 1)
        specs.append(spec)
    if file.tell() > size:
        raise _UnknownFormatError
    names = [file.read(number("Q")).decode() for _ in range(number("Q"))]
    if len(names) != len(specs):
        raise _UnknownFormatError
    return dict(zip(names, specs, strict=True))


def _read_all(path: Path) -> dict[str, TensorSpec]:
    """Whatever else MXNet can read, or its refusal."""
    mx = import_mxnet()
    try:
        arrays = mx.nd.load(str(path))
    except (mx.MXNetError, ValueError) as error:
        raise ModelError(
            f"{path} holds no MXNet parameters, or is truncated",
            hint="Fetch it or save it again.",
        ) from error
    if not isinstance(arrays, dict):
        raise ModelError(f"the arrays in {path} have no names", hint="Save them as a dictionary.")
    return {
        name: TensorSpec(dtype_name(np.dtype(array.dtype)), tuple(array.shape))
        for name, array in arrays.items()
    }
