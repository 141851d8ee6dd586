"""MXNet's symbol operators, and compositions that all families of operators use.

A tensor without axes is a vector of one element here, because an empty shape means an unknown shape
to MXNet outside of its numpy mode. A tensor of more axes than MXNet supports is a vector of all its
elements.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from dlbricks_mxnet.framework import import_mxnet
from dlbricks_mxnet.lowering.limits import MOST_AXES

mx = import_mxnet()

Symbol = Any  # mxnet.symbol.Symbol; MXNet has no type information
Shape = tuple[int, ...]

#: MXNet's operators: ``op.Convolution(...)``.
op = mx.sym


class _NumpyOperators:
    """The operators of MXNet's numpy interface, on ordinary symbols."""

    def __getattr__(self, name: str) -> Any:
        function = getattr(mx.sym.numpy._internal, name)

        def call(*inputs: Symbol, **attributes: Any) -> Symbol:
            result = function(*(x.as_np_ndarray() for x in inputs), **attributes)
            return result.as_nd_ndarray()

        return call


#: ``npi.equal(...)``: comparisons give booleans and ``where`` broadcasts, unlike in ``op``.
npi = _NumpyOperators()


def physical(shape: Shape) -> Shape:
    """Shape of MXNet's representation of a tensor."""
    return shape if 0 < len(shape) <= MOST_AXES else (math.prod(shape),)


def reshape(x: Symbol, shape: Sequence[int]) -> Symbol:
    """Reshapes to exactly this shape."""
    return op.reshape(x, shape=physical(tuple(int(n) for n in shape)))


def reshaped(x: Symbol, old: Shape, new: Shape) -> Symbol:
    """Like :func:`reshape`, but without an operator where the shape stays the same."""
    return x if physical(old) == physical(new) else reshape(x, new)


def transpose(x: Symbol, perm: Sequence[int]) -> Symbol:
    """Permutes the axes; no operator where the order stays."""
    axes = tuple(int(axis) for axis in perm)
    return x if axes == tuple(range(len(axes))) else op.transpose(x, axes=axes)


def rearranged(x: Symbol, shape: Shape, perm: Sequence[int]) -> Symbol:
    """Permutes any number of axes. The result is a tensor of any shape with the permuted elements.

    Axes that stay together move as one. While more axes remain than MXNet supports, the last
    misplaced axis moves to its position, where it merges with the axes behind it.

    Args:
        x: A tensor in the shape of :func:`physical`.
        shape: Shape of the tensor in the model.
        perm: Axes of ``shape`` in their new order.
    """
    sizes, order = _joined(shape, perm)
    while len(order) > MOST_AXES:
        place = max(i for i, axis in enumerate(order) if i != axis)
        axis = order[place]
        view = (sizes[:axis], sizes[axis : axis + 1], sizes[axis + 1 : place + 1],
                sizes[place + 1 :])  # fmt: skip
        x = transpose(reshape(x, [product(part) for part in view]), (0, 2, 1, 3))
        moved = [*range(axis), *range(axis + 1, place + 1), axis, *range(place + 1, len(order))]
        sizes, order = _joined([sizes[a] for a in moved], [moved.index(a) for a in order])
    return transpose(reshape(x, sizes), order)


def _joined(shape: Sequence[int], perm: Sequence[int]) -> tuple[list[int], list[int]]:
    """An equivalent permutation of as few axes as possible: their sizes, and their new order."""
    order = [axis for axis in perm if shape[axis] > 1] or [0]
    rest = sorted(order)
    runs = [[order[0]]]
    for before, axis in pairwise(order):
        if rest.index(axis) == rest.index(before) + 1:
            runs[-1].append(axis)
        else:
            runs.append([axis])
    in_place = sorted(runs)
    return [product([shape[a] for a in run]) for run in in_place], [in_place.index(r) for r in runs]


def cast(x: Symbol, dtype: str) -> Symbol:
    """Converts the element type."""
    return op.Cast(x, dtype=dtype)


def broadcast_to(x: Symbol, old: Shape, new: Shape) -> Symbol:
    """Broadcasts as ONNX does, aligning the last axes; no operator where nothing changes."""
    old, new = physical(old), physical(new)
    if old == new:
        return x
    aligned = (1,) * (len(new) - len(old)) + old
    x = reshaped(x, old, aligned)
    return x if aligned == new else op.broadcast_to(x, shape=new)


def slice_axis(x: Symbol, axis: int, begin: int, end: int) -> Symbol:
    """Elements ``begin`` to ``end``, exclusive, along one axis."""
    return op.slice_axis(x, axis=axis, begin=begin, end=end)


def where(condition: Symbol, x: Symbol, y: Symbol) -> Symbol:
    """``x`` where the boolean condition holds, else ``y``; broadcasts."""
    return npi.where(condition, x, y)


def product(sizes: Sequence[int]) -> int:
    """Product of sizes; 1 for none."""
    return math.prod(sizes)
