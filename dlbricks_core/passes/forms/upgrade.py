"""Brings layers that follow older operator definitions up to the canonical opset.

``UPGRADES`` holds functions by operator. Each carries a layer over an opset in which the form of
the operator changed. Changes that only added element types, broadcasting, or attributes whose
default is the old behaviour need no function.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from dlbricks_core.errors import UnsupportedError
from dlbricks_core.ir import Layer, numpy_dtype
from dlbricks_core.passes.forms.draft import LayerDraft
from dlbricks_core.passes.pipeline import Pass, Property

Upgrade = Callable[[LayerDraft], None]

#: Version later than any opset, for operators that the canonical opset does not have by this name.
_ALWAYS = 1 << 30


def upgrade(draft: LayerDraft) -> None:
    """Brings a draft that follows an older definition up to the canonical one.

    Raises:
        UnsupportedError: If the canonical definition cannot express the same.
    """
    for first, step in UPGRADES.get(draft.op, ()):
        if draft.since < first:
            step(draft)


def _integers_to_input(draft: LayerDraft, attribute: str, position: int) -> None:
    values = draft.take(attribute)
    if values is not None:
        draft.put_integers(position, [values] if isinstance(values, int) else values)


def _clip(draft: LayerDraft) -> None:
    dtype = numpy_dtype(draft.spec(0).dtype)
    for position, bound in enumerate(("min", "max"), start=1):
        value = draft.take(bound)
        # Old definitions wrote "no bound" as the largest float32.
        if value is not None and abs(value) < np.finfo(np.float32).max:
            draft.put(position, np.array(value, dtype=dtype))


def _pad(draft: LayerDraft) -> None:
    _integers_to_input(draft, "pads", 1)
    value = draft.take("value")
    if value is not None:
        draft.put(2, np.array(value, dtype=numpy_dtype(draft.spec(0).dtype)))


def _slice(draft: LayerDraft) -> None:
    for position, name in enumerate(("starts", "ends", "axes"), start=1):
        _integers_to_input(draft, name, position)


def _dropout(draft: LayerDraft) -> None:
    draft.take("ratio")


def _two_axes(draft: LayerDraft) -> None:
    """Softmax and its kin over all axes from ``axis`` on, as if they were one."""
    axis = draft.attributes.get("axis", 1)
    assert isinstance(axis, int)
    sizes = draft.sizes()
    axis %= max(len(sizes), 1)
    if math.prod(sizes[axis + 1 :]) == 1:
        draft.attributes["axis"] = axis
        return
    matrix = (math.prod(sizes[:axis]), math.prod(sizes[axis:]))
    data, result = draft.inputs[0], draft.outputs[0]
    flat = draft.constant("matrix", np.array(matrix, dtype=np.int64))
    full = draft.constant("shape", np.array(sizes, dtype=np.int64))
    draft.before.append(Layer("Reshape", (data, flat), ("flat",)))
    draft.inputs, draft.outputs, draft.attributes["axis"] = ["flat"], ["flat_result"], 1
    draft.after.append(Layer("Reshape", ("flat_result", full), (result,)))


def _batch_normalization(draft: LayerDraft) -> None:
    if draft.take("spatial") == 0 and math.prod(draft.sizes()[2:]) != 1:
        raise UnsupportedError("BatchNormalization with statistics for each position (spatial=0)")
    if any(draft.outputs[1:]):
        raise UnsupportedError("BatchNormalization in training mode")


def _upsample_scales(draft: LayerDraft) -> None:
    scales = draft.take("scales")
    draft.put(1, np.array(scales, dtype=np.float32))


def _upsample(draft: LayerDraft) -> None:
    """Upsample: a Resize of the first definition, except for the position of its sample points."""
    data, scales = draft.inputs
    mode = draft.attributes.get("mode", "nearest")
    draft.become("Resize", data, scales, mode="linear" if mode == "bilinear" else mode)
    _resize_10(draft)


def _resize_10(draft: LayerDraft) -> None:
    draft.inputs.insert(1, "")
    draft.attributes["coordinate_transformation_mode"] = "asymmetric"
    draft.attributes["nearest_mode"] = "floor"


def _resize_11(draft: LayerDraft) -> None:
    mode = draft.attributes.get("coordinate_transformation_mode")
    if mode == "tf_half_pixel_for_nn":
        raise UnsupportedError(f"Resize with coordinate_transformation_mode {mode!r}")


def _roi_align(draft: LayerDraft) -> None:
    draft.attributes["coordinate_transformation_mode"] = "output_half_pixel"


def _grid_sample(draft: LayerDraft) -> None:
    mode = draft.attributes.get("mode", "bilinear")
    names = {"bilinear": "linear", "bicubic": "cubic"}
    draft.attributes["mode"] = names.get(str(mode), mode)


def _group_normalization(draft: LayerDraft) -> None:
    """Scale and bias for each group become scale and bias for each channel."""
    groups, channels = draft.sizes(1)[0], draft.sizes()[1]
    if groups == channels:
        return
    column = draft.constant("column", np.array([groups, 1], dtype=np.int64))
    table = draft.constant("table", np.array([groups, channels // groups], dtype=np.int64))
    flat = draft.constant("channels", np.array([channels], dtype=np.int64))
    for position, name in enumerate(("scale", "bias"), start=1):
        given = draft.inputs[position]
        draft.before += [
            Layer("Reshape", (given, column), (f"{name}_column",)),
            Layer("Expand", (f"{name}_column", table), (f"{name}_table",)),
            Layer("Reshape", (f"{name}_table", flat), (name,)),
        ]
        draft.inputs[position] = name


def _dft(draft: LayerDraft) -> None:
    axis = draft.take("axis")
    draft.put(2, np.array(1 if axis is None else axis, dtype=np.int64))


def _scatter(draft: LayerDraft) -> None:
    draft.op = "ScatterElements"


_REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare")

#: Operator -> (first opset with a new form, function that turns the old form into it), ascending.
UPGRADES: Mapping[str, Sequence[tuple[int, Upgrade]]] = {
    "BatchNormalization": [(14, _batch_normalization)],
    "Clip": [(11, _clip)],
    "DFT": [(20, _dft)],
    "Dropout": [(12, _dropout)],
    "GridSample": [(20, _grid_sample)],
    "GroupNormalization": [(21, _group_normalization)],
    "Hardmax": [(13, _two_axes)],
    "LogSoftmax": [(13, _two_axes)],
    "Pad": [(11, _pad)],
    **{
        f"Reduce{kind}": [(18, partial(_integers_to_input, attribute="axes", position=1))]
        for kind in _REDUCTIONS
    },
    "ReduceSum": [(13, partial(_integers_to_input, attribute="axes", position=1))],
    "Resize": [(11, _resize_10), (13, _resize_11)],
    "RoiAlign": [(16, _roi_align)],
    "Scatter": [(_ALWAYS, _scatter)],
    "Slice": [(10, _slice)],
    "Softmax": [(13, _two_axes)],
    "Split": [(13, partial(_integers_to_input, attribute="split", position=1))],
    "Squeeze": [(13, partial(_integers_to_input, attribute="axes", position=1))],
    "TopK": [(10, partial(_integers_to_input, attribute="k", position=1))],
    "Unsqueeze": [(13, partial(_integers_to_input, attribute="axes", position=1))],
    "Upsample": [(9, _upsample_scales), (_ALWAYS, _upsample)],
}

UPGRADE = Pass.of(
    upgrade,
    requires=[Property.INPUTS_STATIC, Property.DEFINED, Property.VALID],
    ensures=[Property.OPSET_CANONICAL],
)
