"""Layers of a model one by one, for backends that determine their support by trial."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dlbricks_core.bricks import extract, signature
from dlbricks_core.bricks.extract import numbers
from dlbricks_core.ir import CanonicalModel


def layer_alone(model: CanonicalModel, index: int, *, keep_weights: bool = False) -> CanonicalModel:
    """One layer as a model that needs no values of weights.

    Weights whose values are known, such as axes, pads and shapes, stay constants: a framework may
    need them to build the layer. All other weights become inputs. Tensors get new names.

    Args:
        model: Model in canonical form.
        index: Index of the layer in the model.
        keep_weights: Whether the other weights stay weights, for a framework that needs constant
            weights to build a layer. :func:`dlbricks_core.values.materialize` draws their values.

    Examples:
        >>> alone = layer_alone(model, 3)
        >>> proto = to_onnx(alone, alone.constants)
    """
    layer = extract(model, (index,), "layer", exact=True)
    if keep_weights:
        return layer
    known = frozenset(layer.constants)
    return replace(layer, inputs=(*layer.inputs, *sorted(layer.weights - known)), weights=known)


def refused_layers(
    model: CanonicalModel,
    refusal: Callable[[CanonicalModel], str],
    *,
    keep_weights: bool = False,
) -> dict[int, str]:
    """Index and reason of every layer that a framework refuses, as ``Backend.check`` returns them.

    Layers that do the same work are tried once.

    Args:
        model: Model in canonical form, without opaque layers.
        refusal: Function that tries one layer, a result of :func:`layer_alone`, and returns the
            reason why the framework cannot run it; an empty text if it can.
        keep_weights: As for :func:`layer_alone`.
    """
    reasons: dict[int, str] = {}
    tried: dict[object, str] = {}
    for index in range(len(model.layers)):
        alone = layer_alone(model, index, keep_weights=keep_weights)
        identity = signature(model, (index,)), numbers(alone)
        if identity not in tried:
            tried[identity] = refusal(alone)
        if tried[identity]:
            reasons[index] = tried[identity]
    return reasons
