"""Inputs whose values matter: parameters of the work, and indices that must be in range.

Both tables are keyed by :attr:`Layer.qualified_op` and follow the operator definitions of the
canonical form. Signatures cover the known values of parameters and no other values. The room
``values`` draws the unknown ones, indices within their bounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from dlbricks_core.ir.model import Layer
from dlbricks_core.ir.tensors import TensorSpec

Specs = Sequence[TensorSpec | None]

IndexBound = Callable[[Layer, Specs, Specs], int | tuple[int, ...]]
"""Exclusive upper bound of valid values, from ``(layer, input specs, output specs)``.

A tuple holds one bound for each position along the last axis of the index tensor. Zero is always
valid if the bound is positive. The specs are static.
"""

MOST_SIZES = 8
"""Maximum length of a vector of integers that may be a shape, or from which a shape is computed."""

_REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")

#: Operator -> positions of the inputs whose values change the work (or its result's shape).
#: A position may also be in ``INDEX_INPUTS``: a known value counts, an unknown one is drawn.
PARAMETER_INPUTS: Mapping[str, frozenset[int]] = {
    op: frozenset(positions)
    for op, positions in {
        "AffineGrid": (1,),
        "Attention": (6,),
        "BlackmanWindow": (0,),
        "CenterCropPad": (1,),
        "Clip": (1, 2),
        "Col2Im": (1, 2),
        "Compress": (1,),
        "ConstantOfShape": (0,),
        "CumProd": (1,),
        "CumSum": (1,),
        "DFT": (1, 2),
        "Dropout": (1, 2),
        "Expand": (1,),
        "GRU": (4,),
        "HammingWindow": (0,),
        "HannWindow": (0,),
        "If": (0,),
        "LSTM": (4,),
        "Loop": (0, 1),
        "MaxUnpool": (2,),
        "MelWeightMatrix": (0, 1, 2, 3, 4),
        "NonMaxSuppression": (2, 3, 4),
        "OneHot": (1,),
        "Pad": (1, 2, 3),
        "Pow": (1,),
        "RNN": (4,),
        "Range": (0, 1, 2),
        **{f"Reduce{kind}": (1,) for kind in _REDUCTIONS},
        "Reshape": (1,),
        "Resize": (1, 2, 3),
        "ReverseSequence": (1,),
        "STFT": (1, 3),
        "SequenceAt": (1,),
        "SequenceErase": (1,),
        "SequenceInsert": (2,),
        "Slice": (1, 2, 3, 4),
        "Split": (1,),
        "SplitToSequence": (1,),
        "Squeeze": (1,),
        "Tile": (1,),
        "TopK": (1,),
        "Trilu": (1,),
        "Unsqueeze": (1,),
        "com.microsoft.Attention": (6,),
        "com.microsoft.GroupQueryAttention": (6,),
        "com.microsoft.MultiHeadAttention": (8,),
    }.items()
}


def _sizes(specs: Specs, position: int) -> tuple[int, ...]:
    spec = specs[position]
    if spec is None:
        raise ValueError(f"input or output {position} is left out")
    return spec.sizes


def _along_axis(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    """Size of the data along the attribute ``axis``."""
    axis = layer.attributes.get("axis", 0)
    assert isinstance(axis, int)
    return _sizes(inputs, 0)[axis]


def _leading(layer: Layer, inputs: Specs, outputs: Specs) -> tuple[int, ...]:
    """Sizes of the axes of the data that an index tuple points into."""
    skipped = layer.attributes.get("batch_dims", 0)
    assert isinstance(skipped, int)
    return _sizes(inputs, 0)[skipped : skipped + _sizes(inputs, 1)[-1]]


def _one_hot(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    axis = layer.attributes.get("axis", -1)
    assert isinstance(axis, int)
    return _sizes(outputs, 0)[axis]


def _classes(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    return _sizes(inputs, 0)[1]


def _steps(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    """Lengths of sequences: at most the number of steps."""
    time_axis = 1 if layer.attributes.get("layout", 0) else 0
    return _sizes(inputs, 0)[time_axis] + 1


def _reversed_steps(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    axis = layer.attributes.get("time_axis", 0)
    assert isinstance(axis, int)
    return _sizes(inputs, 0)[axis] + 1


def _cache_slots(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    """First slots of a cache, such that the update fits behind them."""
    axis = layer.attributes.get("axis", -2)
    assert isinstance(axis, int)
    return _sizes(inputs, 0)[axis] - _sizes(inputs, 1)[axis] + 1


def _bits(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    spec = inputs[0]
    return 8 if spec is None else spec.nbytes * 8 // max(spec.elements, 1)


def _shift_of_positions(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    """First positions of ONNX Runtime's rotary embedding; one for all steps where it is alone."""
    rows, sizes = _sizes(inputs, 2)[0], _sizes(inputs, 0)
    steps = sizes[2] if len(sizes) == 4 else sizes[1]
    return rows - steps + 1 if len(_sizes(inputs, 1)) == 1 else rows


def _rows_of(position: int) -> IndexBound:
    """Rows of a table that is another input."""
    return lambda layer, inputs, outputs: _sizes(inputs, position)[0]


def _gathered_blocks(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    axis = layer.attributes.get("gather_axis", 0)
    assert isinstance(axis, int)
    return _sizes(inputs, 0)[axis]


#: Operator -> for each input of indices, lengths or shifts: the bound of its valid values.
INDEX_INPUTS: Mapping[str, Mapping[int, IndexBound]] = {
    "Attention": {6: lambda layer, inputs, outputs: _sizes(inputs, 1)[-2] + 1},
    "BitShift": {1: _bits},
    "GRU": {4: _steps},
    "Gather": {1: _along_axis},
    "GatherElements": {1: _along_axis},
    "GatherND": {1: _leading},
    "LSTM": {4: _steps},
    "MaxUnpool": {1: lambda layer, inputs, outputs: math.prod(_sizes(outputs, 0))},
    "NegativeLogLikelihoodLoss": {1: _classes},
    "OneHot": {0: _one_hot},
    "RNN": {4: _steps},
    "ReverseSequence": {1: _reversed_steps},
    "RoiAlign": {2: lambda layer, inputs, outputs: _sizes(inputs, 0)[0]},
    "RotaryEmbedding": {3: lambda layer, inputs, outputs: _sizes(inputs, 1)[0]},
    "ScatterElements": {1: _along_axis},
    "ScatterND": {1: _leading},
    "SoftmaxCrossEntropyLoss": {1: _classes},
    "TensorScatter": {2: _cache_slots},
    "com.microsoft.DynamicQuantizeLSTM": {4: _steps},
    "com.microsoft.EmbedLayerNormalization": {0: _rows_of(2), 1: _rows_of(4), 8: _rows_of(3)},
    "com.microsoft.GatherBlockQuantized": {1: _gathered_blocks},
    "com.microsoft.GroupQueryAttention": {9: _rows_of(7)},
    "com.microsoft.QEmbedLayerNormalization": {0: _rows_of(2), 1: _rows_of(4)},
    "com.microsoft.RotaryEmbedding": {1: _shift_of_positions},
}

LengthRule = Callable[[Layer, Specs, Specs, Mapping[int, int]], int | tuple[int, ...] | None]
"""The only sensible value, from ``(layer, input specs, output specs, known whole numbers)``.

The last holds known inputs of one whole number, by position. A tuple holds a value for each
position along the last axis. ``None`` where every value is sensible, as in a mask.
"""


def _all_steps(layer: Layer, inputs: Specs, outputs: Specs, known: Mapping[int, int]) -> int:
    """Steps of the longest sequence: those of the cache and the new ones, if nobody says others."""
    if 6 in known:
        return known[6]
    past = _sizes(inputs, 3)[2] if inputs[3] is not None else 0
    return past + _sizes(inputs, 0)[1]


def _last_step(layer: Layer, inputs: Specs, outputs: Specs, known: Mapping[int, int]) -> int:
    """Last step of every sequence."""
    return _all_steps(layer, inputs, outputs, known) - 1


def _ends(past: int) -> LengthRule:
    """Ends of sequences, then their starts if there are as many of these."""

    def rule(
        layer: Layer, inputs: Specs, outputs: Specs, known: Mapping[int, int]
    ) -> tuple[int, ...] | None:
        batch, steps, _ = _sizes(inputs, 0)
        mask = _sizes(inputs, 3 if layer.op == "Attention" else 5)
        cached = inputs[past] if past < len(inputs) else None
        total = steps + (0 if cached is None else cached.sizes[3])
        if len(mask) != 1 or mask[0] not in (batch, 2 * batch):
            return None
        return (total,) * batch + (0,) * (mask[0] - batch)

    return rule


def _keys_of_heads(
    layer: Layer, inputs: Specs, outputs: Specs, known: Mapping[int, int]
) -> int | None:
    """Numbers of keys, if they are no mask and no sums of lengths."""
    if len(_sizes(inputs, 4)) != 1 or _sizes(inputs, 4) != _sizes(inputs, 0)[:1]:
        return None
    key = _sizes(inputs, 1) if inputs[1] is not None else _sizes(inputs, 0)
    return key[2] if len(key) == 4 else key[1]


#: Operator -> for each input of lengths: the value with which all steps are used. Kernels do less
#: for shorter sequences, and nobody times that.
LENGTH_INPUTS: Mapping[str, Mapping[int, LengthRule]] = {
    "com.microsoft.Attention": {3: _ends(past=4)},
    "com.microsoft.GroupQueryAttention": {5: _last_step, 6: _all_steps},
    "com.microsoft.MultiHeadAttention": {4: _keys_of_heads},
    "com.microsoft.QAttention": {5: _ends(past=8)},
}


def index_positions(operator: str) -> tuple[int, ...]:
    """Positions of an operator's inputs of indices, lengths and shifts."""
    return (*INDEX_INPUTS.get(operator, ()), *LENGTH_INPUTS.get(operator, ()))


def made_into_indices(layers: Sequence[Layer]) -> frozenset[str]:
    """Names of tensors that are indices, lengths or shifts, or from which these are computed.

    Args:
        layers: In topological order.
    """
    found: set[str] = set()
    for layer in reversed(layers):
        positions = index_positions(layer.qualified_op)
        found.update(name for at, name in enumerate(layer.inputs) if name and at in positions)
        if not found.isdisjoint(layer.outputs):
            found.update(layer.reads)
    return frozenset(found)
