"""Layers whose results follow from the shapes of their inputs: no layer has to compute them."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from dlbricks_core.ir import Array, TensorSpec, numpy_dtype
from dlbricks_core.ir.limits import MAX_CONSTANT_ELEMENTS
from dlbricks_core.ir.tensors import DTYPE_NAMES
from dlbricks_core.passes.forms.draft import LayerDraft


def _result(draft: LayerDraft, output: str, value: Array) -> None:
    draft.constant(output, value)
    draft.results[output] = value


def filled(
    draft: LayerDraft, output: str, spec: TensorSpec, fill: Callable[[tuple[int, ...]], Array]
) -> None:
    """A result that is known by its shape; its value is made only where it is small."""
    if spec.elements <= MAX_CONSTANT_ELEMENTS:
        _result(draft, output, fill(spec.sizes).astype(numpy_dtype(spec.dtype)))
        return
    draft.specs[output] = spec
    draft.results[output] = None


def shape(draft: LayerDraft) -> None:
    """Shape: a constant."""
    start, end = draft.attributes["start"], draft.attributes.get("end")
    assert isinstance(start, int)
    assert end is None or isinstance(end, int)
    sizes = draft.sizes()[slice(start, end)]
    _result(draft, draft.outputs[0], np.array(sizes, dtype=np.int64))


def size(draft: LayerDraft) -> None:
    """Size: a constant."""
    _result(draft, draft.outputs[0], np.array(math.prod(draft.sizes()), dtype=np.int64))


def eye_like(draft: LayerDraft) -> None:
    """EyeLike: a constant, where it is small."""
    number = draft.attributes.get("dtype")
    dtype = DTYPE_NAMES[number] if isinstance(number, int) else draft.spec(0).dtype
    diagonal = draft.attributes["k"]
    assert isinstance(diagonal, int)
    rows, columns = draft.sizes()
    spec = TensorSpec(dtype, (rows, columns))
    filled(draft, draft.outputs[0], spec, lambda sizes: np.eye(sizes[0], sizes[1], diagonal))
