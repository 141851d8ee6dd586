"""Canonical form of layers that name sizes of their result, its parts or its borders."""

from __future__ import annotations

import math

import numpy as np

from dlbricks_core.errors import INVALID_MODEL, WRONG_SIZES, ModelError
from dlbricks_core.ir import numpy_dtype
from dlbricks_core.passes.forms.draft import LayerDraft
from dlbricks_core.passes.forms.numbers import scalar


def reshape(draft: LayerDraft) -> None:
    """Reshape: names the full resulting shape."""
    target = draft.integers(1)
    zero_is_zero = draft.take("allowzero")
    if target is None:
        draft.attributes["allowzero"] = zero_is_zero
        return
    sizes = draft.sizes()
    if not zero_is_zero:
        target = [sizes[i] if size == 0 else size for i, size in enumerate(target)]
    if -1 in target:
        rest = math.prod(size for size in target if size != -1)
        target[target.index(-1)] = math.prod(sizes) // rest if rest else 0
    if math.prod(target) != math.prod(sizes):
        raise ModelError(
            f"Reshape does not fit its inputs: {sizes} cannot become {tuple(target)}",
            hint=WRONG_SIZES,
        )
    if 0 in target:
        draft.attributes["allowzero"] = 1
    draft.put_integers(1, target)


def expand(draft: LayerDraft) -> None:
    """Expand: names the full resulting shape."""
    target = draft.integers(1)
    if target is not None:
        draft.put_integers(1, np.broadcast_shapes(draft.sizes(), tuple(target)))


def slice_(draft: LayerDraft) -> None:
    """Slice: always with starts, ends, axes and steps, clamped, of the axes that are cut."""
    if any(draft.is_open(position) for position in (1, 2, 3, 4)):
        return
    starts, ends = draft.integers(1) or [], draft.integers(2) or []
    rank = draft.rank()
    axes = [axis % rank for axis in draft.integers(3) or range(len(starts))]
    steps = draft.integers(4) or [1] * len(starts)
    cuts = []
    for axis, start, end, step in sorted(zip(axes, starts, ends, steps, strict=True)):
        cuts.append((*_clamped(start, end, step, draft.sizes()[axis]), axis, step))
    cut = [c for c in cuts if c[0] != 0 or c[1] != draft.sizes()[c[2]] or c[3] != 1]
    for position, values in enumerate(zip(*(cut or cuts[:1]), strict=True), start=1):
        draft.put_integers(position, values)


def _clamped(start: int, end: int, step: int, size: int) -> tuple[int, int]:
    """First index and end of a cut, clamped as the definition of Slice demands."""
    start, end = (at + size if at < 0 else at for at in (start, end))
    if step > 0:
        start = min(max(start, 0), size)
        return start, min(max(end, start), size)
    start = min(max(start, 0), max(size - 1, 0))
    end = min(max(end, -1), start)
    return start, end if end >= 0 else -size - 1  # an end of -1 would mean the last element


def split(draft: LayerDraft) -> None:
    """Split: always with sizes, never with a number of outputs."""
    parts = draft.take("num_outputs")
    if parts not in (None, len(draft.outputs)):
        raise ModelError(
            f"Split has {len(draft.outputs)} outputs, its num_outputs says {parts}",
            hint=INVALID_MODEL,
        )
    if draft.has(1):
        sizes = draft.integers(1)
        if sizes is not None:
            draft.put_integers(1, sizes)
        return
    axis = draft.attributes["axis"]
    assert isinstance(axis, int)
    size, parts = draft.sizes()[axis], len(draft.outputs)
    part = -(-size // parts)
    draft.put_integers(1, [part] * (parts - 1) + [size - part * (parts - 1)])


def pad(draft: LayerDraft) -> None:
    """Pad: always with pads of all axes; with the constant only if the mode uses it."""
    if draft.attributes["mode"] != "constant":
        draft.leave_out(2)
    elif not draft.has(2):
        draft.put(2, np.zeros((), dtype=numpy_dtype(draft.spec(0).dtype)))
    else:
        scalar(draft, 2)
    if draft.is_open(1) or draft.is_open(3):
        return
    rank, pads = draft.rank(), draft.integers(1) or []
    axes = [axis % rank for axis in draft.integers(3) or range(len(pads) // 2)]
    begins, ends = [0] * rank, [0] * rank
    for i, axis in enumerate(axes):
        begins[axis], ends[axis] = pads[i], pads[i + len(axes)]
    draft.put_integers(1, begins + ends)
    draft.leave_out(3)


def center_crop_pad(draft: LayerDraft) -> None:
    """CenterCropPad: always with axes, in the order of the sizes."""
    rank = draft.rank()
    axes = draft.attributes.get("axes") or range(rank)
    assert isinstance(axes, tuple | range)
    draft.attributes["axes"] = tuple(axis % rank for axis in axes)
