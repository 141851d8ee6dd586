"""Element types and values between the IR's numpy arrays and torch tensors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from dlbricks_core.errors import UnsupportedError
from dlbricks_core.ir import Array, dtype_name, numpy_dtype

_SAME_NAME = ("float16", "float32", "float64", "bfloat16", "int8", "int16", "int32", "int64",
              "uint8", "uint16", "uint32", "uint64", "bool", "complex64", "complex128")  # fmt: skip
_OTHER_NAME = {
    "float8e4m3fn": "float8_e4m3fn",
    "float8e4m3fnuz": "float8_e4m3fnuz",
    "float8e5m2": "float8_e5m2",
    "float8e5m2fnuz": "float8_e5m2fnuz",
    "float8e8m0": "float8_e8m0fnu",
}

#: Torch type of each IR element type that this version of torch has.
TORCH_DTYPES: dict[str, torch.dtype] = {
    name: getattr(torch, spelled)
    for name, spelled in {**{n: n for n in _SAME_NAME}, **_OTHER_NAME}.items()
    if hasattr(torch, spelled)
}
_IR_NAMES = {dtype: name for name, dtype in TORCH_DTYPES.items()}


def torch_dtype(name: str) -> torch.dtype:
    """Torch type of an IR element type.

    Raises:
        UnsupportedError: If torch has none.
    """
    if name not in TORCH_DTYPES:
        raise UnsupportedError(f"torch has no element type {name}")
    return TORCH_DTYPES[name]


def from_numpy(array: Array) -> torch.Tensor:
    """Tensor with a contiguous copy of the values.

    The copy is in torch's memory, which begins on a cache line. Numpy's memory may begin anywhere,
    and every long vector that is read from there may cross two lines.
    """
    return _converted(array, torch.tensor)


def borrowed(array: Array) -> torch.Tensor:
    """Tensor on the array's own memory where torch allows it, only to be read."""
    return _converted(array, torch.from_numpy if array.flags.writeable else torch.tensor)


def _converted(array: Array, convert: Callable[[Array], torch.Tensor]) -> torch.Tensor:
    dtype = torch_dtype(dtype_name(array.dtype))
    # numpy knows bfloat16 and the 8-bit floats only through an extension: pass the bits.
    plain = array if array.dtype.isbuiltin == 1 else array.view(f"u{array.itemsize}")
    tensor = convert(np.asarray(plain, order="C"))
    return tensor if tensor.dtype == dtype else tensor.view(dtype)


def to_numpy(tensor: torch.Tensor) -> Array:
    """Copy of a tensor's values, as an array of the IR's numpy type."""
    tensor = tensor.detach().contiguous()
    numpy_type = numpy_dtype(_IR_NAMES[tensor.dtype])
    if numpy_type.isbuiltin == 1:
        return tensor.numpy().copy()
    bits = {1: torch.uint8, 2: torch.int16}[numpy_type.itemsize]
    return tensor.view(bits).numpy().copy().view(numpy_type)
