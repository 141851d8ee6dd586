"""Which networks are alike but for their size, and how large each is."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, replace

from dlbricks_core.analysis.flops import layer_flops
from dlbricks_core.bricks import weights_are_reread
from dlbricks_core.ir import CanonicalModel, Layer

_BLOCK = 8
"""Channels that frameworks keep together in blocked layouts; other numbers of them take
other kernels."""

_SHAPING = ("kernel_shape", "strides", "dilations", "direction")
"""Attributes that decide how an operator computes, more than how much."""

_LEFT_OUT = {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 0}
"""What the standard says of attributes that layers made by a framework may lack."""


@dataclass(frozen=True)
class Volume:
    """How much a network computes and moves.

    Attributes:
        flops: Operations of all layers.
        nbytes: Memory of all tensors, weights included.
    """

    flops: int
    nbytes: int

    @classmethod
    def of(cls, model: CanonicalModel) -> Volume:
        """Volume of a network with static shapes."""
        flops = sum(_flops(model, layer) for layer in model.layers)
        return cls(max(flops, 1), max(sum(spec.nbytes for spec in model.tensors.values()), 1))

    def expected(self, share: float) -> float:
        """Of time, in arbitrary units: between what computing takes and what moving takes.

        Args:
            share: Of operations in the logarithm of a latency; the rest is memory's.
        """
        return float(self.flops**share * self.nbytes ** (1 - share))

    def distance(self, other: Volume) -> float:
        """How many times larger one is than the other, in that in which they differ most."""
        return max(_times(self.flops, other.flops), _times(self.nbytes, other.nbytes))


def form(model: CanonicalModel) -> Hashable:
    """What networks have in common that are alike but for their size.

    Operators in order, each with its windows and steps, its type of numbers, and whether its
    channels fill whole blocks; and whether they find their weights warm.
    """
    layers = tuple(
        (
            layer.qualified_op,
            *(str(layer.attributes.get(name)) for name in _SHAPING),
            tuple(spec.dtype if spec else "" for spec in model.specs(layer.outputs)),
            _channels(model, layer),
        )
        for layer in model.layers
    )
    return weights_are_reread(model), layers


def _channels(model: CanonicalModel, layer: Layer) -> Hashable:
    """Of a convolution: how its groups look, and whether channels fill blocks."""
    weight = model.specs(layer.inputs[:2])[1] if len(layer.inputs) > 1 else None
    if layer.op.removeprefix("Fused") not in ("Conv", "ConvTranspose") or weight is None:
        return None
    groups = layer.attributes.get("group", 1)
    assert isinstance(groups, int)
    outputs, inputs = weight.sizes[0] // groups, weight.sizes[1]
    look = "one" if groups == 1 else "depthwise" if inputs == 1 else "several"
    return look, outputs % _BLOCK == 0, inputs % _BLOCK == 0


def _flops(model: CanonicalModel, layer: Layer) -> int:
    """Operations of a layer; 0 where nothing tells.

    Layers that a framework makes keep the standard's name in a domain of their own, some
    with "Fused" before it.
    """
    standard = replace(
        layer,
        op=layer.op.removeprefix("Fused"),
        domain="",
        attributes={**_LEFT_OUT, **layer.attributes},
    )
    return layer_flops(model, standard) or 0


def _times(one: int, other: int) -> float:
    return math.exp(abs(math.log(one / other)))
