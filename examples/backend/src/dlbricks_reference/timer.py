"""Loads and runs networks with the ONNX reference evaluator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from onnx.reference import ReferenceEvaluator

from dlbricks_core.backends import Array, CpuTimer, Network, refused_layers
from dlbricks_core.bricks import cold_tensors
from dlbricks_core.errors import UnsupportedError
from dlbricks_core.ir import CanonicalModel, to_onnx


@dataclass
class Loaded:
    """A network that is ready to run.

    Attributes:
        evaluator: The network with its weights.
        inputs: Values that it runs on, by name.
        warmed: The inputs to warm before a timed run.
        results: Results of the last run, in the order of the network's outputs.
    """

    evaluator: ReferenceEvaluator
    inputs: dict[str, Array]
    warmed: list[Array]
    results: list[Array] = field(default_factory=list)


class ReferenceTimer(CpuTimer[Loaded]):
    """Times networks on numpy; runs are synchronous."""

    def load(self, network: Network) -> Loaded:
        """Writes the network as ONNX and hands it to the evaluator."""
        reasons = refused_layers(network.model, refusal)
        if reasons:
            raise UnsupportedError("; ".join(dict.fromkeys(reasons.values())))
        return _loaded(to_onnx(network.model, network.weights), network)

    def load_native(self, network: Network) -> Loaded:
        """Hands the file over as it is: neither imported nor brought into canonical form."""
        return _loaded(network.model.source, network)

    def run(self, loaded: Loaded) -> None:
        """One inference."""
        loaded.results = loaded.evaluator.run(None, loaded.inputs)

    def warm_io(self, loaded: Loaded) -> None:
        """Reads the inputs. Results need nothing: numpy takes memory that was just freed."""
        for array in loaded.warmed:
            array.copy()

    def release(self, loaded: Loaded) -> None:
        """Frees the results, so that the next run finds warm memory for its own."""
        loaded.results = []

    def outputs(self, loaded: Loaded) -> Mapping[str, Array]:
        """Copies of the last results: the evaluator may hand out an input as a result."""
        pairs = zip(loaded.evaluator.output_names, loaded.results, strict=True)
        return {name: np.array(value) for name, value in pairs}


def refusal(layer: CanonicalModel) -> str:
    """Why the evaluator cannot run a layer; empty if it can."""
    try:
        ReferenceEvaluator(to_onnx(layer, layer.constants))
    except NotImplementedError:
        return f"the reference evaluator does not implement {layer.layers[0].qualified_op}"
    return ""


def _loaded(model: object, network: Network) -> Loaded:
    inputs = {name: network.inputs[name].copy() for name in network.model.inputs}
    cold = cold_tensors(network.model)
    warmed = [array for name, array in inputs.items() if name not in cold]
    return Loaded(ReferenceEvaluator(model), inputs, warmed)
