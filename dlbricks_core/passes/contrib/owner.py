"""ONNX Runtime's own operators, as seen by code that seldom needs their definitions."""

from __future__ import annotations

from dlbricks_core.ir import CanonicalModel

DOMAIN = "com.microsoft"
"""Domain of ONNX Runtime's own operators."""

WITHOUT_DOMAIN = "SimplifiedLayerNormalization"
"""Operator of ONNX Runtime that exporters write without its domain."""


def as_run_by(domains: frozenset[str] | None, model: CanonicalModel) -> CanonicalModel:
    """The model with the layers that a backend runs in the place of operators that it lacks.

    A backend that has ONNX Runtime's operators runs some in the place of several of ONNX's.

    Args:
        domains: Domains of the operators that the backend has beside ONNX's. If no definition is
            known, the model does not change.
        model: Model in canonical form, or in a form of the backend's own.
    """
    if domains is None:
        return model
    if DOMAIN in domains:
        from dlbricks_core.passes.contrib.join import joined

        return joined(model)
    if not any(layer.domain == DOMAIN or layer.op == WITHOUT_DOMAIN for layer in model.layers):
        return model
    # Definitions take a tenth of a second to import, and few models need any.
    from dlbricks_core.passes.contrib.expand import expanded

    return expanded(model, known=()).model
