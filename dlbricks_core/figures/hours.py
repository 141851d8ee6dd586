"""Differences between hours: latencies on one machine differ from one quiet hour to another.

Rounds of one session do not show them, and further rounds do not narrow them.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

import numpy as np

from dlbricks_core import fitted
from dlbricks_core.facts import Measurement
from dlbricks_core.figures.protocols import Statistic
from dlbricks_core.figures.rounds import FEWEST_QUIET
from dlbricks_core.figures.statistics import FloatArray


@dataclass(frozen=True)
class UsualHours:
    """Differences between two hours on machines like those of the reference data.

    Attributes:
        virtual: Standard deviation of the relative difference on a virtual machine, whose
            neighbours do not show.
        real: The same on real hardware.
        differences: Number of sessions' differences that count as much.
    """

    virtual: float
    real: float
    differences: int


@cache
def usual_hours() -> UsualHours:
    """The differences that were fitted."""
    return UsualHours(**fitted.values(__file__, "hours"))


def between_hours(
    measurements: Iterable[Measurement], statistic: Statistic, *, virtual: bool
) -> float:
    """Standard deviation of the relative difference of a latency from one hour to another.

    The usual difference is combined with the differences of networks that were timed in several
    sessions. Networks of one session differ together, so that the sessions are counted, and not the
    networks.

    Args:
        measurements: Measurements on the machine; networks of a single session are ignored.
        statistic: Statistic of the samples of a session.
        virtual: Whether the machine is a virtual one.
    """
    usual = usual_hours()
    squares, degrees, most = 0.0, 0, 0
    for each in measurements:
        logs = _by_session(each, statistic)
        squares += float(((logs - logs.mean()) ** 2).sum()) if len(logs) > 1 else 0.0
        degrees += max(len(logs) - 1, 0)
        most = max(most, len(logs) - 1)
    expected = (usual.virtual if virtual else usual.real) ** 2
    # Two hours differ from each other by twice the variance by which each differs from the mean.
    seen = 2 * squares / degrees if degrees else 0.0
    weights = usual.differences, most
    return math.sqrt((weights[0] * expected + weights[1] * seen) / sum(weights))


def _by_session(measurement: Measurement, statistic: Statistic) -> FloatArray:
    """Logarithm of the statistic of each session with enough samples that others left alone."""
    values: defaultdict[str, list[float]] = defaultdict(list)
    for each in measurement.observations:
        values[each.session] += () if each.flags else each.values
    found = [statistic(np.array(each)) for each in values.values() if len(each) >= FEWEST_QUIET]
    return np.asarray(np.log([float(each) for each in found if each > 0]))
