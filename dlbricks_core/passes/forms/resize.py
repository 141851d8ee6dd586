"""Canonical form of Resize."""

from __future__ import annotations

import math

import numpy as np

from dlbricks_core.ir import Array
from dlbricks_core.passes.forms.draft import LayerDraft


def resize(draft: LayerDraft) -> None:
    """Resize: all axes, sizes instead of equal scales, and only the inputs that the mode uses."""
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
    """Sizes that mean exactly these scales; ``None`` if there are none."""
    sizes = [math.floor(size * float(scale)) for size, scale in zip(shape, scales, strict=True)]
    for size, scale, result in zip(shape, scales, sizes, strict=True):
        if not size or np.float32(result / size) != scale:
            return None
    return sizes
