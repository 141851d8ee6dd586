"""Drops layers that lead to no output."""

from __future__ import annotations

from dataclasses import replace

from dlbricks_core.ir import RawModel
from dlbricks_core.passes.options import NormalizeOptions
from dlbricks_core.passes.pipeline import Pass, Property


def drop_dead_layers(model: RawModel, options: NormalizeOptions) -> RawModel:
    """The model with the layers that an output depends on, in the same order."""
    read = set(model.outputs)
    live = []
    for layer in reversed(model.layers):
        if not read.isdisjoint(layer.outputs):
            live.append(layer)
            read.update(layer.inputs, layer.captures)
            read.discard("")
    return replace(model, layers=tuple(reversed(live)))


DROP_DEAD_LAYERS = Pass.of(drop_dead_layers, ensures=[Property.LAYERS_LIVE])
