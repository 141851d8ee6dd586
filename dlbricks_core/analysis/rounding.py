"""Operators that round what they read to fewer bits than their types have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from dlbricks_core.ir import CanonicalModel, Layer

_LEVELS: Mapping[object, float] = {2: 2**-10, 3: 2**-7, 4: 2**-7}
"""Unit of precision by accuracy level, the least precise type that a kernel may compute in:
float16, bfloat16, and integers of eight bits. These have 127 steps from zero to the greatest number
of a block of activations.
"""


def precision_of(layer: Layer) -> float:
    """Unit that a layer may round what it reads to, relative to its size; 0 if it does not."""
    return _LEVELS.get(layer.attributes.get("accuracy_level"), 0.0)


def rounding_layers(model: CanonicalModel) -> Mapping[str, int]:
    """Number of layers that round what they read, by operator."""
    return Counter(layer.op for layer in model.layers if precision_of(layer))


def precisions(model: CanonicalModel) -> Mapping[str, float]:
    """Coarsest unit that any layer on the way to an output rounds to, for outputs with such layers.

    Args:
        model: In canonical form.
    """
    coarsest: dict[str, float] = {}
    for layer in model.layers:
        reached = (coarsest.get(name, 0.0) for name in layer.reads)
        unit = max((precision_of(layer), *reached))
        if unit:
            coarsest.update(dict.fromkeys(filter(None, layer.outputs), unit))
    return {name: coarsest[name] for name in model.outputs if name in coarsest}
