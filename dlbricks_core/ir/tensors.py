"""Element types and tensor specifications."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

Dim = int | str | None
"""A size, the name of a dynamic dimension, or ``None`` if unknown."""

_DTYPES = (
    "float32 uint8 int8 uint16 int16 int32 int64 string bool float16 float64 uint32 uint64 "
    "complex64 complex128 bfloat16 float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz uint4 "
    "int4 float4e2m1 float8e8m0 uint2 int2 float6e2m3 float6e3m2"
)
"""Element types in the order of their numbers in ONNX, whose package is slow to import."""

#: ONNX element type number -> the lower-case name that the IR uses ("float32").
DTYPE_NAMES: dict[int, str] = dict(enumerate(_DTYPES.split(), 1))
#: The inverse of ``DTYPE_NAMES``.
DTYPE_NUMBERS: dict[str, int] = {name: number for number, name in DTYPE_NAMES.items()}

# Types that numpy itself lacks live in ml_dtypes, sometimes under another spelling.
ML_DTYPES = {"float8e4m3fn": "float8_e4m3fn", "float8e4m3fnuz": "float8_e4m3fnuz",
              "float8e5m2": "float8_e5m2", "float8e5m2fnuz": "float8_e5m2fnuz",
              "float8e8m0": "float8_e8m0fnu", "float4e2m1": "float4_e2m1fn",
              "float6e2m3": "float6_e2m3fn", "float6e3m2": "float6_e3m2fn",
              "bfloat16": "bfloat16", "int4": "int4", "uint4": "uint4",
              "int2": "int2", "uint2": "uint2"}  # fmt: skip


CACHE_LINE = 64
"""Bytes of a cache line; the longest vector of a processor is as long."""


def aligned_empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """An uninitialized array that begins on a cache line, as the memory of frameworks does.

    Arrays of numpy may begin anywhere. Every long vector read from such an array may cross two
    cache lines.
    """
    nbytes = math.prod(shape) * dtype.itemsize
    memory = np.empty(nbytes + CACHE_LINE, np.uint8)
    start = -memory.ctypes.data % CACHE_LINE
    return memory[start : start + nbytes].view(dtype).reshape(shape)


def is_aligned(array: np.ndarray[Any, Any]) -> bool:
    """Whether the array is contiguous and begins on a cache line."""
    return bool(array.flags.c_contiguous) and array.ctypes.data % CACHE_LINE == 0


def numpy_dtype(name: str) -> np.dtype[Any]:
    """The numpy type for elements of the IR type ``name``."""
    if name == "string":
        return np.dtype(object)
    if name in ML_DTYPES:
        import ml_dtypes  # a thirtieth of a short command, which few models need

        return np.dtype(getattr(ml_dtypes, ML_DTYPES[name]))
    return np.dtype(name)


@cache
def dtype_name(dtype: np.dtype[Any]) -> str:
    """The IR name of a numpy type; the inverse of :func:`numpy_dtype`."""
    if dtype.kind in "OUS":
        return "string"
    for name, spelled in ML_DTYPES.items():
        if dtype.name == spelled:
            return name
    return dtype.name


#: ONNX packs several elements of these types into a byte, numpy does not.
PACKED_BITS = {"int4": 4, "uint4": 4, "int2": 2, "uint2": 2, "float4e2m1": 4,
               "float6e2m3": 6, "float6e3m2": 6}  # fmt: skip


def data_bytes(dtype: str, elements: int) -> int:
    """Bytes that elements of an IR type take in an ONNX file; for every type but text."""
    bits = PACKED_BITS.get(dtype) or 8 * numpy_dtype(dtype).itemsize
    return -(-elements * bits // 8)


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """Element type and shape of one tensor; no values.

    Attributes:
        dtype: ONNX element type in lower case, ``"float32"`` for ``FLOAT``;
            ``"undefined"`` where it is unknown.
        shape: One entry per axis, or ``None`` where not even the rank is known.
        layout: Name of the memory layout in which a backend passes the tensor on, if the cost of
            its readers depends on the layout. Signatures include it, so that two bricks differ if
            their inputs have different layouts. Empty in canonical form.
    """

    dtype: str
    shape: tuple[Dim, ...] | None
    layout: str = ""

    @property
    def is_static(self) -> bool:
        """Whether the type and every size are known."""
        if self.shape is None or self.dtype == "undefined":
            return False
        for dim in self.shape:  # noqa: SIM110 - asked all the time; a generator doubles its cost
            if not isinstance(dim, int):
                return False
        return True

    @property
    def sizes(self) -> tuple[int, ...]:
        """The shape of a static tensor.

        Raises:
            ValueError: If a size is unknown.
        """
        if not self.is_static or self.shape is None:
            raise ValueError(f"tensor {self} has no static shape")
        return self.shape  # type: ignore[return-value]

    @property
    def rank(self) -> int:
        """Number of axes of a static tensor."""
        return len(self.sizes)

    @property
    def elements(self) -> int:
        """Number of elements of a static tensor."""
        return math.prod(self.sizes)

    @property
    def nbytes(self) -> int:
        """Size in bytes of a static tensor, with elements of few bits packed as in files."""
        return data_bytes(self.dtype, self.elements)

    def __str__(self) -> str:
        dims = (
            "?"
            if self.shape is None
            else "x".join("?" if d is None else str(d) for d in self.shape)
        )
        return f"{self.dtype}[{dims}]{self.layout}"
