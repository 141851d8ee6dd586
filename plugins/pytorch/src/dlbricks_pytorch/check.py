"""Layers that torch cannot run, found by building each of them alone."""

from __future__ import annotations

from dlbricks_contrib.expand import expanded

from dlbricks_core.errors import UnsupportedError
from dlbricks_core.ir import CanonicalModel, Layer
from dlbricks_pytorch.lowering.table import LOWERINGS
from dlbricks_pytorch.lowering.trial import TypeTrial, build_alone


def unsupported(model: CanonicalModel) -> dict[int, str]:
    """Reason for every layer that torch has no exact counterpart for, by its index.

    The check needs no values of weights.
    """
    whole = expanded(model, LOWERINGS)
    reasons = {
        index: f"{model.layers[index].qualified_op}: {why}" for index, why in whole.refused.items()
    }
    trial = TypeTrial(whole.model)
    for index, layer in zip(whole.origins, whole.model.layers, strict=True):
        if index in reasons:
            continue
        refusal = _refusal(whole.model, layer, trial)
        if refusal:
            own = model.layers[index] is layer
            reasons[index] = refusal if own else f"{model.layers[index].qualified_op}: {refusal}"
    return reasons


def _refusal(model: CanonicalModel, layer: Layer, trial: TypeTrial) -> str:
    try:
        build_alone(model, layer)
    except UnsupportedError as error:
        return error.message
    return trial.refusal(layer)
