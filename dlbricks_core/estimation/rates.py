"""Rates: a fixed set of small networks whose latencies say what a machine does.

Each shows one thing that frameworks do on a machine: products of several sizes, convolutions of
each sort, bytes from caches and from memory, exponentials, layers that only move data, and the cost
of a call. They are networks of the survey, so the reference data hold them for other systems.
"""

from __future__ import annotations

from collections.abc import Mapping

from dlbricks_core.estimation.characterization import surveyed
from dlbricks_core.measure.targets import Target

RATES: Mapping[int, str] = {
    2: "large product",
    26: "product of few rows",
    40: "product of one row",
    30: "layers of a transformer",
    58: "products of activations",
    108: "convolution, 3x3",
    89: "convolution, 1x1",
    54: "residual block",
    91: "convolution in groups",
    105: "convolution of each channel",
    50: "block of a mobile network",
    79: "transposed convolution",
    56: "recurrent layer",
    65: "normalization of rows",
    19: "bytes from memory",
    97: "exponentials",
    73: "softmax",
    100: "pool",
    21: "resize",
    15: "transposition",
    44: "shuffle of channels",
    51: "concatenation",
    62: "call of a small layer",
}
"""What each network shows, by its place in the survey's order."""


def rated() -> Mapping[str, Target]:
    """The networks, by signature."""
    drawn = list(surveyed(max(RATES) + 1).items())
    return dict(drawn[place] for place in RATES)
