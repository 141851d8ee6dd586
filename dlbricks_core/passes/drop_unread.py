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


def unfolded(model: CanonicalModel) -> CanonicalModel:
    """The model with each folded layer in front of the first one that reads its result.

    Not every framework computes these layers in advance. Results that are outputs stay weights: no
    framework computes those.
    """
    folded = model.folded
    if folded is None:
        return model
    makers = {name: layer for layer in folded.layers for name in layer.outputs if name}
    layers: list[Layer] = []
    made: set[str] = set(model.outputs)

    def place(layer: Layer) -> None:
        for name in layer.reads:
            if name in makers and name not in made:
                place(makers[name])
        made.update(layer.outputs)
        layers.append(layer)

    for layer in model.layers:
        place(layer)
    computed = {name for layer in layers for name in layer.outputs}
    whole = replace(
        model,
        layers=tuple(layers),
        tensors={**folded.tensors, **model.tensors},
        weights=(model.weights | folded.weights) - computed,
        constants={**folded.constants, **model.constants},
        folded=None,
    )
    return drop_unread(whole, NormalizeOptions())
