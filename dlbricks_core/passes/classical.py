"""Types and shapes of the results of operators of ``ai.onnx.ml`` that ONNX leaves open.

A rule raises ``ValueError``, ``LookupError`` or ``TypeError`` where inputs or attributes do not
fit, as the rules of :mod:`dlbricks_core.passes.contrib.shapes` do.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from dlbricks_core.ir import TensorSpec
from dlbricks_core.passes.contrib.shapes import LayerInputs, Rule, Shape, same

DOMAIN = "ai.onnx.ml"
"""Domain of classical machine learning."""


def _rows(asked: LayerInputs) -> Shape:
    """Number of rows; a vector is one row."""
    sizes = asked.sizes()
    if len(sizes) not in (1, 2):
        raise ValueError(f"its input has {len(sizes)} axes, not one or two")
    return sizes[:1] if len(sizes) == 2 else (1,)


def _float32_like(asked: LayerInputs) -> Sequence[TensorSpec]:
    return [TensorSpec("float32", asked.sizes())]


def _scores(count: int, asked: LayerInputs) -> TensorSpec:
    return TensorSpec("float32", (*_rows(asked), count))


def _regression(attribute: str) -> Rule:
    """Rule for regressions whose number of targets is an attribute, 1 without it."""
    return lambda asked: [_scores(int(asked.attribute(attribute, 1)), asked)]


def _labels(asked: LayerInputs, texts: str, numbers: str) -> tuple[str, int]:
    """Element type of the labels, and their number."""
    for dtype, name in (("string", texts), ("int64", numbers)):
        labels = asked.attribute(name, ())
        if labels:
            return dtype, len(labels)
    raise ValueError("it has no labels")


def _classified_by_trees(asked: LayerInputs) -> Sequence[TensorSpec]:
    dtype, count = _labels(asked, "classlabels_strings", "classlabels_int64s")
    return [TensorSpec(dtype, _rows(asked)), _scores(count, asked)]


def _classified_by_vectors(asked: LayerInputs) -> Sequence[TensorSpec]:
    """Labels and scores, which belong to pairs of three or more classes without probabilities."""
    dtype, count = _labels(asked, "classlabels_strings", "classlabels_ints")
    pairs = asked.attribute("vectors_per_class", ()) and not asked.attribute("prob_a", ())
    scores = math.comb(count, 2) if pairs and count > 2 else count
    return [TensorSpec(dtype, _rows(asked)), _scores(scores, asked)]


def _extracted(asked: LayerInputs) -> Sequence[TensorSpec]:
    """Elements of the last axis; those of a vector are one row."""
    spec, count = asked.spec(0), asked.spec(1).elements
    if not spec.sizes:
        raise ValueError("its input has no axes")
    return [TensorSpec(spec.dtype, (*(spec.sizes[:-1] or (1,)), count))]


def _joined(asked: LayerInputs) -> Sequence[TensorSpec]:
    return [_scores(sum(asked.attribute("inputdimensions")), asked)]


RULES: Mapping[str, Rule] = {
    "ArrayFeatureExtractor": _extracted,
    "FeatureVectorizer": _joined,
    "Imputer": same,
    "LinearRegressor": _regression("targets"),
    "Normalizer": _float32_like,
    "SVMClassifier": _classified_by_vectors,
    "SVMRegressor": lambda asked: [_scores(1, asked)],
    "Scaler": _float32_like,
    "TreeEnsembleClassifier": _classified_by_trees,
    "TreeEnsembleRegressor": _regression("n_targets"),
}
"""Rules by operator."""
