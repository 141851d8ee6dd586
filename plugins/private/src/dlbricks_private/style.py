"""Habits of a model, which its decoys adopt, so that activations and the like reveal nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from dlbricks_core.ir import Array, CanonicalModel, Layer
from dlbricks_private.grafting import only_used
from dlbricks_private.transplant import STEP

_ACTIVATIONS = frozenset(
    {"Celu", "Clip", "Elu", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Mish", "Relu",
     "Selu", "Sigmoid", "Softplus", "Softsign", "Swish", "Tanh", "ThresholdedRelu"}
)  # fmt: skip

_DROPPED = frozenset({"BatchNormalization", "Dropout", "LRN"})
"""Layers that preserve the shape of their first input. They are left out of decoys for a model
without such layers.
"""

_JOINS = frozenset({"Add", "Concat", "Sum"})
"""Layers that join branches."""

_MOST_EVEN = 64
"""Largest power of two by which widths are compared."""


@dataclass(frozen=True)
class Activation:
    """An activation in a model."""

    layer: Layer  #: The layer.
    values: Mapping[int, Array]  #: Values of its inputs after the first, by position.


@dataclass(frozen=True)
class Style:
    """Habits of a model that show in most of its layer sequences."""

    activations: Sequence[Activation]  #: All activations, with repetitions.
    operators: frozenset[str]  #: Operators of the model.
    steps: Sequence[int]  #: Largest power of two, up to 64, that divides the width of each weight.
    #: The layer that joins branches in each distinct sequence; ``None`` without branches.
    joins: Sequence[Layer | None]

    @classmethod
    def of(cls, model: CanonicalModel, places: Iterable[Sequence[int]]) -> Self:
        """Habits of a model.

        Args:
            model: The model.
            places: Layers of each distinct sequence of the model.
        """
        found = [
            Activation(layer, values)
            for layer in model.layers
            if layer.op in _ACTIVATIONS and (values := _values(model, layer)) is not None
        ]
        widths = [
            model.tensors[layer.inputs[1]].sizes[0]
            for layer in model.layers
            if layer.op == "Conv" and layer.inputs[1] in model.weights
        ]
        return cls(
            found,
            frozenset(layer.op for layer in model.layers),
            [min(width & -width, _MOST_EVEN) for width in widths] or [STEP],
            [join_of(model, place) for place in places],
        )

    def worn_by(self, piece: CanonicalModel, random: np.random.Generator) -> CanonicalModel:
        """A layer sequence of another model, adapted to the habits of this one.

        Activations that the model lacks are replaced by one that it has, the same throughout the
        sequence. Normalizations that it lacks are left out.

        Args:
            piece: The sequence.
            random: Generator that draws the activation.
        """
        if not self.activations:
            return piece
        worn = self.activations[int(random.integers(len(self.activations)))]
        layers: list[Layer] = []
        constants, tensors = dict(piece.constants), dict(piece.tensors)
        weights, same = set(piece.weights), dict[str, str]()
        for layer in piece.layers:
            inputs = tuple(same.get(name, name) for name in layer.inputs)
            layer = replace(layer, inputs=inputs)
            if layer.op in _DROPPED - self.operators and not {*layer.outputs} & {*piece.outputs}:
                same[layer.outputs[0]] = inputs[0]
                continue
            if layer.op in _ACTIVATIONS - self.operators:
                names = [f"{layer.outputs[0]}/{i}" for i in worn.values]
                for name, value in zip(names, worn.values.values(), strict=True):
                    constants[name] = value
                    weights.add(name)
                    tensors[name] = replace(tensors[inputs[0]], shape=value.shape)
                layer = replace(
                    layer,
                    op=worn.layer.op,
                    domain=worn.layer.domain,
                    attributes=worn.layer.attributes,
                    inputs=(inputs[0], *names),
                )
            layers.append(layer)
        return only_used(
            replace(
                piece,
                layers=tuple(layers),
                tensors=tensors,
                weights=frozenset(weights),
                constants=constants,
            )
        )


def join_of(model: CanonicalModel, place: Iterable[int]) -> Layer | None:
    """The last layer of a sequence that joins branches; adding a weight does not count."""
    layers = (model.layers[i] for i in place)
    joins = [each for each in layers if each.op in _JOINS and len(model.activations(each)) > 1]
    return joins[-1] if joins else None


def _values(model: CanonicalModel, layer: Layer) -> dict[int, Array] | None:
    """Values of an activation's further inputs; ``None`` if any of them is unknown."""
    names = dict(enumerate(layer.inputs[1:], start=1))
    known = {i: model.constants[name] for i, name in names.items() if name in model.constants}
    return known if len(known) == len(names) else None
