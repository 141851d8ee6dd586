"""The canonical form of one layer: defaults written, spellings resolved.

``CANONICAL`` holds one small function per operator. Steps that all operators share (defaults,
non-negative axes) come before it, trimming comes after it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from dlbricks_core.errors import INVALID_MODEL, ModelError
from dlbricks_core.ir.limits import MAX_AXES
from dlbricks_core.passes.forms import rules
from dlbricks_core.passes.forms.draft import LayerDraft
from dlbricks_core.passes.pipeline import Property, properties
from dlbricks_core.passes.schemas import defaults, late_defaults

# Canonical form of layers with sliding windows: kernel, strides, dilations and pads.


def _written(draft: LayerDraft, name: str, default: Sequence[int]) -> list[int]:
    """Writes an attribute that has one value for each axis, and returns it."""
    given = draft.attributes.get(name)
    values = list(given) if isinstance(given, tuple) and given else list(default)
    draft.attributes[name] = tuple(values)
    return values


def _padding(total: int, *, more_at_end: bool) -> tuple[int, int]:
    small, large = total // 2, total - total // 2
    return (small, large) if more_at_end else (large, small)


def _set_pads(draft: LayerDraft, pads: Sequence[tuple[int, int]]) -> None:
    draft.attributes["pads"] = (*(begin for begin, _ in pads), *(end for _, end in pads))


def _extents(kernel: Sequence[int], dilations: Sequence[int]) -> list[int]:
    """Size of the dilated window along each axis."""
    return [(size - 1) * dilation + 1 for size, dilation in zip(kernel, dilations, strict=True)]


def _window(draft: LayerDraft, kernel: Sequence[int]) -> None:
    """Writes kernel, strides, dilations and pads; ``auto_pad`` becomes pads."""
    kernel = _written(draft, "kernel_shape", kernel)
    strides = _written(draft, "strides", [1] * len(kernel))
    extents = _extents(kernel, _written(draft, "dilations", [1] * len(kernel)))
    auto = draft.take("auto_pad")
    if auto in (None, "", "NOTSET"):
        _written(draft, "pads", [0] * (2 * len(kernel)))
        return
    if "ceil_mode" in draft.attributes:
        draft.attributes["ceil_mode"] = 0  # automatic padding has a rounding of its own
    totals = [0] * len(kernel)
    if auto != "VALID":
        sizes = draft.sizes()[2:]
        totals = [
            max(0, (-(-size // stride) - 1) * stride + extent - size)
            for size, stride, extent in zip(sizes, strides, extents, strict=True)
        ]
    _set_pads(draft, [_padding(total, more_at_end=auto != "SAME_LOWER") for total in totals])


def convolution(draft: LayerDraft, weight: int = 1) -> None:
    """Conv, ConvInteger, QLinearConv, DeformConv: the kernel has the size of the weight."""
    _window(draft, draft.sizes(weight)[2:])


def pooling(draft: LayerDraft) -> None:
    """MaxPool, AveragePool, LpPool: ``ceil_mode`` is 1 only if it makes a difference."""
    _window(draft, ())
    kernel, strides, dilations, pads = (
        draft.attributes[name] for name in ("kernel_shape", "strides", "dilations", "pads")
    )
    assert isinstance(kernel, tuple)
    assert isinstance(strides, tuple)
    assert isinstance(dilations, tuple)
    assert isinstance(pads, tuple)
    axes = len(kernel)
    if draft.attributes["ceil_mode"]:
        draft.attributes["ceil_mode"] = int(
            any(
                _rounds_up(size, extent, strides[i], pads[i], pads[i + axes])
                for i, (size, extent) in enumerate(
                    zip(draft.sizes()[2:], _extents(kernel, dilations), strict=True)
                )
            )
        )
    if draft.op == "AveragePool" and not any(pads) and not draft.attributes["ceil_mode"]:
        draft.attributes["count_include_pad"] = 0


def _rounds_up(size: int, extent: int, stride: int, begin: int, end: int) -> bool:
    """Whether rounding up adds a window; a window that starts on padding does not count."""
    whole, rest = divmod(size + begin + end - extent, stride)
    return rest != 0 and (whole + 1) * stride < size + begin


def unpooling(draft: LayerDraft) -> None:
    """MaxUnpool: always with strides and pads."""
    kernel = draft.attributes["kernel_shape"]
    assert isinstance(kernel, tuple)
    _written(draft, "strides", [1] * len(kernel))
    _written(draft, "pads", [0] * (2 * len(kernel)))


def block_columns(draft: LayerDraft) -> None:
    """Col2Im: always with strides, dilations and pads."""
    axes = draft.sizes(1)[0]
    if axes > MAX_AXES:
        raise ModelError(
            f"Col2Im has sizes for {axes} axes, more than {MAX_AXES}",
            hint=INVALID_MODEL,
        )
    _written(draft, "strides", [1] * axes)
    _written(draft, "dilations", [1] * axes)
    _written(draft, "pads", [0] * (2 * axes))


def transposed_convolution(draft: LayerDraft) -> None:
    """ConvTranspose: ``output_shape`` and ``auto_pad`` become pads."""
    kernel = _written(draft, "kernel_shape", draft.sizes(1)[2:])
    axes = len(kernel)
    strides = _written(draft, "strides", [1] * axes)
    extents = _extents(kernel, _written(draft, "dilations", [1] * axes))
    extra = _written(draft, "output_padding", [0] * axes)
    auto = draft.take("auto_pad")
    wanted = draft.take("output_shape")
    sizes = draft.sizes()[2:]
    if wanted:
        wanted = wanted[-axes:]
    elif auto in ("SAME_UPPER", "SAME_LOWER"):
        wanted = [size * stride for size, stride in zip(sizes, strides, strict=True)]
    elif auto == "VALID":
        _set_pads(draft, [(0, 0)] * axes)
        return
    else:
        _written(draft, "pads", [0] * (2 * axes))
        return
    totals = [
        stride * (size - 1) + add + extent - target
        for size, stride, add, extent, target in zip(
            sizes, strides, extra, extents, wanted, strict=True
        )
    ]
    draft.attributes["output_padding"] = tuple(
        add - min(total, 0) for add, total in zip(extra, totals, strict=True)
    )
    upper = auto == "SAME_UPPER"
    _set_pads(draft, [_padding(max(total, 0), more_at_end=upper) for total in totals])


#: Attributes that only concern random numbers or training.
_IRRELEVANT = ("momentum", "seed")


@properties(requires=[Property.VALID, Property.OPSET_CANONICAL], ensures=[Property.FORM_CANONICAL])
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
    "AveragePool": pooling,
    "BatchNormalization": rules.batch_normalization,
    "Cast": rules.cast,
    "CastLike": rules.cast_like,
    "CenterCropPad": rules.center_crop_pad,
    "Clip": rules.clip,
    "Col2Im": block_columns,
    "Concat": rules.concat,
    "Conv": convolution,
    "ConvInteger": convolution,
    "ConvTranspose": transposed_convolution,
    "CumProd": partial(rules.axis_scalar, position=1),
    "CumSum": partial(rules.axis_scalar, position=1),
    "DFT": rules.dft,
    "DeformConv": convolution,
    "DequantizeLinear": rules.quantization,
    "Dropout": rules.dropout,
    "Einsum": rules.einsum,
    "Expand": rules.expand,
    "EyeLike": rules.eye_like,
    "GRU": rules.recurrent,
    "LSTM": rules.recurrent,
    "LpPool": pooling,
    "MaxPool": pooling,
    "MaxUnpool": unpooling,
    "MeanVarianceNormalization": rules.mean_variance_normalization,
    "NonMaxSuppression": rules.non_max_suppression,
    "OneHot": rules.one_hot,
    "Pad": rules.pad,
    "QLinearConv": partial(convolution, weight=3),
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
