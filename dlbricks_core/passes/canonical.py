"""The canonical form of one layer: defaults written, spellings resolved.

``CANONICAL`` holds one small function per operator; what all operators share (defaults,
axes that are not negative) comes before, trimming comes after.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from dlbricks_core.errors import INVALID_MODEL, ModelError, UnsupportedError
from dlbricks_core.ir import TensorSpec, numpy_dtype
from dlbricks_core.ir.limits import MAX_CONSTANT_ELEMENTS
from dlbricks_core.ir.recurrent import GATE_ACTIVATIONS
from dlbricks_core.ir.tensors import DTYPE_NAMES, DTYPE_NUMBERS
from dlbricks_core.passes import arguments, windows
from dlbricks_core.passes.draft import Array, Draft
from dlbricks_core.passes.schemas import defaults, late_defaults

#: Attributes that only say how random numbers or training go.
_IRRELEVANT = ("momentum", "seed")


def canonicalize(draft: Draft) -> None:
    """Brings a layer that follows the canonical definition into canonical form.

    Raises:
        UnsupportedError: If the canonical form cannot say what the layer does.
    """
    attributes = draft.attributes
    for name, default in defaults(draft.op).items():
        attributes.setdefault(name, default)
    for name, default in late_defaults(draft.op).items():
        if attributes.get(name) == default:
            del attributes[name]
    axis = attributes.get("axis")
    if isinstance(axis, int) and axis < 0 and draft.op != "OneHot":
        attributes["axis"] = axis + draft.rank()
    step = CANONICAL.get(draft.op)
    if step is not None:
        step(draft)
    for name in _IRRELEVANT:
        attributes.pop(name, None)
    for names in (draft.inputs, draft.outputs):
        while names and not names[-1]:
            names.pop()


def _batch_normalization(draft: Draft) -> None:
    if not draft.attributes.pop("training_mode"):
        draft.outputs[1:] = []
        return
    raise UnsupportedError("BatchNormalization in training mode")


def _dropout(draft: Draft) -> None:
    if draft.is_open(2) or draft.value(2):
        raise UnsupportedError("Dropout in training mode")
    if len(draft.outputs) > 1 and draft.outputs[1]:
        _filled(draft, draft.outputs[1], TensorSpec("bool", draft.sizes()), np.ones)
    draft.outputs[1:] = []
    draft.become("Identity", draft.inputs[0])


def _cast(draft: Draft) -> None:
    if draft.attributes["to"] == DTYPE_NUMBERS[draft.spec(0).dtype]:
        draft.become("Identity", draft.inputs[0])


def _cast_like(draft: Draft) -> None:
    draft.become(
        "Cast",
        draft.inputs[0],
        **{**draft.attributes, "to": DTYPE_NUMBERS[draft.spec(1).dtype]},
    )
    _cast(draft)


def _result(draft: Draft, output: str, value: Array) -> None:
    draft.constant(output, value)
    draft.results[output] = value


def _filled(
    draft: Draft, output: str, spec: TensorSpec, fill: Callable[[tuple[int, ...]], Array]
) -> None:
    """A result that is known by its shape; its value is made only where it is small."""
    if spec.elements <= MAX_CONSTANT_ELEMENTS:
        _result(draft, output, fill(spec.sizes).astype(numpy_dtype(spec.dtype)))
        return
    draft.specs[output] = spec
    draft.results[output] = None


def _shape(draft: Draft) -> None:
    start, end = draft.attributes["start"], draft.attributes.get("end")
    assert isinstance(start, int)
    assert end is None or isinstance(end, int)
    sizes = draft.sizes()[slice(start, end)]
    _result(draft, draft.outputs[0], np.array(sizes, dtype=np.int64))


def _size(draft: Draft) -> None:
    _result(draft, draft.outputs[0], np.array(math.prod(draft.sizes()), dtype=np.int64))


def _eye_like(draft: Draft) -> None:
    number = draft.attributes.get("dtype")
    dtype = DTYPE_NAMES[number] if isinstance(number, int) else draft.spec(0).dtype
    diagonal = draft.attributes["k"]
    assert isinstance(diagonal, int)
    rows, columns = draft.sizes()
    spec = TensorSpec(dtype, (rows, columns))
    _filled(draft, draft.outputs[0], spec, lambda sizes: np.eye(sizes[0], sizes[1], diagonal))


def _transpose(draft: Draft) -> None:
    rank = draft.rank()
    perm = draft.attributes.get("perm") or range(rank - 1, -1, -1)
    assert isinstance(perm, tuple | range)
    draft.attributes["perm"] = tuple(axis % rank for axis in perm)


def _mean_variance_normalization(draft: Draft) -> None:
    axes = draft.attributes["axes"]
    assert isinstance(axes, tuple)
    draft.attributes["axes"] = tuple(sorted(axis % draft.rank() for axis in axes))


def _quantization(draft: Draft) -> None:
    if not draft.has(1) or draft.rank(1) == 0:
        draft.take("axis")


def _einsum(draft: Draft) -> None:
    draft.attributes["equation"] = "".join(str(draft.attributes["equation"]).split())


def _concat(draft: Draft) -> None:
    # A Concat of one tensor remains: it copies.
    filled = [name for name in draft.inputs if draft.specs[name].elements]
    draft.inputs = filled or draft.inputs[:1]


def _recurrent(draft: Draft) -> None:
    directions, _, hidden = draft.sizes(2)
    if directions not in (1, 2):
        raise ModelError(
            f"{draft.op} has weights for {directions} directions, not for one or two",
            hint=INVALID_MODEL,
        )
    attributes = draft.attributes
    attributes["hidden_size"] = hidden
    given = attributes.get("activations")
    per_direction = GATE_ACTIVATIONS[draft.op]
    if not given or (draft.op == "RNN" and given == defaults("RNN")["activations"]):
        attributes["activations"] = per_direction * directions
    for name in ("activation_alpha", "activation_beta"):
        if not attributes.get(name):
            attributes.pop(name, None)
    steps = draft.sizes()[1 if attributes["layout"] else 0]
    lengths = draft.integers(4)
    if lengths is not None and all(length == steps for length in lengths):
        draft.leave_out(4)


_REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")

#: Operator -> what is particular about its canonical form.
CANONICAL: Mapping[str, Callable[[Draft], None]] = {
    "AveragePool": windows.pooling,
    "BatchNormalization": _batch_normalization,
    "Cast": _cast,
    "CastLike": _cast_like,
    "CenterCropPad": arguments.center_crop_pad,
    "Clip": arguments.clip,
    "Col2Im": windows.block_columns,
    "Concat": _concat,
    "Conv": windows.convolution,
    "ConvInteger": windows.convolution,
    "ConvTranspose": windows.transposed_convolution,
    "CumProd": partial(arguments.axis_scalar, position=1),
    "CumSum": partial(arguments.axis_scalar, position=1),
    "DFT": arguments.dft,
    "DeformConv": windows.convolution,
    "DequantizeLinear": _quantization,
    "Dropout": _dropout,
    "Einsum": _einsum,
    "Expand": arguments.expand,
    "EyeLike": _eye_like,
    "GRU": _recurrent,
    "LSTM": _recurrent,
    "LpPool": windows.pooling,
    "MaxPool": windows.pooling,
    "MaxUnpool": windows.unpooling,
    "MeanVarianceNormalization": _mean_variance_normalization,
    "NonMaxSuppression": arguments.non_max_suppression,
    "OneHot": arguments.one_hot,
    "Pad": arguments.pad,
    "QLinearConv": partial(windows.convolution, weight=3),
    "QuantizeLinear": _quantization,
    "RNN": _recurrent,
    "Range": arguments.range_,
    **{f"Reduce{kind}": arguments.reduction for kind in _REDUCTIONS},
    "Reshape": arguments.reshape,
    "Resize": arguments.resize,
    "Shape": _shape,
    "Size": _size,
    "Slice": arguments.slice_,
    "Split": arguments.split,
    "Squeeze": arguments.squeeze,
    "TopK": arguments.top_k,
    "Transpose": _transpose,
    "Trilu": arguments.trilu,
    "Unsqueeze": arguments.unsqueeze,
}
