"""Slices of OpenVINO's files in ONNX."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dlbricks_openvino.files.building import Operation

_FAR = np.iinfo(np.int64).max
_BEFORE = np.iinfo(np.int64).min


def slice_(operation: Operation) -> str:
    """A slice along given axes; without them, along the first ones."""
    x, starts, ends, step = operation.inputs[0], *(operation.int64(i) for i in (1, 2, 3))
    if len(operation.inputs) > 4:
        return operation.add("Slice", x, starts, ends, operation.int64(4), step)
    (count,) = operation.shape(1)
    if count is None:
        raise operation.refuse("its number of axes is open")
    return operation.add("Slice", x, starts, ends, operation.integers(*range(count)), step)


def strided_slice(operation: Operation) -> str:
    """A slice with the masks of TensorFlow: whole ranges, single places and new axes."""
    (count,) = operation.shape(1)
    new, single, whole, begins, ends = (
        _mask(operation, name, count or 0)
        for name in ("new_axis_mask", "shrink_axis_mask", "ellipsis_mask", "begin_mask", "end_mask")
    )
    if count is None or any(whole):
        raise operation.refuse("it leaves open which axes it slices")
    steps = np.ravel(operation.known(3)).tolist() if len(operation.inputs) > 3 else [1] * count
    ranges: list[tuple[int, str, str, int]] = []
    places: list[tuple[int, str]] = []
    added: list[int] = []
    axis = result = 0
    for i in range(count):
        if new[i]:
            added.append(result)
            result += 1
            continue
        if single[i]:
            places.append((axis, _entry(operation, 1, i)))
        else:
            result += 1
            if not (begins[i] and ends[i] and steps[i] == 1):
                first, last = (0, _FAR) if steps[i] > 0 else (_FAR, _BEFORE)
                start = operation.integers(first) if begins[i] else _entry(operation, 1, i)
                end = operation.integers(last) if ends[i] else _entry(operation, 2, i)
                ranges.append((axis, start, end, steps[i]))
        axis += 1
    name = _ranged(operation, ranges)
    for where, place in reversed(places):
        index = operation.add("Squeeze", place, operation.integers(0))
        name = operation.add("Gather", name, index, axis=where)
    return operation.add("Unsqueeze", name, operation.integers(*added)) if added else name


def _mask(operation: Operation, name: str, count: int) -> list[bool]:
    found = [bool(each) for each in operation.attributes.get(name) or ()]
    return [*found, *[False] * count][:count]


def _entry(operation: Operation, position: int, index: int) -> str:
    """One entry of an input, along an axis of its own."""
    value = operation.value(position)
    if value is not None:
        return operation.integers(int(np.ravel(value)[index]))
    return operation.add("Gather", operation.int64(position), operation.integers(index), axis=0)


def _ranged(operation: Operation, ranges: Sequence[tuple[int, str, str, int]]) -> str:
    name = operation.inputs[0]
    if not ranges:
        return name
    axes, starts, ends, steps = zip(*ranges, strict=True)
    both = [
        each[0] if len(each) == 1 else operation.add("Concat", *each, axis=0)
        for each in (starts, ends)
    ]
    return operation.add(
        "Slice", name, *both, operation.integers(*axes), operation.integers(*steps)
    )
