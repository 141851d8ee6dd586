"""Removal of what reaches no output, and renaming of tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from dlbricks_core.ir import CanonicalModel, Layer
from dlbricks_core.passes.schemas import optional_outputs


def live_layers(layers: Sequence[Layer], outputs: Iterable[str]) -> list[Layer]:
    """The layers that an output depends on, in the same order."""
    read = set(outputs)
    live = []
    for layer in reversed(layers):
        if not read.isdisjoint(layer.outputs):
            live.append(layer)
            read.update(layer.inputs, layer.captures)
            read.discard("")
    live.reverse()
    return live


def tidy(model: CanonicalModel) -> CanonicalModel:
    """Drops layers, optional outputs, weights and specifications that nobody reads."""
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
    names = [*model.inputs, *sorted(weights)]
    names += [name for layer in layers for name in layer.outputs if name]
    return replace(
        model,
        layers=tuple(layers),
        tensors={name: model.tensors[name] for name in names},
        weights=weights,
        constants={name: value for name, value in model.constants.items() if name in weights},
    )


def _trimmed(layer: Layer, read: set[str]) -> Layer:
    """The layer without optional outputs that nobody reads."""
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
