"""Drops unread layers, optional outputs, weights and specifications."""

from __future__ import annotations

from dataclasses import replace

from dlbricks_core.ir import CanonicalModel, Layer
from dlbricks_core.passes.options import NormalizeOptions
from dlbricks_core.passes.pipeline import Property, properties
from dlbricks_core.passes.schemas import optional_outputs


@properties(requires=[Property.LAYERS_CANONICAL], ensures=[Property.NOTHING_UNREAD])
def drop_unread(model: CanonicalModel, options: NormalizeOptions) -> CanonicalModel:
    """The model without layers, optional outputs, weights and specifications that are not read."""
    read = set(model.outputs)
    layers = []
    for layer in reversed(model.layers):
        if read.isdisjoint(layer.outputs):
            continue
        layers.append(layer if len(layer.outputs) == 1 else _trimmed(layer, read))
        read.update(layer.inputs, layer.captures)
        read.discard("")
    layers.reverse()
    weights = model.weights & read
    used = {name for layer in model.layers for name in layer.reads} & model.weights
    idle = [model.tensors[name] for name in used - weights]
    names = [*model.inputs, *sorted(weights)]
    names += [name for layer in layers for name in layer.outputs if name]
    return replace(
        model,
        layers=tuple(layers),
        tensors={name: model.tensors[name] for name in names},
        weights=weights,
        constants={name: value for name, value in model.constants.items() if name in weights},
        idle_bytes=model.idle_bytes + sum(spec.nbytes for spec in idle if spec.is_static),
    )


def _trimmed(layer: Layer, read: set[str]) -> Layer:
    """The layer without optional outputs that are not read."""
    if layer.opaque:
        return layer
    optional = optional_outputs(layer.op, layer.domain)
    outputs = [
        "" if position in optional and name not in read else name
        for position, name in enumerate(layer.outputs)
    ]
    while not outputs[-1]:
        outputs.pop()
    return replace(layer, outputs=tuple(outputs))
