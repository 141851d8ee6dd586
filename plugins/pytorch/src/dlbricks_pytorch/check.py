"""Layers that torch cannot run, found by building each of them alone."""

from __future__ import annotations

from dlbricks_core.errors import UnsupportedError
from dlbricks_core.ir import CanonicalModel
from dlbricks_pytorch.lowering.trial import TypeTrial, build_alone


def unsupported(model: CanonicalModel) -> dict[int, str]:
    """Reason for every layer that torch has no exact counterpart for, by its index.

    Works without the values of weights.
    """
    reasons: dict[int, str] = {}
    trial = TypeTrial(model)
    for index, layer in enumerate(model.layers):
        try:
            build_alone(model, layer)
        except UnsupportedError as error:
            reasons[index] = error.message
            continue
        refusal = trial.refusal(layer)
        if refusal:
            reasons[index] = refusal
    return reasons
