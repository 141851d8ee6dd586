"""Weights in the file that a model came from: their values, and a quick look at them."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from dlbricks_core.errors import ModelError
from dlbricks_core.ir.lean import large_weights
from dlbricks_core.ir.model import Array, CanonicalModel
from dlbricks_core.ir.tensor_data import ExternalFiles, array_of, is_external
from dlbricks_core.ir.tensors import DTYPE_NAMES, TensorSpec

_SUFFIX = ".onnx"

_PLACES, _TOGETHER = 16, 1024
"""Number of inspected places of a weight, and of elements at each place: some pages of the file."""

_MOST_READ = 1 << 30
"""Bytes of a weight in a file beside the model that are read at once; a larger one is drawn."""

_FLOATS = {"float32": np.uint32, "float64": np.uint64}
"""Types of floats whose denormal numbers are slow, with integers of their size.

Denormal numbers of float16 are not slow. Most processors compute in float32, where they are usual
numbers, and processors that compute in float16 need no longer for them. One in 400 weights of a
usual network in float16 is denormal.
"""


def own_weights(model: CanonicalModel) -> dict[str, Array]:
    """Values of weights that are in the model's file in the form in which the model reads them.

    Weights that normalization or a conversion made are left out, and so are weights in other kinds
    of files.

    Raises:
        ModelError: If the data of a weight are in a place that the model may not read.
    """
    path = Path(model.source)
    if path.suffix != _SUFFIX or not path.is_file():
        return {}
    try:
        proto = onnx.load(path, load_external_data=False)
    except (DecodeError, OSError):  # it was another file when the model was imported
        return {}
    files, found = ExternalFiles(path.parent), {}
    for tensor in proto.graph.initializer:
        spec = TensorSpec(DTYPE_NAMES.get(tensor.data_type, "undefined"), tuple(tensor.dims))
        if tensor.name not in model.weights or spec != model.tensors[tensor.name]:
            continue
        name, whole = tensor.name, tensor
        if is_external(tensor):
            data = files.read(tensor) if spec.nbytes <= _MOST_READ else None
            if data is None:
                continue
            whole = onnx.TensorProto(data_type=tensor.data_type, dims=tensor.dims, raw_data=data)
        found[name] = np.ascontiguousarray(array_of(whole))
    return found


def denormal_share(source: str) -> float:
    """Share of denormal numbers among some elements of each large weight in a file.

    Data in files beside it are not inspected.

    Args:
        source: Source of a model; 0 for anything but a file.
    """
    path = Path(source)
    if path.suffix != _SUFFIX or not path.is_file():
        return 0.0
    seen = denormal = 0
    try:
        for part in _parts(path):
            denormal += _denormal(part)
            seen += part.size
    except (OSError, ValueError, ModelError):
        return 0.0
    return denormal / seen if seen else 0.0


def _parts(path: Path) -> Iterator[Array]:
    """Some elements of each large weight of floats."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        for dtype, begin, end in large_weights(content):
            if dtype not in _FLOATS:
                continue
            size = np.dtype(dtype).itemsize
            count = (end - begin) // size
            starts = range(0, count, max(count // _PLACES, _TOGETHER))
            spans = ((begin + at * size, begin + (at + _TOGETHER) * size) for at in starts)
            some = (content[first : min(last, end)] for first, last in spans)
            yield np.frombuffer(b"".join(some), dtype)


def _denormal(values: Array) -> int:
    """Number of denormal numbers: no bit in the exponent, at least one in the fraction."""
    bits = values.view(_FLOATS[values.dtype.name])
    one = bits.dtype.type(1)
    # Without the sign, they are 1 to the least normal number; subtracting 1 wraps a zero around.
    fraction = np.finfo(values.dtype).nmant
    return np.count_nonzero((bits << one) - one < (one << bits.dtype.type(fraction + 1)) - one)
