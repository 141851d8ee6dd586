"""Layers that MXNet cannot run, found by building each of them alone."""

from __future__ import annotations

from dlbricks_contrib.expand import expanded
from dlbricks_contrib.layer_view import naming

from dlbricks_core.errors import UnsupportedError
from dlbricks_core.ir import CanonicalModel, Layer
from dlbricks_mxnet.lowering.build import verify
from dlbricks_mxnet.lowering.context import Variables
from dlbricks_mxnet.lowering.symbols import mx
from dlbricks_mxnet.lowering.table import LOWERINGS, lower_layer


def unsupported(model: CanonicalModel) -> dict[int, str]:
    """Reason for every layer that MXNet has no exact counterpart for, by its index.

    The check needs no values of weights.
    """
    whole = expanded(model, LOWERINGS)
    reasons = {
        index: f"{model.layers[index].qualified_op}: {why}" for index, why in whole.refused.items()
    }
    for index, layer in zip(whole.origins, whole.model.layers, strict=True):
        if index in reasons:
            continue
        try:
            _build_alone(whole.model, layer)
        except UnsupportedError as error:
            own = model.layers[index] is layer
            what = error.message
            reasons[index] = what if own else f"{model.layers[index].qualified_op}: {what}"
    return reasons


def _build_alone(model: CanonicalModel, layer: Layer) -> None:
    with naming(layer):
        variables = Variables(model)
        fed = {n: variables.variable(n, model.tensors[n]) for n in model.activations(layer)}
    results = lower_layer(variables, layer, fed)
    with naming(layer):
        verify(mx.sym.Group(list(results.values())), list(results), model)
