"""Renames the tensors that a layer reads, where an Identity in between is gone."""

from __future__ import annotations

from dataclasses import replace

from dlbricks_core.ir import Layer
from dlbricks_core.passes.pipeline import Pass, Property
from dlbricks_core.passes.steps.lowering import Lowering, Step


def _resolve_names(layer: Layer, lowering: Lowering) -> Layer:
    aliases = lowering.aliases
    if aliases.keys().isdisjoint(layer.inputs):
        return layer
    return replace(layer, inputs=tuple([aliases.get(name, name) for name in layer.inputs]))


RESOLVE_NAMES: Step = Pass.of(_resolve_names, ensures=[Property.NAMES_RESOLVED])
