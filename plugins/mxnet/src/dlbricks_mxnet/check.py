"""Layers that MXNet cannot run, found by building each of them alone."""

from __future__ import annotations

from dlbricks_core.backends import naming
from dlbricks_core.errors import UnsupportedError
from dlbricks_core.ir import CanonicalModel, Layer
from dlbricks_mxnet.lowering.build import verify
from dlbricks_mxnet.lowering.context import Variables
from dlbricks_mxnet.lowering.symbols import mx
from dlbricks_mxnet.lowering.table import lower_layer


def unsupported(model: CanonicalModel) -> dict[int, str]:
    """Reason for every layer that MXNet has no exact counterpart for, by its index.

    Works without the values of weights.
    """
    reasons = {}
    for index, layer in enumerate(model.layers):
        try:
            _build_alone(model, layer)
        except UnsupportedError as error:
            reasons[index] = error.message
    return reasons


def _build_alone(model: CanonicalModel, layer: Layer) -> None:
    with naming(layer):
        variables = Variables(model)
        fed = {n: variables.variable(n, model.tensors[n]) for n in model.activations(layer)}
    results = lower_layer(variables, layer, fed)
    with naming(layer):
        verify(mx.sym.Group(list(results.values())), list(results), model)
