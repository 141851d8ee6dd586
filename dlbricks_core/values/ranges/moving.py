"""Rules for layers that move elements: results hold elements of inputs at other places."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from dlbricks_core.ir import Array
from dlbricks_core.values.ranges.interval import EVERYTHING, Range, is_whole, join
from dlbricks_core.values.ranges.step import Rule, Step

Move = Callable[[Step, Sequence[Array]], Sequence[Array]]
"""The layer's work on any arrays in the place of its inputs: ``(step, arrays)`` to results."""


class _UnknownError(Exception):
    """The places that elements move to depend on unknown values."""


def _known(step: Step, position: int) -> Array:
    value = step.known[position] if position < len(step.known) else None
    if value is None:
        raise _UnknownError
    return value


def _slice(step: Step, arrays: Sequence[Array]) -> Sequence[Array]:
    starts, ends, axes, steps = (_known(step, at).ravel().tolist() for at in (1, 2, 3, 4))
    cut = [slice(None)] * arrays[0].ndim
    for start, end, axis, stride in zip(starts, ends, axes, steps, strict=True):
        # Backwards to the very start ends before it, which Python's slices count from the end.
        past = stride < 0 and end < -arrays[0].shape[axis]
        cut[axis] = slice(start, None if past else end, stride)
    return [arrays[0][tuple(cut)]]


def _gather(step: Step, arrays: Sequence[Array]) -> Sequence[Array]:
    return [arrays[0].take(_known(step, 1), step.integer("axis", 0), mode="wrap")]


def _gather_elements(step: Step, arrays: Sequence[Array]) -> Sequence[Array]:
    axis = step.integer("axis", 0)
    return [np.take_along_axis(arrays[0], _known(step, 1) % arrays[0].shape[axis], axis)]


def _gather_nd(step: Step, arrays: Sequence[Array]) -> Sequence[Array]:
    indices = np.moveaxis(_known(step, 1), -1, 0)
    if step.integer("batch_dims", 0):
        raise _UnknownError
    places = [at % size for at, size in zip(indices, arrays[0].shape, strict=False)]
    return [arrays[0][tuple(places)]]


def _concat(step: Step, arrays: Sequence[Array]) -> Sequence[Array]:
    return [np.concatenate(arrays, step.integer("axis", 0))]


def _split(step: Step, arrays: Sequence[Array]) -> Sequence[Array]:
    axis = step.integer("axis", 0)
    ends = np.cumsum([step.out_sizes(at)[axis] for at in range(len(step.outputs) - 1)])
    return np.split(arrays[0], ends.tolist(), axis)


def _where(step: Step, arrays: Sequence[Array]) -> Sequence[Array]:
    one, other = arrays
    return [np.where(_known(step, 0), one, other)]


def _in_order(step: Step, arrays: Sequence[Array]) -> Sequence[Array]:
    return [arrays[0].reshape(step.out_sizes())]


def _transpose(step: Step, arrays: Sequence[Array]) -> Sequence[Array]:
    perm = step.layer.attributes["perm"]
    assert isinstance(perm, tuple)
    return [arrays[0].transpose(perm)]


def _expand(step: Step, arrays: Sequence[Array]) -> Sequence[Array]:
    return [np.broadcast_to(arrays[0], step.out_sizes())]


def _tile(step: Step, arrays: Sequence[Array]) -> Sequence[Array]:
    return [np.tile(arrays[0], _known(step, 1).tolist())]


def _truncated(step: Step, wanted: Sequence[Range]) -> Mapping[int, Range]:
    """Floats that become integers: those above an integer become that integer."""
    before, after = step.inputs[0], step.outputs[0]
    assert before is not None
    assert after is not None
    (each,) = wanted
    if is_whole(after.dtype) and not is_whole(before.dtype):
        above = np.clip(0.999 - 1e-6 * each.high, 0, None)
        each = Range.of(each.low, np.where(each.high >= 0, each.high + above, each.high))
    return {0: each}


def _somewhere(step: Step, arrays: Sequence[Array]) -> Sequence[Array]:
    raise _UnknownError


#: Moves that leave no element out.
_ALL_OF_IT = (_in_order, _transpose, _expand, _tile)


def _moving(
    move: Move = _somewhere,
    positions: Sequence[int] | None = (0,),
    zeros: Callable[[Step], bool] = lambda step: False,
) -> Rule:
    """Rule of an operator that moves elements.

    Args:
        move: The move.
        positions: Positions of the inputs that hold the elements; ``None`` for all inputs.
        zeros: Whether the operator puts zeros between elements.
    """

    def data(step: Step) -> list[int]:
        every = range(len(step.inputs))
        return [at for at in every if at in (positions or every) and step.inputs[at] is not None]

    def image(step: Step) -> Sequence[Range]:
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

    def asked(step: Step, wanted: Sequence[Range]) -> dict[int, Range]:
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
    step: Step, positions: Sequence[int], move: Move, wanted: Sequence[Range]
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

    def taken(step: Step) -> int | None:
        condition = step.ranges[0].hull()
        return 1 if condition.low > 0 else 2 if condition.high <= 0 else None

    def image(step: Step) -> Sequence[Range]:
        only = taken(step)
        return rule.image(step) if only is None else [step.ranges[only].hull()]

    def asked(step: Step, wanted: Sequence[Range]) -> Mapping[int, Range]:
        right = [at for at in (1, 2) if step.ranges[at].inside(wanted[0])]
        only, condition = taken(step), {}
        if only is None and step.free[0] and len(right) == 1:
            (only,) = right
            condition = {0: Range.of(2 - only, 2 - only)}
        if only is None:
            return rule.asked(step, wanted)
        return {only: wanted[0].core(), **condition}

    return Rule(image, asked, rule.carries)


def _gaps(step: Step) -> bool:
    """Whether a Pad fills with zeros, rather than with a given number or with its data."""
    given = len(step.inputs) > 2 and step.inputs[2] is not None
    return not given and step.text("mode", "constant") == "constant"


def _replaced(rule: Rule) -> Rule:
    """Rule for scattered updates, if they replace the data instead of being added to them."""

    def replaces(step: Step) -> bool:
        return step.text("reduction", "none") == "none"

    return Rule(
        lambda step: rule.image(step) if replaces(step) else [EVERYTHING],
        lambda step, wanted: rule.asked(step, wanted) if replaces(step) else {},
        replaces,
    )


MOVING: Mapping[str, Rule] = {
    "Cast": replace(_moving(_in_order), asked=_truncated),
    "Concat": _moving(_concat, None),
    "DepthToSpace": _moving(),
    "Expand": _moving(_expand),
    "Flatten": _moving(_in_order),
    "Gather": _moving(_gather),
    "GatherElements": _moving(_gather_elements),
    "GatherND": _moving(_gather_nd),
    "Identity": _moving(_in_order),
    "Reshape": _moving(_in_order),
    "ReverseSequence": _moving(),
    "ScatterElements": _replaced(_moving(positions=(0, 2))),
    "ScatterND": _replaced(_moving(positions=(0, 2))),
    "Slice": _moving(_slice),
    "SpaceToDepth": _moving(),
    "Split": _moving(_split),
    "Squeeze": _moving(_in_order),
    "TensorScatter": _moving(positions=(0, 1)),
    "Tile": _moving(_tile),
    "Transpose": _moving(_transpose),
    "Unsqueeze": _moving(_in_order),
    "Where": _chosen(_moving(_where, (1, 2))),
    "CenterCropPad": _moving(zeros=lambda step: True),
    "MaxUnpool": _moving(zeros=lambda step: True),
    "Pad": _moving(positions=(0, 2), zeros=_gaps),
    "Trilu": _moving(zeros=lambda step: True),
}
