"""Power of activations: their expected mean square, propagated through a model."""

from __future__ import annotations

import numpy as np

from dlbricks_core.ir import CanonicalModel
from dlbricks_core.operators.table import operator


def activation_powers(model: CanonicalModel) -> dict[str, float]:
    """Rough mean square of every tensor when inputs and weights are near unit scale.

    Weights are drawn so that the results of weighted sums have power 1 for all inputs. Magnitudes
    then grow with the additions between weighted layers, not with the depth of the network.

    Args:
        model: Model in canonical form.
    """
    powers: dict[str, float] = {}
    for name, value in model.constants.items():
        if value.dtype.kind == "f" and value.size:
            finite = value[np.isfinite(value)]
            powers[name] = float(np.mean(np.square(finite, dtype=np.float64))) if finite.size else 1
    for layer in model.layers:
        read = [powers.get(name, 1.0) or 1.0 for name in layer.inputs if name]
        power = operator(layer.qualified_op).power(layer, read, model)
        for name in layer.outputs:
            # Beyond these bounds, rounding dominates.
            powers[name] = min(max(power, 1e-6), 1e12)
    return powers
