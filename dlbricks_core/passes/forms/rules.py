"""Canonical form of layers, one small function for each operator without sliding windows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from dlbricks_core.errors import INVALID_MODEL, WRONG_SIZES, ModelError, UnsupportedError
from dlbricks_core.ir import Array, TensorSpec, numpy_dtype
from dlbricks_core.ir.limits import MAX_CONSTANT_ELEMENTS, MAX_ELEMENTS
from dlbricks_core.ir.tensors import DTYPE_NAMES, DTYPE_NUMBERS
from dlbricks_core.operators.compound import GATE_ACTIVATIONS
from dlbricks_core.passes.forms.draft import LayerDraft
from dlbricks_core.passes.schemas import defaults

# Layers whose attributes have several spellings.


def transpose(draft: LayerDraft) -> None:
    """Transpose: always with ``perm``, of axes that are not negative."""
    rank = draft.rank()
    perm = draft.attributes.get("perm") or range(rank - 1, -1, -1)
    assert isinstance(perm, tuple | range)
    draft.attributes["perm"] = tuple(axis % rank for axis in perm)


def mean_variance_normalization(draft: LayerDraft) -> None:
    """MeanVarianceNormalization: axes sorted and not negative."""
    axes = draft.attributes["axes"]
    assert isinstance(axes, tuple)
    draft.attributes["axes"] = tuple(sorted(axis % draft.rank() for axis in axes))


def quantization(draft: LayerDraft) -> None:
    """QuantizeLinear, DequantizeLinear: no axis where there is one scale, no type that it has."""
    if not draft.has(1) or draft.rank(1) == 0:
        draft.take("axis")
    if draft.has(1):
        own = DTYPE_NUMBERS[draft.specs[draft.inputs[1]].dtype]
        for name in ("output_dtype", "precision"):
            if draft.attributes.get(name) == own:
                draft.take(name)


def einsum(draft: LayerDraft) -> None:
    """Einsum: no spaces in the equation."""
    draft.attributes["equation"] = "".join(str(draft.attributes["equation"]).split())


def concat(draft: LayerDraft) -> None:
    """Concat: without inputs that have no elements."""
    # A Concat of one tensor remains: it copies.
    filled = [name for name in draft.inputs if draft.specs[name].elements]
    draft.inputs = filled or draft.inputs[:1]


def recurrent(draft: LayerDraft) -> None:
    """LSTM, GRU, RNN: sizes and activations written, no lengths where all steps are used."""
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


# Layers that name axes, as an attribute or as an input.


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


# Layers whose parameters are numbers: bounds, counts, diagonals, limits.


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


# Layers that name sizes of their result, its parts or its borders.


def reshape(draft: LayerDraft) -> None:
    """Reshape: names the full resulting shape."""
    target = draft.integers(1)
    zero_is_zero = draft.take("allowzero")
    if target is None:
        draft.attributes["allowzero"] = zero_is_zero
        return
    sizes = draft.sizes()
    if not zero_is_zero:
        if any(size == 0 for size in target[len(sizes) :]):
            raise ModelError(
                f"Reshape does not fit its inputs: a 0 of {tuple(target)} stands for a size that "
                f"{sizes} lacks",
                hint=WRONG_SIZES,
            )
        target = [sizes[i] if size == 0 else size for i, size in enumerate(target)]
    if -1 in target:
        rest = math.prod(size for size in target if size != -1)
        target[target.index(-1)] = math.prod(sizes) // rest if rest else 0
    if math.prod(target) != math.prod(sizes):
        raise ModelError(
            f"Reshape does not fit its inputs: {sizes} cannot become {tuple(target)}",
            hint=WRONG_SIZES,
        )
    if 0 in target:
        draft.attributes["allowzero"] = 1
    draft.put_integers(1, target)


def expand(draft: LayerDraft) -> None:
    """Expand: names the full resulting shape."""
    target = draft.integers(1)
    if target is not None:
        draft.put_integers(1, np.broadcast_shapes(draft.sizes(), tuple(target)))


def slice_(draft: LayerDraft) -> None:
    """Slice: always with starts, ends, axes and steps, clamped, of the axes that are cut."""
    if any(draft.is_open(position) for position in (1, 2, 3, 4)):
        return
    starts, ends = draft.integers(1) or [], draft.integers(2) or []
    rank = draft.rank()
    axes = [axis % rank for axis in draft.integers(3) or range(len(starts))]
    steps = draft.integers(4) or [1] * len(starts)
    cuts = []
    for axis, start, end, step in sorted(zip(axes, starts, ends, steps, strict=True)):
        cuts.append((*_clamped(start, end, step, draft.sizes()[axis]), axis, step))
    cut = [c for c in cuts if c[0] != 0 or c[1] != draft.sizes()[c[2]] or c[3] != 1]
    for position, values in enumerate(zip(*(cut or cuts[:1]), strict=True), start=1):
        draft.put_integers(position, values)


def _clamped(start: int, end: int, step: int, size: int) -> tuple[int, int]:
    """First index and end of a cut, clamped as the definition of Slice demands."""
    start, end = (at + size if at < 0 else at for at in (start, end))
    if step > 0:
        start = min(max(start, 0), size)
        return start, min(max(end, start), size)
    start = min(max(start, 0), max(size - 1, 0))
    end = min(max(end, -1), start)
    return start, end if end >= 0 else -size - 1  # an end of -1 would mean the last element


def split(draft: LayerDraft) -> None:
    """Split: always with sizes, never with a number of outputs."""
    parts = draft.take("num_outputs")
    if parts not in (None, len(draft.outputs)):
        raise ModelError(
            f"Split has {len(draft.outputs)} outputs, its num_outputs says {parts}",
            hint=INVALID_MODEL,
        )
    if draft.has(1):
        sizes = draft.integers(1)
        if sizes is not None:
            draft.put_integers(1, sizes)
        return
    axis = draft.attributes["axis"]
    assert isinstance(axis, int)
    size, parts = draft.sizes()[axis], len(draft.outputs)
    part = -(-size // parts)
    draft.put_integers(1, [part] * (parts - 1) + [size - part * (parts - 1)])


def pad(draft: LayerDraft) -> None:
    """Pad: always with pads of all axes; with the constant only if the mode uses it."""
    if draft.attributes["mode"] != "constant":
        draft.leave_out(2)
    elif not draft.has(2):
        dtype = draft.spec(0).dtype
        nothing = "" if dtype == "string" else 0
        draft.put(2, np.full((), nothing, dtype=numpy_dtype(dtype)))
    else:
        scalar(draft, 2)
    if draft.is_open(1) or draft.is_open(3):
        return
    rank, pads = draft.rank(), draft.integers(1) or []
    axes = [axis % rank for axis in draft.integers(3) or range(len(pads) // 2)]
    begins, ends = [0] * rank, [0] * rank
    for i, axis in enumerate(axes):
        begins[axis], ends[axis] = pads[i], pads[i + len(axes)]
    draft.put_integers(1, begins + ends)
    draft.leave_out(3)


def center_crop_pad(draft: LayerDraft) -> None:
    """CenterCropPad: always with axes, in the order of the sizes."""
    rank = draft.rank()
    axes = draft.attributes.get("axes") or range(rank)
    assert isinstance(axes, tuple | range)
    draft.attributes["axes"] = tuple(axis % rank for axis in axes)


# Layers whose results follow from the shapes of their inputs: no layer has to compute them.


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


# Layers that do less outside of training, and casts to the same type.


def batch_normalization(draft: LayerDraft) -> None:
    """BatchNormalization: with the statistics that it is given."""
    if not draft.attributes.pop("training_mode"):
        draft.outputs[1:] = []
        return
    raise UnsupportedError("BatchNormalization in training mode")


def dropout(draft: LayerDraft) -> None:
    """Dropout: an Identity; its mask is true everywhere."""
    if draft.is_open(2) or draft.value(2):
        raise UnsupportedError("Dropout in training mode")
    if len(draft.outputs) > 1 and draft.outputs[1]:
        filled(draft, draft.outputs[1], TensorSpec("bool", draft.sizes()), np.ones)
    draft.outputs[1:] = []
    draft.become("Identity", draft.inputs[0])


def cast(draft: LayerDraft) -> None:
    """Cast: an Identity where the type is the same."""
    if draft.attributes["to"] == DTYPE_NUMBERS[draft.spec(0).dtype]:
        draft.become("Identity", draft.inputs[0])


def cast_like(draft: LayerDraft) -> None:
    """CastLike: a Cast to the type of its second input."""
    draft.become(
        "Cast",
        draft.inputs[0],
        **{**draft.attributes, "to": DTYPE_NUMBERS[draft.spec(1).dtype]},
    )
    cast(draft)


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


_QUERY, _KEY, _PAST_KEY, _PAST_VALUE, _LENGTHS = 0, 1, 4, 5, 6


def attention(draft: LayerDraft) -> None:
    """Attention: without an empty cache, and causal only where that hides a key."""
    if draft.has(_PAST_KEY) and draft.has(_PAST_VALUE) and not draft.sizes(_PAST_KEY)[2]:
        draft.leave_out(_PAST_KEY)
        draft.leave_out(_PAST_VALUE)
    alone = draft.sizes(_QUERY)[-2] == draft.sizes(_KEY)[-2] == 1
    if alone and not draft.has(_LENGTHS):  # one new position sees itself and all before it
        draft.attributes["is_causal"] = 0
