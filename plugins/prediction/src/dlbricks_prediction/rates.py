"""Rates of a machine: the latencies of a fixed set of small networks.

Each network measures one kind of work: products of several sizes, convolutions of each sort, bytes
from caches and from memory, exponentials, layers that only move data, or the cost of a call. The
networks belong to the survey, so the reference data contain them for other systems.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from itertools import islice
from typing import Literal

from dlbricks_core.measure.cutting import Target
from dlbricks_prediction import survey
from dlbricks_prediction.atlas import SURVEYED

Unit = Literal["GFLOP/s", "GB/s", "us"]

RATES: Mapping[int, tuple[str, Unit]] = {
    2: ("large product", "GFLOP/s"),
    26: ("product of few rows", "GFLOP/s"),
    40: ("product of one row", "GB/s"),
    30: ("layers of a transformer", "GFLOP/s"),
    58: ("products of activations", "GFLOP/s"),
    108: ("convolution, 3x3", "GFLOP/s"),
    89: ("convolution, 1x1", "GFLOP/s"),
    54: ("residual block", "GFLOP/s"),
    91: ("convolution in groups", "GFLOP/s"),
    105: ("convolution of each channel", "GFLOP/s"),
    50: ("block of a mobile network", "GFLOP/s"),
    79: ("transposed convolution", "GFLOP/s"),
    56: ("recurrent layer", "GFLOP/s"),
    19: ("bytes from memory", "GB/s"),
    97: ("exponentials", "GB/s"),
    65: ("normalization of rows", "GB/s"),
    73: ("softmax", "GB/s"),
    100: ("pool", "GB/s"),
    21: ("resize", "GB/s"),
    15: ("transposition", "GB/s"),
    44: ("shuffle of channels", "GB/s"),
    51: ("concatenation", "GB/s"),
    62: ("call of a small layer", "us"),
}
"""Name and unit of the rate that each network shows, by its place in the survey's order."""


def surveyed(number: int) -> dict[str, Target]:
    """The first networks of the survey, by signature.

    Args:
        number: Number of networks.
    """
    return {target.brick.signature: target for target in _first(number)}


@cache
def _first(number: int) -> tuple[Target, ...]:
    """The first networks of the survey, drawn once for all models of a process."""
    return tuple(
        Target(each.brick, "brick", SURVEYED + each.family)
        for each in islice(survey.draw(), number)
    )


@cache
def rated() -> Mapping[str, Target]:
    """The networks, by signature."""
    drawn = [*surveyed(max(RATES) + 1).items()]
    return dict(drawn[place] for place in RATES)
