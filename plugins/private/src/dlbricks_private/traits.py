"""Traits of bricks: numbers that may distinguish a true brick from a decoy."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from dlbricks_core.bricks import Brick
from dlbricks_core.figures.statistics import FloatArray
from dlbricks_core.ir import CanonicalModel, Layer

_COUNTED = (
    "Conv", "Gemm", "MatMul", "BatchNormalization", "LayerNormalization", "Relu", "Clip",
    "LeakyRelu", "Sigmoid", "HardSigmoid", "HardSwish", "Gelu", "Erf", "Softmax", "Attention",
    "Add", "Sum", "Mul", "Concat", "MaxPool", "AveragePool", "GlobalAveragePool", "Reshape",
    "Flatten", "Transpose", "Slice", "Split", "LRN", "Dropout", "Pad", "Resize",
)  # fmt: skip

NAMES = (
    *(f"number of {op}" for op in _COUNTED),
    "layers",
    "layers of other operators",
    "layers with weights",
    "inputs",
    "outputs",
    "rank read",
    "width read",
    "side read",
    "width written",
    "side written",
    "ratio of widths",
    "widest inside",
    "narrowest inside",
    "largest window",
    "most groups",
    "share of depthwise layers",
    "weights",
    "evenness of widths inside",
    "evenness of widths at the ends",
    "bricks of the same operators",
    "bricks of the same kinds of operators",
    "bricks that may follow",
    "bricks that may precede",
    "alternatives",
)
"""Meaning of each column of :func:`traits`."""

_MOST_EVEN = 6
"""Greatest exponent of 2 that is distinguished in the factorization of a width."""


def traits(bricks: Sequence[Brick]) -> FloatArray:
    """Traits of the bricks of one suite.

    Some traits describe the brick alone, others compare it with the rest of its suite.

    Args:
        bricks: All bricks of the suite.

    Returns:
        Array of shape (bricks, ``len(NAMES)``).
    """
    operators = [tuple(map(_plain, each.model.layers)) for each in bricks]
    kinds = [frozenset(each) for each in operators]
    ends = [(_specs(each.model, each.model.inputs), _specs(each.model, each.model.outputs))
            for each in bricks]  # fmt: skip
    same, alike, both = Counter(operators), Counter(kinds), Counter(ends)
    read = Counter(name for begin, _ in ends for name in set(begin))
    written = Counter(name for _, end in ends for name in set(end))
    rows = []
    for i, brick in enumerate(bricks):
        begin, end = ends[i]
        rows.append(
            [
                *_alone(brick.model),
                same[operators[i]] / len(bricks),
                alike[kinds[i]] / len(bricks),
                _log(sum(read[name] for name in end)),
                _log(sum(written[name] for name in begin)),
                _log(both[ends[i]] - 1),
            ]
        )
    return np.array(rows, dtype=float).reshape(len(rows), len(NAMES))


def _plain(layer: Layer) -> str:
    return layer.op


def _specs(model: CanonicalModel, names: Sequence[str]) -> tuple[str, ...]:
    return tuple(sorted(str(model.tensors[name]) for name in names))


def _alone(model: CanonicalModel) -> list[float]:
    counts = Counter(map(_plain, model.layers))
    others = sum(counts.values()) - sum(counts[op] for op in _COUNTED)
    heavy = [w for layer in model.layers for w in _weights(model, layer)]
    ends = [_width(model, names) for names in (model.inputs, model.outputs)]
    inside = [w[0] for w in heavy] or [1]
    windows = [max(w[2:], default=1) for w in heavy]
    groups = [g for layer in model.layers if isinstance(g := layer.attributes.get("group"), int)]
    weights = sum(model.tensors[name].elements for name in model.weights)
    return [
        *(_log(counts[op]) for op in _COUNTED),
        _log(len(model.layers)),
        _log(others),
        _log(len(heavy)),
        len(model.inputs),
        len(model.outputs),
        _rank(model),
        _log(ends[0]),
        _log(_side(model, model.inputs)),
        _log(ends[1]),
        _log(_side(model, model.outputs)),
        _log(ends[1]) - _log(ends[0]),
        _log(max(inside)) - _log(max(ends)),
        _log(min(inside)) - _log(min(ends)),
        max(windows, default=0),
        _log(max(groups, default=0)),
        sum(g > 1 for g in groups) / max(len(groups), 1),
        _log(weights),
        min(map(_evenness, inside)),
        min(map(_evenness, ends)),
    ]


def _log(value: float) -> float:
    return math.log2(1 + value)


def _weights(model: CanonicalModel, layer: Layer) -> list[tuple[int, ...]]:
    """Shapes of the weights that a layer multiplies by, output channels first."""
    found = []
    for name in layer.inputs[1:2]:
        if name in model.weights and len(model.tensors[name].sizes) > 1:
            sizes = model.tensors[name].sizes
            is_product = layer.op in ("MatMul", "Gemm") and not layer.attributes.get("transB")
            found.append(sizes[::-1] if is_product else sizes)
    return found


def _shape(model: CanonicalModel, names: Sequence[str]) -> tuple[int, ...]:
    return model.tensors[names[0]].sizes if names else ()


def _rank(model: CanonicalModel) -> int:
    return len(_shape(model, model.inputs))


def _width(model: CanonicalModel, names: Sequence[str]) -> int:
    shape = _shape(model, names)
    return (shape[1] if len(shape) == 4 else shape[-1]) if shape else 1


def _side(model: CanonicalModel, names: Sequence[str]) -> int:
    shape = _shape(model, names)
    return shape[2] if len(shape) == 4 else (shape[-2] if len(shape) == 3 else 1)


def _evenness(width: int) -> int:
    """Exponent of 2 in the factorization of a width, at most 6."""
    return min((width & -width).bit_length() - 1, _MOST_EVEN) if width else _MOST_EVEN
