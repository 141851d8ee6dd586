"""Operators that move elements: results hold elements of inputs at other places."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dlbricks_core.ir import Array, Layer
from dlbricks_core.operators import shapes
from dlbricks_core.operators.operator import (
    ANYTHING,
    BY_TYPE,
    DATA,
    LATE,
    PARAMETER,
    RARE,
    IndexBound,
    Input,
    Lacks,
    Operator,
    Specs,
    Traffic,
    each_output,
    nothing,
    row,
    sizes,
    whole,
)
from dlbricks_core.operators.ranges.interval import (
    EVERYTHING,
    Range,
    RangeStep,
    Rule,
    is_whole,
    join,
    within,
)

Move = Callable[[RangeStep, Sequence[Array]], Sequence[Array]]
"""The layer's work on any arrays in the place of its inputs: ``(step, arrays)`` to results."""


class _UnknownError(Exception):
    """The places that elements move to depend on unknown values."""


def _value(step: RangeStep, position: int) -> Array:
    value = step.known[position] if position < len(step.known) else None
    if value is None:
        raise _UnknownError
    return value


def _slice(step: RangeStep, arrays: Sequence[Array]) -> Sequence[Array]:
    starts, ends, axes, steps = (_value(step, at).ravel().tolist() for at in (1, 2, 3, 4))
    cut = [slice(None)] * arrays[0].ndim
    for start, end, axis, stride in zip(starts, ends, axes, steps, strict=True):
        # Backwards to the very start ends before it, which Python's slices count from the end.
        past = stride < 0 and end < -arrays[0].shape[axis]
        cut[axis] = slice(start, None if past else end, stride)
    return [arrays[0][tuple(cut)]]


def _gather(step: RangeStep, arrays: Sequence[Array]) -> Sequence[Array]:
    return [arrays[0].take(_value(step, 1), step.integer("axis", 0), mode="wrap")]


def _gather_elements(step: RangeStep, arrays: Sequence[Array]) -> Sequence[Array]:
    axis = step.integer("axis", 0)
    return [np.take_along_axis(arrays[0], _value(step, 1) % arrays[0].shape[axis], axis)]


def _gather_nd(step: RangeStep, arrays: Sequence[Array]) -> Sequence[Array]:
    indices = np.moveaxis(_value(step, 1), -1, 0)
    if step.integer("batch_dims", 0):
        raise _UnknownError
    places = [at % size for at, size in zip(indices, arrays[0].shape, strict=False)]
    return [arrays[0][tuple(places)]]


def _concat(step: RangeStep, arrays: Sequence[Array]) -> Sequence[Array]:
    return [np.concatenate(arrays, step.integer("axis", 0))]


def _split(step: RangeStep, arrays: Sequence[Array]) -> Sequence[Array]:
    axis = step.integer("axis", 0)
    ends = np.cumsum([step.out_sizes(at)[axis] for at in range(len(step.outputs) - 1)])
    return np.split(arrays[0], ends.tolist(), axis)


def _where(step: RangeStep, arrays: Sequence[Array]) -> Sequence[Array]:
    one, other = arrays
    return [np.where(_value(step, 0), one, other)]


def _in_order(step: RangeStep, arrays: Sequence[Array]) -> Sequence[Array]:
    return [arrays[0].reshape(step.out_sizes())]


def _transpose(step: RangeStep, arrays: Sequence[Array]) -> Sequence[Array]:
    perm = step.layer.attributes["perm"]
    assert isinstance(perm, tuple)
    return [arrays[0].transpose(perm)]


def _expand(step: RangeStep, arrays: Sequence[Array]) -> Sequence[Array]:
    return [np.broadcast_to(arrays[0], step.out_sizes())]


def _tile(step: RangeStep, arrays: Sequence[Array]) -> Sequence[Array]:
    return [np.tile(arrays[0], _value(step, 1).tolist())]


def _truncated(step: RangeStep, wanted: Sequence[Range]) -> Mapping[int, Range]:
    """Floats that become integers: those above an integer become that integer."""
    before, after = step.inputs[0], step.outputs[0]
    assert before is not None
    assert after is not None
    (each,) = wanted
    if is_whole(after.dtype) and not is_whole(before.dtype):
        above = np.clip(0.999 - 1e-6 * each.high, 0, None)
        each = Range.of(each.low, np.where(each.high >= 0, each.high + above, each.high))
    return {0: each}


def _somewhere(step: RangeStep, arrays: Sequence[Array]) -> Sequence[Array]:
    raise _UnknownError


#: Moves that leave no element out.
_ALL_OF_IT = (_in_order, _transpose, _expand, _tile)


def _moving(
    move: Move = _somewhere,
    positions: Sequence[int] | None = (0,),
    zeros: Callable[[RangeStep], bool] = lambda step: False,
) -> Rule:
    """Rule of an operator that moves elements.

    Args:
        move: The move.
        positions: Positions of the inputs that hold the elements; ``None`` for all inputs.
        zeros: Whether the operator puts zeros between elements.
    """

    def data(step: RangeStep) -> list[int]:
        every = range(len(step.inputs))
        return [at for at in every if at in (positions or every) and step.inputs[at] is not None]

    def image(step: RangeStep) -> Sequence[Range]:
        read = [step.ranges[at] for at in data(step)]
        if zeros(step):
            return [join((*(each.hull() for each in read), Range.of(0, 0)))] * len(step.outputs)
        if not step.detailed or (len(read) == 1 and read[0].uniform):
            return [join(each.hull() for each in read)] * len(step.outputs)
        try:
            arrays = [
                move(step, [np.broadcast_to(end, step.sizes(at)) for at, end in ends])
                for ends in (
                    [(at, step.ranges[at].low) for at in data(step)],
                    [(at, step.ranges[at].high) for at in data(step)],
                )
            ]
        except _UnknownError:
            return [join(each.hull() for each in read)] * len(step.outputs)
        smooth = all(each.smooth for each in read)
        return [Range.of(low, high, smooth) for low, high in zip(*arrays, strict=True)]

    def asked(step: RangeStep, wanted: Sequence[Range]) -> dict[int, Range]:
        if move in _ALL_OF_IT and wanted[0].uniform:
            return {0: wanted[0]}
        try:
            if step.detailed:
                return _traced(step, data(step), move, wanted)
        except _UnknownError:
            pass
        core = wanted[0].core()
        for each in wanted[1:]:
            core = core.meet(each.core())
        return dict.fromkeys(data(step), core)

    return Rule(image, asked, lambda step: True)


def _traced(
    step: RangeStep, positions: Sequence[int], move: Move, wanted: Sequence[Range]
) -> dict[int, Range]:
    """Range that is wanted of each element of the inputs, at the places that it moves to."""
    sizes = [step.sizes(at) for at in positions]
    ends = np.cumsum([0, *(int(np.prod(each)) for each in sizes)])
    numbered = [
        np.arange(begin, begin + np.prod(each)).reshape(each)
        for begin, each in zip(ends, sizes, strict=False)
    ]
    low, high = np.full(ends[-1], -np.inf), np.full(ends[-1], np.inf)
    for origins, each in zip(move(step, numbered), wanted, strict=True):
        np.maximum.at(low, origins, np.broadcast_to(each.low, origins.shape))
        np.minimum.at(high, origins, np.broadcast_to(each.high, origins.shape))
    return {
        at: Range.of(low[begin:end].reshape(each), high[begin:end].reshape(each)).simplest()
        for at, begin, end, each in zip(positions, ends, ends[1:], sizes, strict=False)
    }


def _chosen(rule: Rule) -> Rule:
    """Rule of Where; its condition is often the same everywhere, though its values are unknown."""

    def taken(step: RangeStep) -> int | None:
        condition = step.ranges[0].hull()
        return 1 if condition.low > 0 else 2 if condition.high <= 0 else None

    def image(step: RangeStep) -> Sequence[Range]:
        only = taken(step)
        return rule.image(step) if only is None else [step.ranges[only].hull()]

    def asked(step: RangeStep, wanted: Sequence[Range]) -> Mapping[int, Range]:
        right = [at for at in (1, 2) if step.ranges[at].inside(wanted[0])]
        only, condition = taken(step), {}
        if only is None and step.free[0] and len(right) == 1:
            (only,) = right
            condition = {0: Range.of(2 - only, 2 - only)}
        if only is None:
            return rule.asked(step, wanted)
        return {only: wanted[0].core(), **condition}

    return Rule(image, asked, rule.carries)


def _gaps(step: RangeStep) -> bool:
    """Whether a Pad fills with zeros, rather than with a given number or with its data."""
    given = len(step.inputs) > 2 and step.inputs[2] is not None
    return not given and step.text("mode", "constant") == "constant"


def _replaced(rule: Rule) -> Rule:
    """Rule for scattered updates, if they replace the data instead of being added to them."""

    def replaces(step: RangeStep) -> bool:
        return step.text("reduction", "none") == "none"

    return Rule(
        lambda step: rule.image(step) if replaces(step) else [EVERYTHING],
        lambda step, wanted: rule.asked(step, wanted) if replaces(step) else {},
        replaces,
    )


def _counted(step: RangeStep) -> Sequence[Range]:
    """Range from the first to the last number of a Range layer."""
    start, limit, _ = step.ranges
    return [join((start.hull(), limit.hull()))]


def _hot(step: RangeStep) -> Sequence[Range]:
    return [step.ranges[2].hull()]


# Bounds of indices


def along(name: str) -> IndexBound:
    """Size of the data along the axis that an attribute names."""
    return lambda layer, inputs, outputs: sizes(inputs, 0)[whole(layer, name)]


def _leading(layer: Layer, inputs: Specs, outputs: Specs) -> tuple[int, ...]:
    """Sizes of the axes of the data that an index tuple points into."""
    skipped = whole(layer, "batch_dims")
    return sizes(inputs, 0)[skipped : skipped + sizes(inputs, 1)[-1]]


def _one_hot(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    return sizes(outputs, 0)[whole(layer, "axis", -1)]


def _reversed_steps(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    return sizes(inputs, 0)[whole(layer, "time_axis")] + 1


def _cache_slots(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    """First slots of a cache, such that the update fits behind them."""
    axis = whole(layer, "axis", -2)
    return sizes(inputs, 0)[axis] - sizes(inputs, 1)[axis] + 1


def _unpooled(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    return math.prod(sizes(outputs, 0))


# Rows of the table


def _row(kind: str | Lacks, ranges: Rule | Lacks, *inputs: Input, **facts: Any) -> Operator:
    """An operator that computes nothing, unless it has a rule for operations."""
    return row(kind, facts.pop("flops", nothing), *(inputs or (DATA,)), ranges=ranges, **facts)


_IN_ORDER = _moving(_in_order)


def _view(ranges: Rule | Lacks = _IN_ORDER, *inputs: Input, **facts: Any) -> Operator:
    return _row("view", ranges, *inputs, traffic=Traffic.VIEW, **facts)


def _picking(kind: str | Lacks, ranges: Rule | Lacks, *inputs: Input, **facts: Any) -> Operator:
    return _row(kind, ranges, *inputs, traffic=Traffic.PICKED, **facts)


def _index(below: IndexBound) -> Input:
    return Input(below=below)


_ZEROS = _moving(zeros=lambda step: True)
_SCATTER = _replaced(_moving(positions=(0, 2)))

ROWS: Mapping[str, Operator] = {
    "Flatten": _view(shape=shapes.flattening),
    "Identity": _view(),
    "Reshape": _view(_IN_ORDER, DATA, PARAMETER, shape=shapes.reshaping),
    "Shape": _view(BY_TYPE),
    "Size": _view(BY_TYPE),
    "Squeeze": _view(_IN_ORDER, DATA, PARAMETER),
    "Unsqueeze": _view(_IN_ORDER, DATA, PARAMETER),
    "BitCast": _row(LATE, BY_TYPE),
    "Cast": _row("copy:cast", replace(_IN_ORDER, asked=_truncated), typed_by="to"),
    "CenterCropPad": _row(RARE, _ZEROS, DATA, PARAMETER),
    "Compress": _picking(RARE, ANYTHING, DATA, PARAMETER),
    "Concat": _row("copy:joined", _moving(_concat, None), access="joined", repeated=1,
                   shape=shapes.concatenation),
    "ConstantOfShape": _row(RARE, ANYTHING, PARAMETER, typed_by="value"),
    "DepthToSpace": _row("transpose:pixels", _moving()),
    "Expand": _row("copy:expanded", _moving(_expand), DATA, PARAMETER),
    "EyeLike": _row(RARE, within(0, 1), typed_by="dtype"),
    "Gather": _picking("gather", _moving(_gather), DATA, _index(along("axis")),
                       access="gathered", looks_up=True),
    "GatherElements": _picking("gather:elements", _moving(_gather_elements), DATA,
                               _index(along("axis")), looks_up=True),
    "GatherND": _picking("gather:blocks", _moving(_gather_nd), DATA, _index(_leading)),
    "MaxUnpool": _row(RARE, _ZEROS, DATA, _index(_unpooled), PARAMETER),
    "OneHot": _row("gather:blocks", Rule(_hot, lambda step, wanted: {2: wanted[0].core()}),
                   _index(_one_hot), PARAMETER, DATA),
    "Pad": _row("copy:padded", _moving(positions=(0, 2), zeros=_gaps), DATA, PARAMETER, PARAMETER,
                PARAMETER, access="part"),
    "Range": _row(RARE, Rule(_counted), PARAMETER, PARAMETER, PARAMETER, flops=each_output(1)),
    "ReverseSequence": _row("copy:reversed", _moving(), DATA,
                            Input(parameter=True, below=_reversed_steps)),
    "ScatterElements": _row(RARE, _SCATTER, DATA, _index(along("axis")), DATA),
    "ScatterND": _row("gather:blocks", _SCATTER, DATA, _index(_leading), DATA),
    "Slice": _picking("copy:part", _moving(_slice), DATA, *(PARAMETER,) * 4, access="part"),
    "SpaceToDepth": _row("transpose:pixels", _moving()),
    "Split": _row("copy:part", _moving(_split), DATA, PARAMETER, access="part"),
    "TensorScatter": _row(LATE, _moving(positions=(0, 1)), DATA, DATA, _index(_cache_slots)),
    "Tile": _row("copy:repeated", _moving(_tile), DATA, PARAMETER),
    "Transpose": _row("transpose", _moving(_transpose), access="transposed",
                      shape=shapes.transposition),
    "Trilu": _row("copy:triangle", _ZEROS, DATA, PARAMETER),
    "Where": _row("elementwise", _chosen(_moving(_where, (1, 2))), DATA, DATA, DATA,
                  access="spread"),
}  # fmt: skip
