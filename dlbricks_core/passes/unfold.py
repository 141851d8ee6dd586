"""Puts layers back that canonical form folded: not every framework computes them in advance."""

from __future__ import annotations

from dataclasses import replace

from dlbricks_core.ir import CanonicalModel, Layer
from dlbricks_core.passes.drop_unread import drop_unread
from dlbricks_core.passes.options import NormalizeOptions


def unfolded(model: CanonicalModel) -> CanonicalModel:
    """The model with each folded layer in front of the first one that reads its result.

    Results that are outputs stay weights: no framework computes those.

    Args:
        model: Model in canonical form.
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
