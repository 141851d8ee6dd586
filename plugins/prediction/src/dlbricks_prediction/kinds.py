"""Kinds of layers: layers of one kind are computed alike, so one predicts another."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence, Set
from functools import cache
from weakref import WeakKeyDictionary

from dlbricks_core.ir import CanonicalModel, Layer
from dlbricks_core.operators.operator import Lacks
from dlbricks_core.operators.table import plain, standing_for
from dlbricks_prediction.layers import codes_of, integer, shapes_of, text, weight_of
from dlbricks_prediction.patterns import pattern_of

_HEADS = frozenset({"convolution", "product"})
"""Classes that other layers are fused into."""

_FUSABLE = frozenset({"codes:written", "elementwise", "function", "scale"})
"""Classes, and one sort, that a framework may fuse into the previous layer."""


_FOUND: WeakKeyDictionary[CanonicalModel, tuple[str, ...]] = WeakKeyDictionary()
"""Kinds of the models that were asked for: a prediction and its notes ask for the same."""


def kinds_of(model: CanonicalModel) -> tuple[str, ...]:
    """Kind of each layer of a model; see :class:`~dlbricks_prediction.features.Features`."""
    if model not in _FOUND:
        _FOUND[model] = _kinds(model)
    return _FOUND[model]


def _kinds(model: CanonicalModel) -> tuple[str, ...]:
    kinds: list[str] = []
    heads: dict[str, str] = {}
    classes = [_class(model, layer) for layer in model.layers]
    in_fours = _tensors_in_fours(model, classes)
    for layer, own in zip(model.layers, classes, strict=True):
        if _is_of(own, _BLOCKWISE) and not in_fours.isdisjoint(layer.inputs):
            own = f"{own}{'-' if ':' in own else ':'}fours"
        head = _fused_into(model, layer, own, heads) or _unpacked_by(model, layer, own)
        sort = f"{own}{_unusual_type(model, layer, own)}"
        kinds.append(f"{sort}@{head}" if head else sort)
        into = head or (class_of(own) if class_of(own) in _HEADS else "")
        if into:
            heads |= dict.fromkeys(layer.outputs, into)
    return tuple(kinds)


# Predictions ask for the classes of many thousands of layers of a few hundred kinds.
@cache
def class_of(kind: str) -> str:
    """Class of a kind. Layers of one class are computed in similar ways."""
    return sort_of(kind).partition(":")[0]


@cache
def sort_of(kind: str) -> str:
    """Class and sort of a kind, without its type and the layer that it follows."""
    return kind.partition("@")[0].partition("~")[0]


@cache
def type_of(kind: str) -> str:
    """Unusual element type that layers of a kind compute with; empty for usual types."""
    return kind.partition("@")[0].partition("~")[2]


@cache
def group_of(kind: str) -> tuple[str, str]:
    """Class and unusual type of a kind. Layers of one group have the same rate of operations."""
    return class_of(kind), type_of(kind)


_SHORT = (
    "bfloat16", "float16", "float8", "float4", "int8", "uint8", "int4", "uint4", "int2", "uint2",
)  # fmt: skip
"""Prefixes of types for which frameworks have special kernels or none at all. Their speed does not
follow from the speed of float32, so layers of these types are separate kinds.
"""


_WIDE = (
    "float64",
    "complex128",
    "complex64",
    "int64",
    "uint64",
    "int32",
    "uint32",
    "int16",
    "uint16",
)
"""Types that layers compute with where they touch no float32. Vectors have fewer elements of them
or no instructions for them, and frameworks plain loops in place of tuned kernels.
"""

_MOVING = frozenset({"codes", "copy", "gather", "transpose", "view"})
"""Classes of layers that compute nothing: their time follows from bytes, for every type."""


def _unusual_type(model: CanonicalModel, layer: Layer, own: str) -> str:
    """Mark of the type that a layer computes with; empty for float32.

    A layer of floats that reads dequantized codes has a separate mark: a framework may compute with
    the codes, and chooses how.
    """
    types = [model.tensors[name].dtype for name in (*layer.outputs, *layer.reads) if name]
    short = next((each for each in types if each.startswith(_SHORT)), "")
    if short:
        return f"~{short}"
    if any(codes_of(model, name) for name in layer.inputs[:1]):
        return "~codes"
    if "float32" in types or class_of(own) in _MOVING:
        return ""
    return next((f"~{each}" for each in _WIDE if each in types), "")


_BLOCKWISE = frozenset({"pool", "reduce:map", "scale"})
"""Classes, and one sort, with fast code for blocks of 8 or 16 channels, and none for smaller
blocks.
"""

_KEEPING = frozenset({"copy:joined", "elementwise", "function", "pool", "scale"})
"""Classes, and one sort, whose results have the memory layout of their inputs."""


def _tensors_in_fours(model: CanonicalModel, classes: Sequence[str]) -> Set[str]:
    """Names of the maps that oneDNN keeps in blocks of four channels.

    A grouped convolution reads and writes blocks that fill its groups. In blocks of four channels,
    MXNet's normalizations and pools of the result take up to fifty times as long. PyTorch and ONNX
    Runtime make no such difference.

    Args:
        model: The model.
        classes: Class and sort of each layer.
    """
    found: set[str] = set()
    for layer, own in zip(model.layers, classes, strict=True):
        keeps = _is_of(own, _KEEPING) and not found.isdisjoint(layer.inputs)
        if keeps or own == "convolution:grouped-fours":
            found.update(layer.outputs[:1])
    return found


def computing(model: CanonicalModel, layers: Sequence[Layer]) -> str:
    """Class of the first of several layers: the part before a colon."""
    return class_of(_class(model, layers[0])) if layers else "nothing"


def _class(model: CanonicalModel, layer: Layer) -> str:
    """Class and sort of a layer."""
    found = standing_for(layer).kind
    if isinstance(found, Lacks):  # measurements of one such operator do not predict another
        return f"other:{plain(layer.op).lower()}"
    return _SORTS.get(found, _by_pattern)(model, layer, found)


def _by_pattern(model: CanonicalModel, layer: Layer, found: str) -> str:
    pattern = pattern_of(model, layer)
    if pattern is None:
        return found
    return f"{found}{'-' if ':' in found else ':'}{pattern.sort}"


def _by_operator(_: CanonicalModel, layer: Layer, found: str) -> str:
    return f"{found}:{plain(layer.op).lower()}"


def _elementwise(model: CanonicalModel, layer: Layer, found: str) -> str:
    return _by_pattern(model, layer, _by_operator(model, layer, found))


_SQUARED = (2.0, 3.0)
"""Exponents for which frameworks multiply in place of computing a power."""


def _function(model: CanonicalModel, layer: Layer, found: str) -> str:
    exponent = model.constants.get(layer.inputs[1]) if layer.op == "Pow" else None
    if layer.op != "Pow" or (
        exponent is not None and set(exponent.ravel().tolist()) <= {*_SQUARED}
    ):
        return _by_operator(model, layer, found)
    return f"{found}:power"


def _spectrum(model: CanonicalModel, layer: Layer, found: str) -> str:
    """Mark of transforms whose length is no power of two, for which frameworks have other code."""
    shapes = shapes_of(model, (layer.inputs[0], layer.outputs[0]))
    length = _transformed(shapes) if len(shapes) == 2 else 1
    return found if length & (length - 1) == 0 else f"{found}:odd"


def _transformed(shapes: Sequence[tuple[int, ...]]) -> int:
    """Length of a transform that reads and writes such shapes."""
    read, written = shapes
    if len(read) != len(written):  # frames of a signal
        return 2 * (written[-2] - 1)
    changed = [n for n, m in zip(read[:-1], written[:-1], strict=True) if n != m]
    return (changed or read[-2:-1] or (1,))[0]


def _vectors(_: CanonicalModel, layer: Layer, found: str) -> str:
    """Mark of similarities that are no products of matrices."""
    return f"{found}:{text(layer, 'kernel_type', 'LINEAR').lower()}"


def _convolution(model: CanonicalModel, layer: Layer, found: str) -> str:
    return f"{found}:{_grouping(model, layer)}{_volume(model, layer)}"


def _spatial(model: CanonicalModel, layer: Layer, found: str) -> str:
    return f"{found}{_volume(model, layer)}"


_BY_VECTORS = frozenset({"pool:max", "pool:mean"})
"""Pools that frameworks compute in vectors along two spatial axes, and a number at a time along
one.
"""


def _pool(model: CanonicalModel, layer: Layer, found: str) -> str:
    own = "pool:places" if any(layer.outputs[1:]) else found
    return f"{own}{_volume(model, layer) or (own in _BY_VECTORS and _line(model, layer)) or ''}"


def _resize(model: CanonicalModel, layer: Layer, found: str) -> str:
    return _spatial(model, layer, f"{found}:{text(layer, 'mode', 'nearest')}")


def _read_codes(model: CanonicalModel, layer: Layer, found: str) -> str:
    return f"{found}-weights" if layer.inputs[0] in model.weights else found


def _product(model: CanonicalModel, layer: Layer, found: str) -> str:
    return f"{found}:{'weights' if weight_of(model, layer) else 'activations'}"


def _bits(_: CanonicalModel, layer: Layer, __: str) -> str:
    return f"product:{integer(layer, 'bits', 4)}-bit"


def _einsum(_: CanonicalModel, layer: Layer, found: str) -> str:
    return f"{found}{'-apart' if _is_apart(layer) else ''}"


def _attention(_: CanonicalModel, layer: Layer, found: str) -> str:
    return f"{found}:{'masked' if _is_masked(layer) else 'free'}"


_FILLED: Mapping[int, str] = {8: "", 4: "-fours"}
"""Marks of channels that are multiples of a number; ``-odd`` for others."""

_SORTS: Mapping[str, Callable[[CanonicalModel, Layer, str], str]] = {
    "attention": _attention,
    "codes:read": _read_codes,
    "convolution": _convolution,
    "convolution:transposed": _spatial,
    "elementwise": _elementwise,
    "function": _function,
    **dict.fromkeys(("pool:max", "pool:mean", "pool:powers"), _pool),
    "product": _product,
    "product:bits": _bits,
    "product:einsum": _einsum,
    "recurrent": _by_operator,
    "resize": _resize,
    "spectrum": _spectrum,
    "svm": _vectors,
}
"""How layers of a class differ in their kernels. Layers of other classes differ by their pattern of
memory access alone.
"""


def _is_apart(layer: Layer) -> bool:
    """Whether the rows of an Einstein sum's products do not lie together in some operand.

    The last axis of that operand numbers the products, so single elements are moved before.
    """
    operands, _, result = text(layer, "equation", "").partition("->")
    terms = operands.split(",")
    common = set(result).intersection(*terms)
    return len(terms) > 1 and any(term[-1:] in common for term in terms if term)


def _is_masked(layer: Layer) -> bool:
    return integer(layer, "is_causal", 0) != 0 or bool("".join(layer.inputs[3:4]))


def _grouping(model: CanonicalModel, layer: Layer) -> str:
    groups = integer(layer, "group", 1)
    if groups == 1:
        return "dense"
    weight = weight_of(model, layer)
    if weight is None:
        return "grouped"
    read, written = weight.sizes[1], weight.sizes[0] // groups
    if read == 1:
        return f"depthwise{filling(groups)}"
    return f"grouped{filling(math.gcd(read, written))}"


def filling(channels: int) -> str:
    """Mark of channels that do not fill vectors; empty for those that do.

    Vectors of a depthwise convolution lie along its channels. Where these are no multiple of 8,
    oneDNN's kernels for MXNet do not apply, and where they are none of 4, those of ONNX Runtime: a
    loop takes 15 and 5 times as long. PyTorch makes no such difference. Vectors of other grouped
    convolutions lie within a group.
    """
    return next((mark for size, mark in _FILLED.items() if channels % size == 0), "-odd")


def _volume(model: CanonicalModel, layer: Layer) -> str:
    """Mark of a layer that works on three spatial axes, for which frameworks have other kernels."""
    shapes = shapes_of(model, layer.inputs[:1])
    return "-volume" if shapes and len(shapes[0]) > 4 else ""


def _line(model: CanonicalModel, layer: Layer) -> str:
    """Mark of a layer that works on one spatial axis."""
    shapes = shapes_of(model, layer.inputs[:1])
    return "-line" if shapes and len(shapes[0]) == 3 else ""


def _is_of(own: str, names: Set[str]) -> bool:
    """Whether names of classes and sorts include a class with its sort, whatever its pattern."""
    return not names.isdisjoint((own, own.partition("-")[0], class_of(own)))


def _fused_into(model: CanonicalModel, layer: Layer, own: str, heads: Mapping[str, str]) -> str:
    """Class of the layer that a framework may fuse a layer into; empty for none."""
    if not _is_of(own, _FUSABLE):
        return ""
    for name in layer.inputs:
        alone = len(model.consumers.get(name, ())) == 1 and name not in model.output_names
        if name in heads and alone:
            return heads[name]
    return ""


def _unpacked_by(model: CanonicalModel, layer: Layer, own: str) -> str:
    """Class of the layers that may read codes without this layer; empty for none."""
    if not own.startswith("codes:read") or layer.outputs[0] in model.output_names:
        return ""
    if model.tensors[layer.inputs[0]].dtype.startswith("float"):
        return ""  # nothing multiplies them
    readers = [model.layers[i] for i in model.consumers.get(layer.outputs[0], ())]
    classes = {computing(model, [each]) for each in readers}
    return classes.pop() if len(classes) == 1 and classes <= _HEADS else ""
