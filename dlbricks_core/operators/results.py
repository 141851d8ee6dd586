"""Types and shapes of results by small rules, one an operator that ONNX's inference leaves open.

A rule may raise ``ArithmeticError``, ``LookupError``, ``TypeError`` or ``ValueError`` if inputs do
not fit; the caller names the layer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dlbricks_core.ir import Array, Attribute, Layer, TensorSpec

Shape = tuple[int, ...]


@dataclass
class LayerInputs:
    """A layer with the known facts about its inputs.

    Attributes:
        layer: The layer; all of its inputs have static shapes.
        inputs: Specification of each input, ``None`` where one is left out.
        values: Value of each input, where it is known.
    """

    layer: Layer
    inputs: Sequence[TensorSpec | None]
    values: Sequence[Array | None]

    def has(self, position: int) -> bool:
        """Whether the layer has this input."""
        return position < len(self.inputs) and self.inputs[position] is not None

    def spec(self, position: int) -> TensorSpec:
        """Specification of an input.

        Raises:
            ValueError: If it is left out.
        """
        spec = self.inputs[position] if position < len(self.inputs) else None
        if spec is None:
            raise ValueError(f"input {position} is left out")
        return spec

    def sizes(self, position: int = 0) -> Shape:
        """Shape of an input."""
        return self.spec(position).sizes

    def number(self, position: int) -> int | None:
        """Value of an input of one whole number, where it is known."""
        value = self.values[position] if position < len(self.values) else None
        return None if value is None or value.size != 1 else int(value.reshape(()))

    def attribute(self, name: str, default: Attribute | None = None) -> Any:
        """Value of an attribute."""
        return self.layer.attributes.get(name, default)

    @cached_property
    def heads(self) -> int:
        """Number of heads of the queries of an attention."""
        return int(self.attribute("num_heads"))


Rule = Callable[[LayerInputs], Sequence[TensorSpec]]
"""Specification of each result, including results that are not read."""


def same(asked: LayerInputs) -> Sequence[TensorSpec]:
    """Results like the first input."""
    return [asked.spec(0)]


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


CLASSICAL_RULES: Mapping[str, Rule] = {
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
"""Rules by operator of ``ai.onnx.ml``."""
