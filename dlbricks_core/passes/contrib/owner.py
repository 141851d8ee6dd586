"""ONNX Runtime's own operators, as seen by code that seldom needs their definitions."""

from __future__ import annotations

from dlbricks_core.ir import CanonicalModel

DOMAIN = "com.microsoft"
"""Domain of ONNX Runtime's own operators."""

OWNER = "onnxruntime"
"""Name of the backend that runs them as they are."""

WITHOUT_DOMAIN = "SimplifiedLayerNormalization"
"""Operator of ONNX Runtime that exporters write without its domain."""


def as_run_by(backend: str, model: CanonicalModel) -> CanonicalModel:
    """The model with the layers that a backend runs in the place of operators that it lacks.

    Args:
        backend: Name of the backend.
        model: In canonical form, or in a form of the backend's own.
    """
    if backend == OWNER or not any(
        layer.domain == DOMAIN or layer.op == WITHOUT_DOMAIN for layer in model.layers
    ):
        return model
    # Definitions take a tenth of a second to import, and few models need any.
    from dlbricks_core.passes.contrib.expand import expanded

    return expanded(model, known=()).model
