"""Operators of classical machine learning: the model that they compute lies in their attributes."""

from __future__ import annotations

import math
from collections.abc import Mapping

from dlbricks_core.ir import Layer
from dlbricks_core.operators.operator import (
    DATA,
    RARE,
    Input,
    Lacks,
    Operator,
    Specs,
    each_input,
    row,
    size,
    sizes,
)

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


_TEXT = Lacks("it works on text or on maps")
_PLACE = Input(below=lambda layer, inputs, outputs: sizes(inputs, 0)[-1])
_LOOKED_UP = row(RARE, each_input(1), DATA)


def _encoded(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    """A look-up for each element, and a number for each category of it."""
    categories = _length(layer, "cats_int64s", "cats_strings")
    return size(inputs) * (1 + categories)


_ROWS: Mapping[str, Operator] = {
    "ArrayFeatureExtractor": row(RARE, each_input(1), DATA, _PLACE),
    "Binarizer": row(RARE, each_input(1), DATA),
    "CastMap": row(_TEXT, _TEXT, DATA),
    "CategoryMapper": _LOOKED_UP,
    "DictVectorizer": row(_TEXT, _TEXT, DATA),
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
    "ZipMap": row(_TEXT, _TEXT, DATA),
}

ROWS: Mapping[str, Operator] = {f"{DOMAIN}.{op}": each for op, each in _ROWS.items()}
