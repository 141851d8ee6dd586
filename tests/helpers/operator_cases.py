"""The operator cases of the onnx package, made in an eighth of the time.

The package computes some 1900 cases as their modules are imported: poolings window by window in
Python, and beside each case the text of the function that makes it, for its documentation.
"""

from __future__ import annotations

from functools import reduce

import numpy as np
from onnx.backend.test.case import base
from onnx.reference.ops import op_pool_common

window_by_window = op_pool_common.pool


def pool(padded, x_shape, kernel, strides, out_shape, pooling_type, pads_required=None,
         pads=None, dilations=None, count_include_pad=0, p=1):  # fmt: skip
    """Pools all windows at once, as the package does one after the other."""
    rank = len(kernel)
    steps, spread = strides or [1] * rank, dilations if dilations is not None else [1] * rank
    more, within = (_both_ends(each, rank) for each in (pads_required, pads))
    places, inside, numbers = [], [], []
    for axis in range(rank):
        size = x_shape[axis + 2]
        reach = 1 + (kernel[axis] - 1) * spread[axis]
        numbers.append(int((size + more[axis] - reach) / steps[axis] + 1))
        starts = steps[axis] * np.arange(numbers[-1])
        place = starts[:, None] + spread[axis] * np.arange(kernel[axis])
        around = [1] * (2 * rank)
        around[axis], around[rank + axis] = place.shape
        places.append(np.minimum(place, padded.shape[axis + 2] - 1).reshape(around))
        inside.append((place < size + within[axis]).reshape(around))
    values = padded[(slice(None), slice(None), *places)]
    kept = np.broadcast_to(reduce(np.logical_and, inside), values.shape)
    if not count_include_pad or pooling_type == "MAX":
        kept = kept & ~np.isnan(values)
    found = np.zeros([*x_shape[:2], *out_shape], padded.dtype)
    axes = tuple(range(-rank, 0))
    found[(slice(None), slice(None), *map(slice, numbers))] = REDUCED[pooling_type](
        values, kept, axes, p
    )
    return found


#: How the values of windows become one, by the kind of pooling.
REDUCED = {
    "AVG": lambda values, kept, axes, _: values.sum(axes, where=kept) / kept.sum(axes),
    "MAX": lambda values, kept, axes, _: values.max(axes, where=kept, initial=values[kept].min()),
    "LPPOOL": lambda values, kept, axes, p: (np.abs(values) ** p).sum(axes, where=kept) ** (1 / p),
}


def _both_ends(pads, rank):
    """Elements that are added to each axis."""
    pads = [0, 0] * rank if pads is None else pads
    return [pads[axis] + pads[rank + axis] for axis in range(rank)]


def hasten(patch):
    """Has modules of cases that are imported from now on take no longer than they need."""
    patch.setattr(op_pool_common, "pool", pool)
    patch.setattr(base, "process_snippet", lambda *_: ("", ""))
