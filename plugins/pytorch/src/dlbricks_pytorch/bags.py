"""Bags of embeddings in ONNX: each result joins the rows of a table that its indices name.

torch.onnx writes a slice and a reduction for each bag, or a loop where the bags are an input.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from onnxscript.values import Opset

Value = Any  # a value of the graph that is being written

_SUM, _MEAN, _MAX = range(3)
_INT64 = 7  # TensorProto.INT64

op: Any = Opset("", 24)
_aten = torch.ops.aten


def bags(
    weight: Value,
    indices: Value,
    offsets: Value,
    scale_grad_by_freq: bool = False,
    mode: int = _SUM,
    sparse: bool = False,
    per_sample_weights: Value | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> tuple[Value, Value, Value, Value]:
    """Bags that begin where an input says so: rows are scattered over them."""
    if include_last_offset:
        offsets = op.Slice(offsets, [0], [-1], [0])
    rows, kept = _rows(weight, indices, mode, per_sample_weights, padding_idx)
    bag = op.Unsqueeze(_bag_of_each(indices, offsets), [1])
    start = _filled(-math.inf if mode == _MAX else 0.0, weight,
                    op.Concat(op.Shape(offsets), op.Shape(weight, start=1), axis=0))  # fmt: skip
    result = op.ScatterND(start, bag, rows, reduction="max" if mode == _MAX else "add")
    if mode == _MEAN:
        if kept is None:
            kept = _filled(1.0, weight, _column(indices))
        none = _filled(0.0, weight, _column(offsets))
        result = _divided(result, op.ScatterND(none, bag, kept, reduction="add"))
    return _results(_finite(result) if mode == _MAX else result, offsets, mode)


def rows_of_bags(
    weight: Value,
    indices: Value,
    offsets: Value,
    scale_grad_by_freq: bool = False,
    mode: int = _SUM,
    sparse: bool = False,
    per_sample_weights: Value | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> tuple[Value, Value, Value, Value]:
    """Bags of one size, which are the rows of a matrix of indices: they are reduced at once."""
    shape = op.Concat(op.Shape(offsets), op.Constant(value_ints=[-1]), axis=0)
    if per_sample_weights is not None:
        per_sample_weights = op.Reshape(per_sample_weights, shape)
    rows, kept = _rows(weight, op.Reshape(indices, shape), mode, per_sample_weights, padding_idx)
    if mode == _MAX:
        result = op.ReduceMax(rows, [1], keepdims=0)
        result = result if padding_idx is None else _finite(result)
    elif mode == _MEAN and kept is None:
        result = op.ReduceMean(rows, [1], keepdims=0)
    else:
        result = op.ReduceSum(rows, [1], keepdims=0)
        if mode == _MEAN:
            result = _divided(result, op.ReduceSum(kept, [1], keepdims=0))
    return _results(result, offsets, mode)


def only_joined_rows(node: torch.fx.Node) -> bool:
    """Whether the gradient's outputs of a bag of embeddings are unread."""
    return all(user.args[1] == 0 or not user.users for user in node.users)


def are_rows(node: torch.fx.Node) -> bool:
    """Whether the bags are the rows of a matrix of indices."""
    indices, offsets = node.args[1:3]
    if not (isinstance(indices, torch.fx.Node) and isinstance(offsets, torch.fx.Node)):
        return False
    if indices.target != _aten.reshape.default or offsets.target != _aten.arange.start_step:
        return False
    matrix = indices.args[0]
    assert isinstance(matrix, torch.fx.Node)
    shape = matrix.meta["val"].shape
    if len(shape) != 2:
        return False
    # Texts, since a comparison of open sizes would fix them.
    bounds = [str(each.meta["val"] if isinstance(each, torch.fx.Node) else each)
              for each in offsets.args]  # fmt: skip
    return only_joined_rows(node) and bounds == ["0", str(shape[0] * shape[1]), str(shape[1])]


def _rows(
    weight: Value, indices: Value, mode: int, factors: Value | None, padding: int | None
) -> tuple[Value, Value | None]:
    """Weighted rows of the table, and 1 or 0 for each that counts; ``None`` if all do."""
    rows = op.Gather(weight, indices)
    if factors is not None:
        rows = op.Mul(rows, op.Unsqueeze(factors, [-1]))
    if padding is None:
        return rows, None
    padded = op.CastLike(op.Constant(value_int=padding), indices)
    idle = op.Unsqueeze(op.Equal(indices, padded), [-1])
    kept = op.CastLike(op.Not(idle), weight)
    if mode == _MAX:
        return op.Where(idle, _number(-math.inf, weight), rows), kept
    return op.Mul(rows, kept), kept


def _bag_of_each(indices: Value, offsets: Value) -> Value:
    """Position of the bag of each index: the bags that have begun by then, less one."""
    one = op.Constant(value_int=1)
    places = op.Add(op.Shape(indices), [1])  # empty bags may begin behind the last index
    begun = op.ScatterND(
        op.Expand(op.Constant(value_int=0), places),
        op.Unsqueeze(op.Cast(offsets, to=_INT64), [1]),
        op.Expand(one, op.Shape(offsets)),
        reduction="add",
    )
    return op.Sub(op.Slice(op.CumSum(begun, op.Constant(value_int=0)), [0], [-1], [0]), one)


def _divided(total: Value, count: Value) -> Value:
    return op.Div(total, op.Max(count, _number(1.0, total)))  # an empty bag is 0


def _finite(largest: Value) -> Value:
    """The largest elements of bags; 0 for an empty bag."""
    return op.Where(op.IsInf(largest, detect_positive=0), _number(0.0, largest), largest)


def _column(values: Value) -> Value:
    """Shape of a column with a row for each value."""
    return op.Concat(op.Shape(values), op.Constant(value_ints=[1]), axis=0)


def _filled(number: float, like: Value, shape: Value) -> Value:
    return op.Expand(_number(number, like), shape)


def _number(number: float, like: Value) -> Value:
    return op.CastLike(op.Constant(value_float=number), like)


def _results(rows: Value, offsets: Value, mode: int) -> tuple[Value, Value, Value, Value]:
    """The operator's results; results after the first are unread, and only have the right rank."""
    # Each is a value of its own, as torch.onnx writes the shape of the result to it.
    last = op.Cast(rows, to=_INT64) if mode == _MAX else op.Identity(offsets)
    return rows, op.Identity(offsets), op.Identity(offsets), last
