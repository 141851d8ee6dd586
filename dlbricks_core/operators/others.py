"""Operators of which the canonical form has no layers that run, or that are rare.

Control flow, sequences, text, random numbers, signals and losses.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from dlbricks_core.ir import Layer
from dlbricks_core.operators.operator import (
    DATA,
    LATE,
    PARAMETER,
    RARE,
    Input,
    Lacks,
    Operator,
    Specs,
    attribute_of,
    each_input,
    row,
    size,
    sizes,
)
from dlbricks_core.operators.ranges.interval import within


def _transforms(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    """Each signal is transformed, in 5 n log2(n) operations.

    The axis is a value; by default it is the last before that of real and imaginary parts. The
    length on that axis is the one before signals are halved.
    """
    shape = sizes(inputs, 0)
    changed = [n for n, m in zip(shape[:-1], sizes(outputs, 0)[:-1], strict=True) if n != m]
    length = (changed or shape[-2:-1])[0]
    return round(math.prod(shape[:-1]) * 5 * math.log2(max(length, 2)))


def _short_transforms(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    """Each frame is multiplied by the window and transformed, in 5 n log2(n) operations."""
    *_, bins, _ = sizes(outputs, 0)
    length = 2 * (bins - 1) if attribute_of(layer, "onesided") else bins
    return round(size(outputs) // (2 * bins) * length * (1 + 5 * math.log2(length)))


def _classes(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    return sizes(inputs, 0)[1]


def _row(why: Lacks, *inputs: Input, **facts: Any) -> Operator:
    return row(why, why, *inputs, **facts)


RANDOM = Lacks("generators of random numbers differ, and their operations are not defined")
"""Class of operators whose results are random numbers."""


def _random(*inputs: Input, typed_by: str = "dtype", **facts: Any) -> Operator:
    return _row(RANDOM, *inputs, folded=False, typed_by=typed_by, **facts)


_CONTROL = Lacks("its layers are opaque: values decide what runs")
_SEQUENCE = Lacks("the canonical form has no sequences and no optional tensors")
_TEXT = Lacks("no framework runs it, as it works on text")
_SIZED = Lacks("values decide the size of its result, and with it the work")
_LOSS = Lacks("it is for training")
_WINDOW = _row(
    Lacks("it is computed once, before the model runs"), PARAMETER, typed_by="output_datatype"
)
_IDENTITY = Lacks("its canonical form is Identity")
_TARGET = Input(below=_classes)

ROWS: Mapping[str, Operator] = {
    "If": _row(_CONTROL, PARAMETER),
    "Loop": _row(_CONTROL, PARAMETER, PARAMETER, DATA, repeated=1),
    "Scan": _row(_CONTROL, DATA, repeated=1),
    "SequenceMap": _row(_CONTROL, DATA, DATA, repeated=1),
    "ConcatFromSequence": _row(_SEQUENCE, DATA),
    "Optional": _row(_SEQUENCE, DATA),
    "OptionalGetElement": _row(_SEQUENCE, DATA),
    "OptionalHasElement": _row(_SEQUENCE, DATA),
    "SequenceAt": _row(_SEQUENCE, DATA, PARAMETER),
    "SequenceConstruct": _row(_SEQUENCE, DATA, repeated=1),
    "SequenceEmpty": _row(_SEQUENCE),
    "SequenceErase": _row(_SEQUENCE, DATA, PARAMETER),
    "SequenceInsert": _row(_SEQUENCE, DATA, DATA, PARAMETER),
    "SequenceLength": _row(_SEQUENCE, DATA),
    "SplitToSequence": _row(_SEQUENCE, DATA, PARAMETER),
    "RegexFullMatch": _row(_TEXT, DATA, folded=False, costly=True),
    "StringConcat": _row(_TEXT, DATA, DATA),
    "StringNormalizer": _row(_TEXT, DATA, sized_by_data=True),
    "StringSplit": _row(_TEXT, DATA, sized_by_data=True),
    "TfIdfVectorizer": _row(RARE, DATA),
    "Bernoulli": _random(DATA, ranges=within(0, 1)),
    "Multinomial": _random(DATA, typed_by=""),
    "RandomNormal": _random(),
    "RandomNormalLike": _random(DATA),
    "RandomUniform": _random(),
    "RandomUniformLike": _random(DATA),
    "ImageDecoder": _row(_SIZED, DATA, costly=True, sized_by_data=True),
    "NonMaxSuppression": _row(
        _SIZED, DATA, DATA, PARAMETER, PARAMETER, PARAMETER, costly=True, sized_by_data=True
    ),
    "NonZero": _row(_SIZED, DATA, sized_by_data=True),
    "Unique": _row(_SIZED, DATA, sized_by_data=True),
    "BlackmanWindow": _WINDOW,
    "HammingWindow": _WINDOW,
    "HannWindow": _WINDOW,
    "MelWeightMatrix": _row(
        Lacks("it is computed once, before the model runs"), *(PARAMETER,) * 5,
        typed_by="output_datatype",
    ),
    "DFT": row("spectrum", _transforms, DATA, PARAMETER, PARAMETER),
    "STFT": row("spectrum", _short_transforms, DATA, PARAMETER, DATA, PARAMETER),
    "NegativeLogLikelihoodLoss": _row(_LOSS, DATA, _TARGET, DATA),
    "SoftmaxCrossEntropyLoss": _row(_LOSS, DATA, _TARGET, DATA),
    "AffineGrid": _row(RARE, DATA, PARAMETER),
    "Det": _row(RARE, DATA),
    "SwiGLU": _row(LATE, DATA, DATA),
    "CastLike": _row(Lacks("its canonical form is Cast"), DATA, DATA),
    "Constant": _row(Lacks("its canonical form is a weight")),
    "Dropout": _row(_IDENTITY, DATA, PARAMETER, PARAMETER, ranges=_IDENTITY),
    "Scatter": _row(Lacks("its canonical form is ScatterElements"), DATA, DATA, DATA),
}  # fmt: skip


# Operators of classical machine learning: the model that they compute lies in their attributes.

DOMAIN = "ai.onnx.ml"


def _rows(inputs: Specs) -> int:
    """Number of rows of the first input; a vector is one row."""
    shape = sizes(inputs, 0)
    return shape[0] if len(shape) > 1 else 1


def _length(layer: Layer, *names: str) -> int:
    """Number of elements of the first attribute that is there."""
    found = (layer.attributes.get(name) for name in names)
    return next((len(each) for each in found if isinstance(each, tuple) and each), 0)


def _visits(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    """A comparison for each level of each tree on the way of a row, and an addition at its leaf.

    Trees are counted as if they were balanced.
    """
    trees = set(layer.attributes["nodes_treeids"])  # type: ignore[arg-type]
    modes = layer.attributes["nodes_modes"]
    assert isinstance(modes, tuple)
    leaves = sum(mode == "LEAF" for mode in modes)
    return _walked(_rows(inputs), len(trees), leaves)


def _visits_of_joint_tables(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    """As :func:`_visits`, with leaves in a table of their own."""
    trees = _length(layer, "tree_roots")
    return _walked(_rows(inputs), trees, _length(layer, "leaf_targetids"))


def _walked(rows: int, trees: int, leaves: int) -> int:
    return round(rows * trees * (1 + math.log2(max(leaves / trees, 2))))


def _similarities(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    """A product of each row with each support vector, and a sum of these for each pair of classes.

    Without support vectors, each coefficient is multiplied once for a row.
    """
    rows, features = _rows(inputs), sizes(inputs, 0)[-1]
    vectors = _length(layer, "support_vectors") // max(features, 1)
    return rows * 2 * (vectors * (features + 1) + _length(layer, "coefficients"))


def _weighted(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    """Each row times the matrix of coefficients."""
    return _rows(inputs) * 2 * _length(layer, "coefficients")


_MAPS = Lacks("it works on text or on maps")
_PLACE = Input(below=lambda layer, inputs, outputs: sizes(inputs, 0)[-1])
_LOOKED_UP = row(RARE, each_input(1), DATA)


def _encoded(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    """A look-up for each element, and a number for each category of it."""
    categories = _length(layer, "cats_int64s", "cats_strings")
    return size(inputs) * (1 + categories)


_ROWS: Mapping[str, Operator] = {
    "ArrayFeatureExtractor": row(RARE, each_input(1), DATA, _PLACE),
    "Binarizer": row(RARE, each_input(1), DATA),
    "CastMap": row(_MAPS, _MAPS, DATA),
    "CategoryMapper": _LOOKED_UP,
    "DictVectorizer": row(_MAPS, _MAPS, DATA),
    "FeatureVectorizer": row(RARE, each_input(1), DATA, repeated=1),
    "Imputer": row(RARE, each_input(1), DATA),
    "LabelEncoder": _LOOKED_UP,
    "LinearClassifier": row("linear", _weighted, DATA),
    "LinearRegressor": row("linear", _weighted, DATA),
    "Normalizer": row(RARE, each_input(3), DATA),
    "OneHotEncoder": row(RARE, _encoded, DATA),
    "SVMClassifier": row("svm", _similarities, DATA),
    "SVMRegressor": row("svm", _similarities, DATA),
    "Scaler": row(RARE, each_input(2), DATA),
    "TreeEnsemble": row("trees", _visits_of_joint_tables, DATA),
    "TreeEnsembleClassifier": row("trees", _visits, DATA),
    "TreeEnsembleRegressor": row("trees", _visits, DATA),
    "ZipMap": row(_MAPS, _MAPS, DATA),
}

CLASSICAL_ROWS: Mapping[str, Operator] = {f"{DOMAIN}.{op}": each for op, each in _ROWS.items()}
