"""Drift: latencies of whole models differ from one time to another."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from zlib import crc32

import numpy as np

from dlbricks_core import fitted
from dlbricks_core.figures.figure import RESAMPLES, Figure
from dlbricks_core.figures.precision import NORMAL_HALF_WIDTH
from dlbricks_core.figures.predicted import Predicted


@dataclass(frozen=True)
class Drift:
    """Standard deviations by which a whole model's latency differs from one time to another.

    They are relative to the latency. The scatter of samples that were taken within seconds does not
    show them, and further samples do not narrow them.

    Attributes:
        session: Of a model that is timed beside its bricks.
        plain_loop: Of the mean of a plain loop over one model, minutes apart on a shared machine.
    """

    session: float
    plain_loop: float


@cache
def drift() -> Drift:
    """The drift that was fitted."""
    return Drift(**fitted.values(__file__, "drift"))


def drifting(signature: str, figure: Figure, deviation: float) -> Predicted:
    """A measured figure that also varies by the drift between now and another time.

    Args:
        signature: Signature of the network.
        figure: Its figure.
        deviation: Standard deviation of the drift, relative.
    """
    normal = np.random.default_rng(crc32(signature.encode())).standard_normal(RESAMPLES)
    draws = np.maximum(figure.replicates * (1 + deviation * normal), 0.0)
    return Predicted(figure.value, draws, figure.overhead)


def scatter_within(precision: float) -> float:
    """Half-width that scatter may have, so that with the drift it is within a precision.

    Half of the precision is always allowed: less scatter does not make up for the drift.
    """
    drifted = NORMAL_HALF_WIDTH * drift().session
    return math.sqrt(max(precision**2 - drifted**2, (precision / 2) ** 2))
