"""The canonical form of one layer: defaults written, spellings resolved.

``CANONICAL`` holds one small function per operator. Steps that all operators share (defaults,
non-negative axes) come before it, trimming comes after it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from dlbricks_core.passes.forms import rules, windows
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
    "Attention": rules.attention,
    "AveragePool": windows.pooling,
    "BatchNormalization": rules.batch_normalization,
    "Cast": rules.cast,
    "CastLike": rules.cast_like,
    "CenterCropPad": rules.center_crop_pad,
    "Clip": rules.clip,
    "Col2Im": windows.block_columns,
    "Concat": rules.concat,
    "Conv": windows.convolution,
    "ConvInteger": windows.convolution,
    "ConvTranspose": windows.transposed_convolution,
    "CumProd": partial(rules.axis_scalar, position=1),
    "CumSum": partial(rules.axis_scalar, position=1),
    "DFT": rules.dft,
    "DeformConv": windows.convolution,
    "DequantizeLinear": rules.quantization,
    "Dropout": rules.dropout,
    "Einsum": rules.einsum,
    "Expand": rules.expand,
    "EyeLike": rules.eye_like,
    "GRU": rules.recurrent,
    "LSTM": rules.recurrent,
    "LpPool": windows.pooling,
    "MaxPool": windows.pooling,
    "MaxUnpool": windows.unpooling,
    "MeanVarianceNormalization": rules.mean_variance_normalization,
    "NonMaxSuppression": rules.non_max_suppression,
    "OneHot": rules.one_hot,
    "Pad": rules.pad,
    "QLinearConv": partial(windows.convolution, weight=3),
    "QuantizeLinear": rules.quantization,
    "RNN": rules.recurrent,
    "Range": rules.range_,
    **{f"Reduce{kind}": rules.reduction for kind in _REDUCTIONS},
    "Reshape": rules.reshape,
    "Resize": rules.resize,
    "Shape": rules.shape,
    "Size": rules.size,
    "Slice": rules.slice_,
    "Split": rules.split,
    "Squeeze": rules.squeeze,
    "TopK": rules.top_k,
    "Transpose": rules.transpose,
    "Trilu": rules.trilu,
    "Unsqueeze": rules.unsqueeze,
}

CANONICALIZE = Pass.of(
    canonicalize,
    requires=[Property.VALID, Property.OPSET_CANONICAL],
    ensures=[Property.FORM_CANONICAL],
)
