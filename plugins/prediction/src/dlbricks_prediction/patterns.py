"""Patterns of memory access, which decide how fast layers run that compute little.

One operator has several kernels: a transposition that keeps rows together copies them, another
gathers single elements, and a third moves nothing. Latencies differ by up to thirty times where
numbers of bytes are equal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from dlbricks_core.ir import CanonicalModel, Layer
from dlbricks_core.operators.table import standing_for

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Pattern:
    """How a layer walks through memory.

    Attributes:
        sort: Name of the pattern.
        run: Number of successive elements that stay together; 0 where it has no meaning.
        depth: Number of elements that one result is made of.
    """

    sort: str
    run: int = 0
    depth: int = 1


def pattern_of(model: CanonicalModel, layer: Layer) -> Pattern | None:
    """Pattern of a layer; ``None`` for operators that have none, and for unknown sizes."""
    access = standing_for(layer).access
    if access == "spread":
        shapes = [_shape(model, name) for name in layer.reads]
        results = [_shape(model, name) for name in layer.outputs[:1]]
        known = [shape for shape in shapes if shape is not None]
        if len(shapes) < 2 or len(known) < len(shapes) or results[0] is None:
            return None
        return _spread_over(known, results[0])
    find = _PATTERNS.get(access)
    if find is None or not layer.inputs or not layer.outputs:
        return None
    read, written = (_shape(model, name) for name in (layer.inputs[0], layer.outputs[0]))
    return None if read is None or written is None else find(layer, read, written)


def _spread_over(shapes: Sequence[Shape], result: Shape) -> Pattern:
    """Pattern of an element-wise layer: how its smaller operands are spread over its result.

    ``crossed`` means that no operand is as large as the result, and ``maps`` that all are.
    Otherwise the first of these sorts counts that a smaller operand has: ``mixed`` varies along the
    last axis and along some before it, ``rows`` is constant along the last axis, ``vector`` varies
    along the last axes alone, and ``scalar`` does not vary.
    """
    elements = math.prod(result)
    if all(math.prod(shape) != elements for shape in shapes):
        return Pattern("crossed")
    found = [_spread(shape, result) for shape in shapes if math.prod(shape) != elements]
    return min(found, key=lambda each: _SPREADS.index(each.sort), default=Pattern("maps"))


_SPREADS = ("mixed", "rows", "vector", "scalar")


def _spread(shape: Shape, result: Shape) -> Pattern:
    """How an operand is spread over a larger result."""
    sizes = (1,) * (len(result) - len(shape)) + shape
    varying = [axis for axis, size in enumerate(sizes) if size > 1]
    wide = [axis for axis, size in enumerate(result) if size > 1]
    if not varying:
        return Pattern("scalar", math.prod(result))
    if varying == wide[-len(varying) :]:
        return Pattern("vector", math.prod(shape))
    if varying[-1] == wide[-1]:
        return Pattern("mixed", result[-1])
    return Pattern("rows", math.prod(result[varying[-1] + 1 :]))


def _transposed(layer: Layer, read: Shape, _written: Shape) -> Pattern:
    """Pattern of a transposition, whose axes of size 1 and joint axes count as one."""
    order = layer.attributes.get("perm")
    axes = order if isinstance(order, tuple) else tuple(reversed(range(len(read))))
    left = [axis for axis in axes if read[axis] > 1]
    groups: list[list[int]] = []
    rank = {axis: i for i, axis in enumerate(sorted(left))}
    for axis in left:
        if groups and rank[axis] == rank[groups[-1][-1]] + 1:
            groups[-1].append(axis)
        else:
            groups.append([axis])
    if len(groups) < 2:
        return Pattern("none", math.prod(read))
    if groups[-1][-1] == max(left):
        return Pattern("blocks", math.prod(read[axis] for axis in groups[-1]))
    places = sorted(range(len(groups)), key=lambda i: groups[i][0])
    swapped = places[:-2] == [*range(len(groups) - 2)]
    return Pattern("matrix" if swapped else "elements")


def _part(_layer: Layer, read: Shape, written: Shape) -> Pattern:
    """Pattern of a layer that copies a part of its input, or its input into a part of the output.

    Rows of the smaller tensor stay together from the last axis that differs on.
    """
    if len(read) != len(written):
        return Pattern("inner")
    other = [axis for axis, (a, b) in enumerate(zip(read, written, strict=True)) if a != b]
    if not other:
        return Pattern("outer", math.prod(written))
    smaller = min(read, written, key=math.prod)
    is_outer = len(other) == 1 and math.prod(smaller[: other[0]]) == 1
    return Pattern("outer" if is_outer else "inner", math.prod(smaller[other[-1] :]))


def _joined(layer: Layer, read: Shape, written: Shape) -> Pattern:
    """Pattern of a concatenation. Along the last axis, some frameworks copy single elements."""
    found, axis = _part(layer, read, written), layer.attributes.get("axis", 0)
    is_last = found.sort == "inner" and axis in (-1, len(read) - 1)
    return replace(found, sort="last") if is_last else found


def _gathered(layer: Layer, read: Shape, _written: Shape) -> Pattern:
    """Pattern of a layer that picks along an axis: rows, or parts of each row."""
    axis = layer.attributes.get("axis", 0)
    axis = axis % len(read) if isinstance(axis, int) and read else 0
    run = math.prod(read[axis + 1 :])
    return Pattern("rows" if math.prod(read[:axis]) == 1 else "parts", run)


def _reduced(layer: Layer, read: Shape, written: Shape) -> Pattern:
    """Pattern of a reduction: along the last axes, along others, or along all."""
    if math.prod(written) == 1:
        return Pattern("all", math.prod(read), math.prod(read))
    if len(read) != len(written):
        named = layer.attributes.get("axis", layer.attributes.get("axes"))
        axes = named if isinstance(named, tuple) else (named,) if isinstance(named, int) else ()
        other = sorted(axis % len(read) for axis in axes)
    else:
        other = [axis for axis, (a, b) in enumerate(zip(read, written, strict=True)) if a != b]
    if not other:
        return Pattern("last", 1)
    run = math.prod(read[other[-1] + 1 :])
    depth = math.prod(read) // max(math.prod(written), 1)
    return Pattern("last" if run == 1 else "inner", run, depth)


def _along(layer: Layer, read: Shape, _written: Shape) -> Pattern:
    """Pattern of a softmax: along the last axis, or along an axis with strided elements."""
    axis = layer.attributes.get("axis", -1)
    axis = axis % len(read) if isinstance(axis, int) and read else 0
    run = math.prod(read[axis + 1 :])
    if run == 1:
        return Pattern("last", math.prod(read[axis:]))
    return Pattern("inner", run, read[axis])


_Find = Callable[[Layer, Shape, Shape], Pattern]

_PATTERNS: Mapping[str, _Find] = {
    "along": _along,
    "gathered": _gathered,
    "joined": _joined,
    "part": _part,
    "reduced": _reduced,
    "transposed": _transposed,
}
"""Function that finds the pattern, by the access that the table of operators names."""


def _shape(model: CanonicalModel, name: str) -> Shape | None:
    spec = model.tensors[name] if name else None
    return spec.sizes if spec is not None and spec.is_static else None
