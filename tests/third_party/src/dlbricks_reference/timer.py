"""Loads and runs networks with the ONNX reference evaluator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from onnx import ModelProto
from onnx.reference import ReferenceEvaluator

from dlbricks_core.backends import Array, CpuTimer, Network
from dlbricks_core.bricks import extract
from dlbricks_core.errors import UnsupportedError
from dlbricks_core.ir import Model, to_onnx


@dataclass
class Loaded:
    """A network that is ready to run.

    Attributes:
        evaluator: Of the network, its weights included.
        inputs: Copies of the values to run on.
        outputs: Names of the results.
        results: Of the last run.
    """

    evaluator: ReferenceEvaluator
    inputs: dict[str, Array]
    outputs: tuple[str, ...]
    results: list[Array] = field(default_factory=list)


class ReferenceTimer(CpuTimer[Loaded]):
    """Times networks on numpy; runs are synchronous."""

    def load(self, network: Network) -> Loaded:
        """Writes the network as ONNX and hands it to the evaluator."""
        reasons = unsupported(network.model)
        if reasons:
            raise UnsupportedError("; ".join(dict.fromkeys(reasons.values())))
        evaluator = ReferenceEvaluator(to_onnx(network.model, network.weights))
        inputs = {name: network.inputs[name].copy() for name in network.model.inputs}
        return Loaded(evaluator, inputs, network.model.outputs)

    def run(self, loaded: Loaded) -> None:
        """One inference."""
        loaded.results = loaded.evaluator.run(None, loaded.inputs)

    def warm_io(self, loaded: Loaded) -> None:
        """Writes every input onto itself."""
        for array in loaded.inputs.values():
            np.copyto(array, array.copy())

    def outputs(self, loaded: Loaded) -> Mapping[str, Array]:
        """Results of the last run by name; copies, for a result may be an input."""
        pairs = zip(loaded.outputs, loaded.results, strict=True)
        return {name: np.array(value) for name, value in pairs}


def unsupported(model: Model) -> dict[int, str]:
    """Index and reason of every layer that the evaluator has no implementation of."""
    reasons = {}
    for index, layer in enumerate(model.layers):
        try:
            ReferenceEvaluator(_alone(model, index))
        except NotImplementedError:
            reasons[index] = f"the reference evaluator does not implement {layer.qualified_op}"
    return reasons


def _alone(model: Model, index: int) -> ModelProto:
    """One layer as a model; its weights are inputs, so that no values are needed."""
    layer = extract(model, (index,), "layer")
    inputs = (*layer.inputs, *sorted(layer.weights))
    return to_onnx(replace(layer, inputs=inputs, weights=frozenset()), {})
