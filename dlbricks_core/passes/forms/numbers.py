"""Canonical form of layers whose parameters are numbers: bounds, counts, diagonals, limits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dlbricks_core.errors import ModelError
from dlbricks_core.ir import numpy_dtype
from dlbricks_core.ir.limits import MAX_ELEMENTS
from dlbricks_core.passes.forms.draft import LayerDraft


def scalar(draft: LayerDraft, position: int) -> None:
    """Gives a known input of one element rank 0."""
    value = draft.value(position)
    if value is not None and value.size == 1 and value.ndim:
        draft.put(position, value.reshape(()))


def scalars(draft: LayerDraft) -> None:
    """Gives every known input of one element rank 0."""
    for position in range(len(draft.inputs)):
        scalar(draft, position)


def range_(draft: LayerDraft) -> None:
    """Range: known inputs have rank 0, and the result is not too long."""
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


def clip(draft: LayerDraft) -> None:
    """Clip: bounds have rank 0; a bound that is the limit of the type is left out."""
    dtype: Any = numpy_dtype(draft.spec(0).dtype)
    for position, sign in ((1, -1), (2, 1)):
        scalar(draft, position)
        value = draft.value(position)
        if value is not None and dtype.kind == "f" and value * sign >= np.finfo(dtype).max:
            draft.leave_out(position)


def top_k(draft: LayerDraft) -> None:
    """TopK: the count is a list of one element."""
    count = draft.integers(1)
    if count is not None:
        draft.put_integers(1, count)


def trilu(draft: LayerDraft) -> None:
    """Trilu: always with the number of the diagonal."""
    if not draft.has(1):
        draft.put(1, np.array(0, dtype=np.int64))
    scalar(draft, 1)


def non_max_suppression(draft: LayerDraft) -> None:
    """NonMaxSuppression: always with its limits, each a list of one element."""
    for position, default in ((2, np.int64(0)), (3, np.float32(0))):
        if not draft.has(position):
            draft.put(position, np.array([default]))
    for position in (2, 3, 4):
        value = draft.value(position)
        if value is not None:
            draft.put(position, value.reshape(1))
