"""The ONNX reference evaluator, run inside a worker process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from onnx.reference import ReferenceEvaluator

from dlbricks_core.errors import BackendError
from dlbricks_core.ir import Array, CanonicalModel, Network, numpy_dtype, to_onnx
from dlbricks_core.passes.contrib.expand import expanded
from dlbricks_core.passes.convert import convert
from dlbricks_core.values import materialize


class ReferenceHost:
    """Service that computes a model by the definitions of its operators; it may take long."""

    def outputs(self, model: CanonicalModel, seed: int) -> Mapping[str, Array]:
        """Results by name, for the same weights and inputs as on every backend with this seed.

        Floats shorter than float32 are computed in float32: numpy lacks kernels for most of these
        types, and a comparison then shows the rounding errors of a backend.

        Raises:
            BackendError: If a result is not a tensor.
        """
        wide = _wide(materialize(model, seed))
        network = expanded(wide.model, known=()).network(wide)
        evaluator = ReferenceEvaluator(to_onnx(network.model, network.weights))
        with np.errstate(all="ignore"):
            results = evaluator.run(None, dict(network.inputs))
        return {name: _tensor(name, r) for name, r in zip(model.outputs, results, strict=True)}


def _wide(network: Network) -> Network:
    """The network with its shorter floats converted to float32."""
    model = convert(network.model, "float32")

    def widened(values: Mapping[str, Array], names: Iterable[str]) -> dict[str, Array]:
        return {
            name: values[name].astype(numpy_dtype(model.tensors[name].dtype), copy=False)
            for name in names
        }

    return Network(
        model, widened(network.weights, model.weights), widened(network.inputs, model.inputs)
    )


def _tensor(name: str, result: object) -> Array:
    if not isinstance(result, np.ndarray | np.generic):
        raise BackendError(f"output {name} is not a tensor")
    return np.asarray(result)
