"""Annotations of models: the backend that wrote the layers, and the tensors that are in the caches.

All are part of a brick's signature: they say under which conditions it is timed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dlbricks_core.ir import CanonicalModel

if TYPE_CHECKING:
    from dlbricks_core.ir import Array, RawModel

_NATIVE_TO = "native_to"
_WEIGHTS_REREAD = "weights_reread"
_COLD_INPUTS = "cold_inputs"
_COLD_OUTPUTS = "cold_outputs"


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


def with_cold(model: CanonicalModel, names: Collection[str]) -> CanonicalModel:
    """The model, marked as one that finds some inputs and outputs in no cache.

    Args:
        model: Model in canonical form.
        names: Names of these inputs and outputs; others do not count.
    """
    marks = {
        _COLD_INPUTS: _places(model.inputs, names),
        _COLD_OUTPUTS: _places(model.outputs, names),
    }
    others = {key: value for key, value in model.annotations.items() if key not in marks}
    found = {**others, **{key: places for key, places in marks.items() if places}}
    # A replaced model computes its consumers and producers anew.
    return model if found == model.annotations else replace(model, annotations=found)


def cold_tensors(model: CanonicalModel) -> frozenset[str]:
    """Names of inputs and outputs that no cache holds when the model runs.

    The model that a brick is cut from has moved too many bytes since they were last touched. An
    example is the cache of keys and values that a decoder reads and hands out.
    """
    ends = ((_COLD_INPUTS, model.inputs), (_COLD_OUTPUTS, model.outputs))
    return frozenset(
        names[int(place)] for key, names in ends for place in model.annotations.get(key, "").split()
    )


def _places(tensors: Sequence[str], names: Collection[str]) -> str:
    """Positions of the named tensors: unlike names, they outlast renaming."""
    if not names:  # of most bricks, and a model may have as many outputs as bricks
        return ""
    return " ".join(str(place) for place, name in enumerate(tensors) if name in names)
