"""Canonical form of layers whose parameters come as inputs: axes, sizes, pads, bounds."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from dlbricks_core.errors import INVALID_MODEL, ModelError
from dlbricks_core.ir import numpy_dtype
from dlbricks_core.ir.limits import MAX_ELEMENTS
from dlbricks_core.passes.draft import Array, Draft


def scalar(draft: Draft, position: int) -> None:
    """A known input of one element gets rank 0."""
    value = draft.value(position)
    if value is not None and value.size == 1 and value.ndim:
        draft.put(position, value.reshape(()))


def scalars(draft: Draft) -> None:
    """Every known input gets rank 0."""
    for position in range(len(draft.inputs)):
        scalar(draft, position)


def range_(draft: Draft) -> None:
    """Known numbers get rank 0; they must come to an end."""
    scalars(draft)
    start, limit, delta = (draft.value(position) for position in range(3))
    if start is None or limit is None or delta is None:
        return
    steps = (float(limit) - float(start)) / float(delta) if delta else math.inf
    if not steps <= MAX_ELEMENTS:
        raise ModelError(
            f"Range from {start} to {limit} by {delta} has more than {MAX_ELEMENTS} elements",
            hint="The file is damaged, or sizes given for dynamic dimensions do not fit.",
        )


def axis_scalar(draft: Draft, position: int) -> None:
    """A known axis that is an input: 64-bit, rank 0, not negative."""
    axis = draft.integers(position)
    if axis is not None:
        draft.put(position, np.array(axis[0] % max(draft.rank(), 1), dtype=np.int64))


def _axes(draft: Draft, position: int, rank: int, default: Iterable[int]) -> list[int] | None:
    """Axes that are an input, not negative and sorted; ``None`` if they are not known."""
    if draft.is_open(position):
        return None
    given = draft.integers(position)
    return sorted(axis % rank for axis in given) if given else list(default)


def reduction(draft: Draft) -> None:
    """ReduceX: always with axes."""
    keeps_all = draft.take("noop_with_empty_axes") == 1
    if keeps_all and (draft.is_open(1) or not draft.integers(1)):
        draft.attributes["noop_with_empty_axes"] = 1
        return
    axes = _axes(draft, 1, draft.rank(), range(draft.rank()))
    if axes is not None:
        draft.put_integers(1, axes)


def squeeze(draft: Draft) -> None:
    """Without axes, all those of size 1."""
    sizes = draft.sizes()
    ones = [axis for axis, size in enumerate(sizes) if size == 1]
    axes = _axes(draft, 1, len(sizes), ones)
    if axes is not None:
        draft.put_integers(1, axes)


def unsqueeze(draft: Draft) -> None:
    """Axes count in the result."""
    given = draft.integers(1)
    if given is not None:
        rank = draft.rank() + len(given)
        draft.put_integers(1, sorted(axis % rank for axis in given))


def reshape(draft: Draft) -> None:
    """Names the full resulting shape."""
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
            hint="Check the sizes given for dynamic dimensions.",
        )
    if 0 in target:
        draft.attributes["allowzero"] = 1
    draft.put_integers(1, target)


def expand(draft: Draft) -> None:
    """Names the full resulting shape."""
    target = draft.integers(1)
    if target is not None:
        draft.put_integers(1, np.broadcast_shapes(draft.sizes(), tuple(target)))


def slice_(draft: Draft) -> None:
    """All of starts, ends, axes and steps, clamped, for the axes that are cut."""
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
    """First index and the one that is too far, as the definition of Slice clamps them."""
    start, end = (at + size if at < 0 else at for at in (start, end))
    if step > 0:
        start = min(max(start, 0), size)
        return start, min(max(end, start), size)
    start = min(max(start, 0), max(size - 1, 0))
    end = min(max(end, -1), start)
    return start, end if end >= 0 else -size - 1  # an end of -1 would mean the last element


def split(draft: Draft) -> None:
    """Sizes, never a number of outputs."""
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


def pad(draft: Draft) -> None:
    """Pads of every axis, and the constant where one is used."""
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


def clip(draft: Draft) -> None:
    """No bound where it is the type's own."""
    dtype: Any = numpy_dtype(draft.spec(0).dtype)
    for position, sign in ((1, -1), (2, 1)):
        scalar(draft, position)
        value = draft.value(position)
        if value is not None and dtype.kind == "f" and value * sign >= np.finfo(dtype).max:
            draft.leave_out(position)


def top_k(draft: Draft) -> None:
    """One element."""
    count = draft.integers(1)
    if count is not None:
        draft.put_integers(1, count)


def one_hot(draft: Draft) -> None:
    """The new axis counts in the result; depth is a scalar."""
    scalar(draft, 1)
    axis = draft.attributes["axis"]
    assert isinstance(axis, int)
    draft.attributes["axis"] = axis % (draft.rank() + 1)


def trilu(draft: Draft) -> None:
    """The diagonal is written."""
    if not draft.has(1):
        draft.put(1, np.array(0, dtype=np.int64))
    scalar(draft, 1)


def dft(draft: Draft) -> None:
    """The axis is written; no length where it is the signal's."""
    if not draft.has(2):
        draft.put(2, np.array(draft.rank() - 2, dtype=np.int64))
    axis_scalar(draft, 2)
    axis, length = draft.integers(2), draft.integers(1)
    half = draft.attributes["onesided"] and draft.attributes["inverse"]
    if axis and length == [draft.sizes()[axis[0]]] and not half:
        draft.leave_out(1)


def center_crop_pad(draft: Draft) -> None:
    """The axes are written, in the order of the sizes."""
    rank = draft.rank()
    axes = draft.attributes.get("axes") or range(rank)
    assert isinstance(axes, tuple | range)
    draft.attributes["axes"] = tuple(axis % rank for axis in axes)


def non_max_suppression(draft: Draft) -> None:
    """Limits are written, each as one element."""
    for position, default in ((2, np.int64(0)), (3, np.float32(0))):
        if not draft.has(position):
            draft.put(position, np.array([default]))
    for position in (2, 3, 4):
        value = draft.value(position)
        if value is not None:
            draft.put(position, value.reshape(1))


def resize(draft: Draft) -> None:
    """All axes; sizes where they say the same as scales; only what the mode uses."""
    attributes = draft.attributes
    crops = attributes["coordinate_transformation_mode"] == "tf_crop_and_resize"
    for position in (1, 2, 3):
        if draft.has(position) and 0 in draft.sizes(position):
            draft.leave_out(position)
    if not crops:
        draft.leave_out(1)
        draft.take("extrapolation_value")
    if attributes["mode"] != "cubic":
        draft.take("cubic_coeff_a")
    if attributes["mode"] != "nearest":
        draft.take("nearest_mode")
    if not draft.has(3):
        attributes["keep_aspect_ratio_policy"] = "stretch"
    elif attributes["keep_aspect_ratio_policy"] != "stretch":
        return
    if any(draft.is_open(position) for position in (1, 2, 3)):
        return
    shape, rank = draft.sizes(), draft.rank()
    given = attributes.get("axes") or range(rank)
    assert isinstance(given, tuple | range)
    axes = [axis % rank for axis in given]
    sizes, scales = draft.integers(3), draft.value(2)
    if sizes is None and scales is not None and not crops:
        sizes = _exact_sizes([shape[axis] for axis in axes], scales)
    draft.take("axes")
    if crops and draft.has(1):
        region = draft.value(1)
        assert region is not None
        full = np.concatenate([np.zeros(rank), np.ones(rank)]).astype(region.dtype)
        for i, axis in enumerate(axes):
            full[axis], full[rank + axis] = region[i], region[i + len(axes)]
        draft.put(1, full)
    if sizes is not None:
        full_sizes = list(shape)
        for axis, size in zip(axes, sizes, strict=True):
            full_sizes[axis] = size
        draft.leave_out(2)
        draft.put_integers(3, full_sizes)
    elif scales is not None:
        full_scales = np.ones(rank, dtype=np.float32)
        full_scales[axes] = scales
        draft.put(2, full_scales)


def _exact_sizes(shape: list[int], scales: Array) -> list[int] | None:
    """Sizes that stand for exactly these scales, if there are any."""
    sizes = [math.floor(size * float(scale)) for size, scale in zip(shape, scales, strict=True)]
    for size, scale, result in zip(shape, scales, sizes, strict=True):
        if not size or np.float32(result / size) != scale:
            return None
    return sizes
