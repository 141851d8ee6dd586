"""A model with values, ready to run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dlbricks_core.ir.model import CanonicalModel

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Network:
    """A canonical model with a value for every weight and every input.

    Attributes:
        model: A model without opaque layers.
        weights: Value of every tensor in ``model.weights``.
        inputs: Value of every tensor in ``model.inputs``.
    """

    model: CanonicalModel
    weights: Mapping[str, Array]
    inputs: Mapping[str, Array]
