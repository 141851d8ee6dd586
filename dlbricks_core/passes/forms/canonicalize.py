"""The canonical form of one layer: defaults written, spellings resolved.

``CANONICAL`` holds one small function per operator. Steps that all operators share (defaults,
non-negative axes) come before it, trimming comes after it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from dlbricks_core.passes.forms import (
    attention,
    attributes,
    axes,
    idle,
    numbers,
    resize,
    results,
    sizes,
    windows,
)
from dlbricks_core.passes.forms.draft import LayerDraft
from dlbricks_core.passes.pipeline import Pass, Property
from dlbricks_core.passes.schemas import defaults, late_defaults

#: Attributes that only concern random numbers or training.
_IRRELEVANT = ("momentum", "seed")


def canonicalize(draft: LayerDraft) -> None:
    """Brings a layer that follows the canonical definition into canonical form.

    Raises:
        UnsupportedError: If the canonical form cannot express the layer.
    """
    given = draft.attributes
    for name, default in defaults(draft.op).items():
        given.setdefault(name, default)
    for name, default in late_defaults(draft.op).items():
        if given.get(name) == default:
            del given[name]
    axis = given.get("axis")
    if isinstance(axis, int) and axis < 0 and draft.op != "OneHot":
        given["axis"] = axis + draft.rank()
    step = CANONICAL.get(draft.op)
    if step is not None:
        step(draft)
    for name in _IRRELEVANT:
        given.pop(name, None)
    for names in (draft.inputs, draft.outputs):
        while names and not names[-1]:
            names.pop()


_REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")

#: Operator -> function for the particulars of its canonical form.
CANONICAL: Mapping[str, Callable[[LayerDraft], None]] = {
    "Attention": attention.attention,
    "AveragePool": windows.pooling,
    "BatchNormalization": idle.batch_normalization,
    "Cast": idle.cast,
    "CastLike": idle.cast_like,
    "CenterCropPad": sizes.center_crop_pad,
    "Clip": numbers.clip,
    "Col2Im": windows.block_columns,
    "Concat": attributes.concat,
    "Conv": windows.convolution,
    "ConvInteger": windows.convolution,
    "ConvTranspose": windows.transposed_convolution,
    "CumProd": partial(axes.axis_scalar, position=1),
    "CumSum": partial(axes.axis_scalar, position=1),
    "DFT": axes.dft,
    "DeformConv": windows.convolution,
    "DequantizeLinear": attributes.quantization,
    "Dropout": idle.dropout,
    "Einsum": attributes.einsum,
    "Expand": sizes.expand,
    "EyeLike": results.eye_like,
    "GRU": attributes.recurrent,
    "LSTM": attributes.recurrent,
    "LpPool": windows.pooling,
    "MaxPool": windows.pooling,
    "MaxUnpool": windows.unpooling,
    "MeanVarianceNormalization": attributes.mean_variance_normalization,
    "NonMaxSuppression": numbers.non_max_suppression,
    "OneHot": axes.one_hot,
    "Pad": sizes.pad,
    "QLinearConv": partial(windows.convolution, weight=3),
    "QuantizeLinear": attributes.quantization,
    "RNN": attributes.recurrent,
    "Range": numbers.range_,
    **{f"Reduce{kind}": axes.reduction for kind in _REDUCTIONS},
    "Reshape": sizes.reshape,
    "Resize": resize.resize,
    "Shape": results.shape,
    "Size": results.size,
    "Slice": sizes.slice_,
    "Split": sizes.split,
    "Squeeze": axes.squeeze,
    "TopK": numbers.top_k,
    "Transpose": attributes.transpose,
    "Trilu": numbers.trilu,
    "Unsqueeze": axes.unsqueeze,
}

CANONICALIZE = Pass.of(
    canonicalize,
    requires=[Property.VALID, Property.OPSET_CANONICAL],
    ensures=[Property.FORM_CANONICAL],
)
