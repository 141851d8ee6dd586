"""Other names for tensors of a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dlbricks_core.ir import CanonicalModel, Layer


def rename(model: CanonicalModel, names: Mapping[str, str]) -> CanonicalModel:
    """The model with other names for some tensors that layers compute."""
    if not names:
        return model
    return replace(
        model,
        layers=tuple(_renamed(layer, names) for layer in model.layers),
        tensors={names.get(name, name): spec for name, spec in model.tensors.items()},
    )


def _renamed(layer: Layer, names: Mapping[str, str]) -> Layer:
    if names.keys().isdisjoint(layer.inputs) and names.keys().isdisjoint(layer.outputs):
        return layer
    return replace(
        layer,
        inputs=tuple(names.get(name, name) for name in layer.inputs),
        outputs=tuple(names.get(name, name) for name in layer.outputs),
    )
