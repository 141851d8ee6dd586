"""Shapes of results of the most common operators, found without protobuf.

General inference takes a hundred microseconds a layer, which adds up over a thousand models. A
function here returns ``None`` if it is not sure. Tests compare all of them with general inference.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from dlbricks_core.ir import Array, Layer, TensorSpec

Shape = tuple[int, ...]

ShapeRule = Callable[[Layer, Sequence[Shape], Sequence[Array | None]], Shape | None]
"""Shape of the result from ``(canonical layer, input shapes, known input values)``."""


def common_shape(
    layer: Layer, specs: Sequence[TensorSpec], values: Sequence[Array | None]
) -> TensorSpec | None:
    """Specification of the only result; ``None`` if general inference must find it.

    Args:
        layer: In canonical form, with one output and no input left out.
        specs: Static specification of each input.
        values: Value of each input, where it is known.

    Raises:
        ValueError: If the layer does not fit its inputs.
    """
    rule = RULES.get(layer.op)
    if rule is None:
        return None
    dtype = specs[0].dtype
    data = specs if layer.op not in _PARAMETERIZED else specs[:1]
    if any(spec.dtype != dtype for spec in data):
        return None
    shape = rule(layer, [spec.sizes for spec in specs], values)
    return None if shape is None else TensorSpec(dtype, shape)


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


def _same(layer: Layer, shapes: Sequence[Shape], values: Sequence[Array | None]) -> Shape:
    return shapes[0]


def _per_channel(
    layer: Layer, shapes: Sequence[Shape], values: Sequence[Array | None]
) -> Shape | None:
    data, *parameters = shapes
    fits = len(data) > 1 and all(shape == (data[1],) for shape in parameters)
    return data if fits else None


def _elementwise(
    layer: Layer, shapes: Sequence[Shape], values: Sequence[Array | None]
) -> Shape | None:
    return broadcast(shapes)


def _convolution(
    layer: Layer, shapes: Sequence[Shape], values: Sequence[Array | None]
) -> Shape | None:
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


def _pooling(layer: Layer, shapes: Sequence[Shape], values: Sequence[Array | None]) -> Shape | None:
    data = shapes[0]
    if layer.attributes["ceil_mode"]:
        return None
    counts = _windows(layer, data[2:])
    return None if counts is None else (*data[:2], *counts)


def _global_pooling(
    layer: Layer, shapes: Sequence[Shape], values: Sequence[Array | None]
) -> Shape | None:
    data = shapes[0]
    return (*data[:2], *(1 for _ in data[2:])) if len(data) > 2 else None


def _concatenation(
    layer: Layer, shapes: Sequence[Shape], values: Sequence[Array | None]
) -> Shape | None:
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


def _matrix_product(
    layer: Layer, shapes: Sequence[Shape], values: Sequence[Array | None]
) -> Shape | None:
    a, b = shapes
    if len(a) < 2 or len(b) < 2 or a[-1] != b[-2]:
        return None
    leading = broadcast([a[:-2], b[:-2]])
    return None if leading is None else (*leading, a[-2], b[-1])


def _gemm(layer: Layer, shapes: Sequence[Shape], values: Sequence[Array | None]) -> Shape | None:
    a, b = shapes[:2]
    if len(a) != 2 or len(b) != 2:
        return None
    a = a[::-1] if layer.attributes["transA"] else a
    b = b[::-1] if layer.attributes["transB"] else b
    result = (a[0], b[1])
    fits = a[1] == b[0] and all(broadcast([result, shape]) == result for shape in shapes[2:])
    return result if fits else None


def _transposition(
    layer: Layer, shapes: Sequence[Shape], values: Sequence[Array | None]
) -> Shape | None:
    perm = _integers(layer, "perm")
    if sorted(perm) != list(range(len(shapes[0]))):
        return None
    return tuple(shapes[0][axis] for axis in perm)


def _reshaping(
    layer: Layer, shapes: Sequence[Shape], values: Sequence[Array | None]
) -> Shape | None:
    target = values[1]
    if target is None:
        return None
    shape = tuple(target.tolist())
    return shape if math.prod(shape) == math.prod(shapes[0]) else None


def _flattening(
    layer: Layer, shapes: Sequence[Shape], values: Sequence[Array | None]
) -> Shape | None:
    axis = layer.attributes["axis"]
    assert isinstance(axis, int)
    return (math.prod(shapes[0][:axis]), math.prod(shapes[0][axis:]))


_PARAMETERIZED = frozenset({"Clip", "Pow", "Reshape"})

_SAME = [
    "Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Celu", "Clip", "Cos",
    "Cosh", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish", "Hardmax", "LRN",
    "LeakyRelu", "Log", "LogSoftmax", "LpNormalization", "MeanVarianceNormalization", "Mish",
    "Neg", "Reciprocal", "Relu", "Round", "Selu", "Sigmoid", "Sign", "Sin", "Sinh", "Softmax",
    "Softplus", "Softsign", "Sqrt", "Tan", "Tanh", "ThresholdedRelu",
]  # fmt: skip

RULES: Mapping[str, ShapeRule] = {
    **dict.fromkeys(_SAME, _same),
    **dict.fromkeys(("Add", "Div", "Max", "Mean", "Min", "Mul", "Sub", "Sum"), _elementwise),
    **dict.fromkeys(("BatchNormalization", "GroupNormalization", "InstanceNormalization"),
                    _per_channel),
    **dict.fromkeys(("AveragePool", "LpPool", "MaxPool"), _pooling),
    **dict.fromkeys(("GlobalAveragePool", "GlobalMaxPool"), _global_pooling),
    "Concat": _concatenation,
    "Conv": _convolution,
    "Flatten": _flattening,
    "Gemm": _gemm,
    "MatMul": _matrix_product,
    "Reshape": _reshaping,
    "Transpose": _transposition,
}  # fmt: skip
