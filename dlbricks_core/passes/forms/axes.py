"""Canonical form of layers that name axes, as an attribute or as an input."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from dlbricks_core.passes.forms.draft import LayerDraft
from dlbricks_core.passes.forms.numbers import scalar


def axis_scalar(draft: LayerDraft, position: int) -> None:
    """Makes a known axis that is an input a non-negative 64-bit number of rank 0."""
    axis = draft.integers(position)
    if axis is not None:
        draft.put(position, np.array(axis[0] % max(draft.rank(), 1), dtype=np.int64))


def _axes(draft: LayerDraft, position: int, rank: int, default: Iterable[int]) -> list[int] | None:
    """Axes that are an input, sorted and non-negative; ``None`` if they are unknown."""
    if draft.is_open(position):
        return None
    given = draft.integers(position)
    return sorted(axis % rank for axis in given) if given else list(default)


def reduction(draft: LayerDraft) -> None:
    """ReduceX: always with axes, sorted and non-negative."""
    keeps_all = draft.take("noop_with_empty_axes") == 1
    if keeps_all and (draft.is_open(1) or not draft.integers(1)):
        draft.attributes["noop_with_empty_axes"] = 1
        return
    axes = _axes(draft, 1, draft.rank(), range(draft.rank()))
    if axes is not None:
        draft.put_integers(1, axes)


def squeeze(draft: LayerDraft) -> None:
    """Squeeze: always with axes; by default all axes of size 1."""
    sizes = draft.sizes()
    ones = [axis for axis, size in enumerate(sizes) if size == 1]
    axes = _axes(draft, 1, len(sizes), ones)
    if axes is not None:
        draft.put_integers(1, axes)


def unsqueeze(draft: LayerDraft) -> None:
    """Unsqueeze: axes are sorted and non-negative, counted in the result."""
    given = draft.integers(1)
    if given is not None:
        rank = draft.rank() + len(given)
        draft.put_integers(1, sorted(axis % rank for axis in given))


def one_hot(draft: LayerDraft) -> None:
    """OneHot: the axis is non-negative, counted in the result; the depth has rank 0."""
    scalar(draft, 1)
    axis = draft.attributes["axis"]
    assert isinstance(axis, int)
    draft.attributes["axis"] = axis % (draft.rank() + 1)


def dft(draft: LayerDraft) -> None:
    """DFT: always with the axis; the length is left out if it is the signal's."""
    if not draft.has(2):
        draft.put(2, np.array(draft.rank() - 2, dtype=np.int64))
    axis_scalar(draft, 2)
    axis, length = draft.integers(2), draft.integers(1)
    half = draft.attributes["onesided"] and draft.attributes["inverse"]
    if axis and length == [draft.sizes()[axis[0]]] and not half:
        draft.leave_out(1)
