"""The ONNX reference evaluator, run inside a worker process."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from onnx.reference import ReferenceEvaluator

from dlbricks_core.errors import BackendError
from dlbricks_core.ir import Array, CanonicalModel, to_onnx
from dlbricks_core.passes.contrib.expand import expanded
from dlbricks_core.values import materialize


class ReferenceHost:
    """Service that computes a model by the definitions of its operators; it may take long."""

    def outputs(self, model: CanonicalModel, seed: int) -> Mapping[str, Array]:
        """Results by name, from the values that every backend gets for this seed.

        Raises:
            BackendError: If a result is not a tensor.
        """
        network = materialize(model, seed)
        whole = expanded(model, known=())
        network = whole.network(network)
        evaluator = ReferenceEvaluator(to_onnx(whole.model, network.weights))
        with np.errstate(all="ignore"):
            results = evaluator.run(None, dict(network.inputs))
        return {name: _tensor(name, r) for name, r in zip(model.outputs, results, strict=True)}


def _tensor(name: str, result: object) -> Array:
    if not isinstance(result, np.ndarray | np.generic):
        raise BackendError(f"output {name} is no tensor")
    return np.asarray(result)
