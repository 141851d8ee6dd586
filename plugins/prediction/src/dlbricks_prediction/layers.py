"""Attributes of a layer, shapes of its tensors and its weight, as features read them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec


def weight_of(model: CanonicalModel, layer: Layer) -> TensorSpec | None:
    """The largest weight of a layer with more than one axis; ``None`` if it has none.

    The result of a layer that reads only a weight's codes is a weight, too.
    """
    found = [model.tensors[name] for name in layer.reads if is_weight(model, name)]
    found = [spec for spec in found if spec.is_static and len(spec.sizes) > 1]
    return max(found, key=lambda spec: spec.elements, default=None)


def is_weight(model: CanonicalModel, name: str) -> bool:
    """Whether a tensor is a weight, or represents the codes of a weight."""
    return name in model.weights or codes_of(model, name) in model.weights


def codes_of(model: CanonicalModel, name: str) -> str:
    """Name of the codes that a tensor represents; empty without codes."""
    made = model.layers[model.producers[name]] if name in model.producers else None
    return made.inputs[0] if made is not None and made.op == "DequantizeLinear" else ""


def integer(layer: Layer, name: str, default: int) -> int:
    """An attribute that is a whole number; the default where it is absent or something else."""
    value = layer.attributes.get(name, default)
    return value if isinstance(value, int) else default


def text(layer: Layer, name: str, default: str) -> str:
    """An attribute that is text; the default where it is absent or something else."""
    value = layer.attributes.get(name, default)
    return value if isinstance(value, str) else default


def integers(layer: Layer, name: str) -> tuple[int, ...]:
    """An attribute that is a list, such as strides; empty where it is absent."""
    value = layer.attributes.get(name, ())
    return value if isinstance(value, tuple) else ()


def product(layer: Layer, name: str) -> int:
    """Product of an attribute's numbers; 1 where it is absent."""
    return math.prod(integers(layer, name))


def shapes_of(model: CanonicalModel, names: Sequence[str]) -> list[tuple[int, ...]]:
    """Shapes of the tensors that are present and have known sizes."""
    specs = [model.tensors[name] for name in names if name]
    return [spec.sizes for spec in specs if spec.is_static]
