"""Networks that differ only in size: their common form, and the volume of each."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, replace

from dlbricks_core.analysis.work import layer_flops
from dlbricks_core.bricks import weights_are_reread
from dlbricks_core.ir import CanonicalModel, Layer

_BLOCK = 8
"""Channels in one block of blocked layouts. Frameworks use other kernels for numbers of channels
that are not multiples of it."""

_SHAPING = ("kernel_shape", "strides", "dilations", "direction")
"""Attributes that decide which kernel computes an operator, rather than how much it computes."""

_LEFT_OUT = {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 0}
"""Defaults of attributes that layers written by a framework may lack."""


@dataclass(frozen=True)
class Volume:
    """Size of a network: operations and bytes.

    Attributes:
        flops: Floating-point operations of all layers, at least 1.
        nbytes: Bytes of all tensors, weights included, at least 1.
    """

    flops: int
    nbytes: int

    @classmethod
    def of(cls, model: CanonicalModel) -> Volume:
        """Volume of a network with static shapes."""
        flops = sum(_flops(model, layer) for layer in model.layers)
        return cls(max(flops, 1), max(sum(spec.nbytes for spec in model.tensors.values()), 1))

    def expected(self, share: float) -> float:
        """Expected time in arbitrary units: a weighted geometric mean of operations and bytes.

        Args:
            share: Weight of the operations, from 0 to 1; the rest is the weight of the bytes.
        """
        return float(self.flops**share * self.nbytes ** (1 - share))

    def distance(self, other: Volume) -> float:
        """Ratio of larger to smaller, in operations or in bytes, whichever ratio is larger."""
        return max(_times(self.flops, other.flops), _times(self.nbytes, other.nbytes))


def form(model: CanonicalModel) -> Hashable:
    """Key that networks share if they differ only in size.

    It has the operators in order, each with its windows, strides and element types, whether
    channels fill whole blocks, and whether the network finds its weights in the caches.
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
    """Groups of a convolution, and whether its channels fill blocks; ``None`` for others."""
    weight = model.specs(layer.inputs[:2])[1] if len(layer.inputs) > 1 else None
    if layer.op.removeprefix("Fused") not in ("Conv", "ConvTranspose") or weight is None:
        return None
    groups = layer.attributes.get("group", 1)
    assert isinstance(groups, int)
    outputs, inputs = weight.sizes[0] // groups, weight.sizes[1]
    look = "one" if groups == 1 else "depthwise" if inputs == 1 else "several"
    return look, outputs % _BLOCK == 0, inputs % _BLOCK == 0


def _flops(model: CanonicalModel, layer: Layer) -> int:
    """Floating-point operations of a layer; 0 if they are unknown.

    A layer that a framework writes has the standard's name in a domain of its own, sometimes
    with "Fused" in front.
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
