"""Annotations of models: which backend wrote the layers, and how warm the weights are.

Both are part of a brick's signature: they say under which conditions it is timed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dlbricks_core.ir import Array, CanonicalModel, RawModel

_NATIVE_TO = "native_to"
_WEIGHTS_REREAD = "weights_reread"


def native(raw: RawModel, backend: str, constants: Mapping[str, Array]) -> CanonicalModel:
    """A graph that a backend wrote, to be run by that backend just as it stands.

    Its layers keep the backend's own form. Every tensor must have a static shape.

    Args:
        raw: The graph, as :func:`dlbricks_core.ir.read_model` gives it.
        backend: Name of the backend.
        constants: Values by tensor: of small weights, and of tensors that shapes are computed from.
    """
    return CanonicalModel(
        name=raw.name,
        layers=raw.layers,
        inputs=raw.inputs,
        outputs=raw.outputs,
        tensors=raw.tensors,
        weights=raw.weights,
        constants=constants,
        opsets=raw.opsets,
        source=raw.source,
        annotations={_NATIVE_TO: backend},
    )


def native_to(model: CanonicalModel) -> str:
    """Name of the backend that wrote the layers; empty for layers in canonical form."""
    return model.annotations.get(_NATIVE_TO, "")


def with_weights_reread(model: CanonicalModel) -> CanonicalModel:
    """The model, marked as one that finds its weights in the caches."""
    return replace(model, annotations={**model.annotations, _WEIGHTS_REREAD: "yes"})


def weights_are_reread(model: CanonicalModel) -> bool:
    """Whether the weights are as warm as when the model runs twice in a row.

    They are if the model that a brick is cut from has just read them, or if that model is so
    small that the caches keep all of it.
    """
    return _WEIGHTS_REREAD in model.annotations
