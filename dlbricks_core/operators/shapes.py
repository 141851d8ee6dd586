"""Shapes of results of the most common operators, found without protobuf.

General inference takes a hundred microseconds a layer, which adds up over a thousand models. A
function here returns ``None`` if it is not sure. Tests compare all of them with general inference.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from dlbricks_core.ir import Array, Layer

Shape = tuple[int, ...]
Shapes = Sequence[Shape]
Values = Sequence[Array | None]

ShapeRule = Callable[[Layer, Shapes, Values], Shape | None]
"""Shape of the result from ``(canonical layer, input shapes, known input values)``."""


def broadcast(shapes: Sequence[Shape]) -> Shape | None:
    """Shape that all shapes broadcast to; ``None`` if they do not."""
    first = shapes[0]
    if all(shape == first for shape in shapes):
        return first
    rank = max(map(len, shapes))
    result = []
    for sizes in zip(*((1,) * (rank - len(shape)) + shape for shape in shapes), strict=True):
        wanted = {size for size in sizes if size != 1}
        if len(wanted) > 1:
            return None
        result.append(wanted.pop() if wanted else 1)
    return tuple(result)


def _integers(layer: Layer, name: str) -> Shape:
    value = layer.attributes[name]
    assert isinstance(value, tuple)
    return value


def _windows(layer: Layer, sizes: Shape) -> Shape | None:
    """Number of window positions along each axis."""
    kernel, pads = _integers(layer, "kernel_shape"), _integers(layer, "pads")
    strides, dilations = _integers(layer, "strides"), _integers(layer, "dilations")
    axes = len(kernel)
    if len(sizes) != axes:
        return None
    counts = tuple(
        (sizes[i] + pads[i] + pads[i + axes] - (kernel[i] - 1) * dilations[i] - 1) // strides[i] + 1
        for i in range(axes)
    )
    return counts if all(count > 0 for count in counts) else None


def same(layer: Layer, shapes: Shapes, values: Values) -> Shape:
    """Shape of the only data."""
    return shapes[0]


def per_channel(layer: Layer, shapes: Shapes, values: Values) -> Shape | None:
    """Shape of data with one parameter of each sort for each channel."""
    data, *parameters = shapes
    fits = len(data) > 1 and all(shape == (data[1],) for shape in parameters)
    return data if fits else None


def elementwise(layer: Layer, shapes: Shapes, values: Values) -> Shape | None:
    """Shape that all operands broadcast to."""
    return broadcast(shapes)


def convolution(layer: Layer, shapes: Shapes, values: Values) -> Shape | None:
    """Shape of a convolution."""
    data, weight = shapes[:2]
    group = layer.attributes["group"]
    assert isinstance(group, int)
    if len(weight) != len(data) or weight[0] % group:
        return None
    if data[1] != weight[1] * group:  # general inference does not look
        raise ValueError(f"{data[1]} channels, where its weight is for {weight[1] * group}")
    if any(shape != weight[:1] for shape in shapes[2:]):
        return None
    if weight[2:] != layer.attributes["kernel_shape"]:
        return None
    counts = _windows(layer, data[2:])
    return None if counts is None else (data[0], weight[0], *counts)


def pooling(layer: Layer, shapes: Shapes, values: Values) -> Shape | None:
    """Shape of a pool, unless its sizes are rounded up."""
    data = shapes[0]
    if layer.attributes["ceil_mode"]:
        return None
    counts = _windows(layer, data[2:])
    return None if counts is None else (*data[:2], *counts)


def global_pooling(layer: Layer, shapes: Shapes, values: Values) -> Shape | None:
    """Shape with every spatial axis reduced to one element."""
    data = shapes[0]
    return (*data[:2], *(1 for _ in data[2:])) if len(data) > 2 else None


def concatenation(layer: Layer, shapes: Shapes, values: Values) -> Shape | None:
    """Shape of operands side by side along an axis."""
    axis = layer.attributes["axis"]
    assert isinstance(axis, int)
    first = shapes[0]
    if any(
        len(shape) != len(first)
        or shape[:axis] != first[:axis]
        or shape[axis + 1 :] != first[axis + 1 :]
        for shape in shapes
    ):
        return None
    return (*first[:axis], sum(shape[axis] for shape in shapes), *first[axis + 1 :])


def matrix_product(layer: Layer, shapes: Shapes, values: Values) -> Shape | None:
    """Shape of a batched product of matrices."""
    a, b = shapes
    if len(a) < 2 or len(b) < 2 or a[-1] != b[-2]:
        return None
    leading = broadcast([a[:-2], b[:-2]])
    return None if leading is None else (*leading, a[-2], b[-1])


def gemm(layer: Layer, shapes: Shapes, values: Values) -> Shape | None:
    """Shape of a product of two matrices, maybe transposed."""
    a, b = shapes[:2]
    if len(a) != 2 or len(b) != 2:
        return None
    a = a[::-1] if layer.attributes["transA"] else a
    b = b[::-1] if layer.attributes["transB"] else b
    result = (a[0], b[1])
    fits = a[1] == b[0] and all(broadcast([result, shape]) == result for shape in shapes[2:])
    return result if fits else None


def transposition(layer: Layer, shapes: Shapes, values: Values) -> Shape | None:
    """Shape with its axes in another order."""
    perm = _integers(layer, "perm")
    if sorted(perm) != list(range(len(shapes[0]))):
        return None
    return tuple(shapes[0][axis] for axis in perm)


def reshaping(layer: Layer, shapes: Shapes, values: Values) -> Shape | None:
    """Shape that the second input holds."""
    target = values[1]
    if target is None:
        return None
    shape = tuple(target.tolist())
    return shape if math.prod(shape) == math.prod(shapes[0]) else None


def flattening(layer: Layer, shapes: Shapes, values: Values) -> Shape | None:
    """Shape of a matrix, with all axes before one axis as its rows."""
    axis = layer.attributes["axis"]
    assert isinstance(axis, int)
    return (math.prod(shapes[0][:axis]), math.prod(shapes[0][axis:]))
