"""Drops layers that lead to no output."""

from __future__ import annotations

from collections.abc import Collection
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


def keep_outputs(model: RawModel, names: Collection[str]) -> RawModel:
    """The model with some of its outputs, and the layers and inputs that they need.

    Args:
        model: The model.
        names: Outputs to keep; empty for all.
    """
    if not names:
        return model
    outputs = tuple(name for name in model.outputs if name in names)
    live = drop_dead_layers(replace(model, outputs=outputs), NormalizeOptions())
    read = {name for layer in live.layers for name in (*layer.inputs, *layer.captures)}
    read.update(outputs)
    # An input that no layer reads needs no size.
    inputs = tuple(name for name in model.inputs if name in read)
    return replace(live, inputs=inputs)


DROP_DEAD_LAYERS = Pass.of(drop_dead_layers, ensures=[Property.LAYERS_LIVE])
