"""Statistics of raw samples: locations, their uncertainty, and warnings.

Functions of location work along the last axis, so that they take the samples of a brick as well as
a table of resamplings.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from dlbricks_core.facts import Measurement, Note, Observation
from dlbricks_core.facts.note import warning

#: Variance of the mean of the faster half of n normal samples, in units of ``s**2 / n``, where
#: ``s**2`` is the variance of one sample. The influence function of this mean is
#: ``(min(x, m) - E min(x, m)) / 0.5`` with the median m. For a standard normal z, ``min(z, 0)`` has
#: the variance ``1/2 - 1/(2 pi)``.
FASTER_HALF_VARIANCE = 2 - 2 / math.pi

RESAMPLES = 1000
"""Number of replicates that an interval rests on."""

Samples = Sequence[float] | npt.NDArray[np.floating[Any]]
FloatArray = npt.NDArray[np.float64]
IntArray = np.ndarray[Any, np.dtype[np.signedinteger[Any]]]
Indices = npt.NDArray[np.intp]

#: Thresholds of pyperf's warnings: standard deviation, and distance of an extreme from the mean
#: (both relative to the mean); and the shortest time that a clock resolves well.
MAX_DEVIATION = 0.10
MAX_EXTREME = 0.50
MIN_SAMPLE_MS = 1.0


def median(samples: Samples) -> FloatArray:
    """Median along the last axis."""
    return np.asarray(np.median(_filled(samples), axis=-1))


def trimmed_mean(samples: Samples, fraction: float = 0.2) -> FloatArray:
    """Mean of the samples without the lowest and the highest.

    Args:
        samples: At least one sample along the last axis.
        fraction: Share of the samples to drop at each end, rounded down to whole samples. With
            the paper's fifth, four samples or fewer are all kept.
    """
    if not 0 <= fraction < 0.5:
        raise ValueError(f"cannot drop {fraction} at each end")
    ordered = np.sort(_filled(samples), axis=-1)
    count = ordered.shape[-1]
    dropped = int(fraction * count)
    return np.asarray(ordered[..., dropped : count - dropped].mean(axis=-1))


def faster_half(samples: Samples) -> FloatArray:
    """Mean of the faster half along the last axis; of an odd number, the middle counts half.

    Other work on a machine makes some runs slower and none faster. Samples above the median
    therefore say more about that work than about the network. A mean scatters less than a
    quantile or the minimum. For normal samples, the mean of the lower half lies ``sqrt(2 / pi)``
    (0.8) standard deviations below the mean of all. Its variance is
    ``FASTER_HALF_VARIANCE * s**2 / n``; that of the median is ``pi / 2 * s**2 / n``.

    Args:
        samples: At least one sample along the last axis.
    """
    ordered = np.sort(_filled(samples), axis=-1)
    half = ordered.shape[-1] / 2
    shares = np.clip(half - np.arange(ordered.shape[-1]), 0, 1)
    # Distances from the fastest, so that the mean of equal samples is exactly their value.
    fastest = ordered[..., :1]
    # Without BLAS: under a limit on memory, OpenBLAS waits for ever for more.
    return np.asarray(fastest[..., 0] + np.sum((ordered - fastest) * shares, axis=-1) / half)


def warnings_for(samples_ms: Samples) -> list[Note]:
    """Reasons why a measurement may be unstable, by the thresholds of pyperf."""
    values = _filled(samples_ms)
    found = _scatter(values)
    if is_short(values):
        found.append(warning("short-sample", sample_ms=float(values.min())))
    return found


def scatters(samples_ms: Samples) -> bool:
    """Whether samples scatter so much that pyperf calls them unstable."""
    return bool(_scatter(_filled(samples_ms)))


def is_short(samples_ms: Samples) -> bool:
    """Whether a sample is too short for a clock to resolve it well."""
    return bool(_filled(samples_ms).min() < MIN_SAMPLE_MS)


def _scatter(values: FloatArray) -> list[Note]:
    """Reasons why samples count as widely scattered."""
    mean = float(values.mean())
    found: list[Note] = []
    if values.size < 2 or mean <= 0:
        return found
    deviation = float(values.std(ddof=1))
    if deviation >= MAX_DEVIATION * mean:
        found.append(warning("samples-deviate", deviation_ms=deviation, mean_ms=mean))
    for name, extreme in (("minimum", float(values.min())), ("maximum", float(values.max()))):
        if abs(extreme - mean) >= MAX_EXTREME * mean:
            found.append(warning("extreme-sample", which=name, sample_ms=extreme, mean_ms=mean))
    return found


def _filled(samples: Samples) -> FloatArray:
    values = np.asarray(samples, dtype=np.float64)
    if values.size == 0:
        raise ValueError("no samples")
    return values


# Widths of intervals in words.

_WIDE = 0.6
"""Relative half-width from which the width is given as a factor, here 2. Wide intervals reach
further up than down, so their lower end is less than a half-width below the estimate.
"""


def width_text(half_width: float, digits: int = 0) -> str:
    """Half-width of an interval relative to its middle: ``±10%``, or ``within a factor of 3``.

    The factor is that between either end and the geometric middle. An interval that begins at 0 or
    below has none.

    Args:
        half_width: As of :func:`~dlbricks_core.figures.figure.relative_half_width`.
        digits: Decimal places of a percentage.

    Examples:
        >>> width_text(0.1)
        '±10%'
        >>> width_text(0.8)
        'within a factor of 3'
    """
    if half_width <= _WIDE or half_width >= 1:
        return f"±{half_width:.{digits}%}"
    return _within(math.exp(math.atanh(half_width)))


def widest_text(half_widths: Collection[float], digits: int = 0) -> str:
    """Bound on some half-widths: ``±10%`` if there is one, or else ``at most ±10%``.

    Args:
        half_widths: At least one, each as for :func:`width_text`.
        digits: Decimal places of a percentage.
    """
    text = width_text(max(half_widths), digits)
    return f"at most {text}" if len(half_widths) > 1 and text.startswith("±") else text


def spread_text(half_width: float) -> str:
    """Half-width of an interval relative to the estimate, which is its geometric middle.

    Examples:
        >>> spread_text(4 / 3)
        'within a factor of 3'
    """
    if half_width <= _WIDE:
        return f"±{half_width:.0%}"
    return _within(math.exp(math.asinh(half_width)))


def _within(factor: float) -> str:
    return (
        f"within a factor of {factor:.2g}" if factor < 10 else f"within a factor of {factor:,.0f}"
    )


# Disturbances of samples, and how much longer than on a quiet machine they may be.

FAR_SLOWDOWN = 2.0
"""Maximum factor by which networks slow down while virtual CPUs are far from each other."""

WIDENS = "widens-others"
"""Flag of samples that contradict the measurements of other networks and are used for no other
network.
"""

_FAR = "cpus-far-apart"
"""Flag of samples that were taken meanwhile."""

_NO_LOAD = {_FAR, WIDENS}
"""Flags that are unrelated to other programs."""

_UNKNOWN_LOAD = 0.25
"""Load of flagged samples of earlier versions, which did not keep it."""

MOST_SLOWDOWN = 60.0
"""Largest slowdown that intervals allow for. Beyond, nothing is measured: two-thread MXNet took
30 to 300 times as long beside programs that used 76% to 84% of the CPUs."""

_MOST_LOAD = 0.99
"""Maximum load in the formula: at a load of 1, its power would be infinite."""


DOUBTFUL_LOAD = 0.25
"""Share of the CPUs from which figures that were measured beside others are doubtful."""


_POWER_OF_ONE_THREAD = 1.0
"""Power of the share of the CPUs that others leave, by which a latency on one thread grows at most.

A policy: a fair scheduler leaves a thread that share of a CPU, and no less.
"""

_POWER_OF_SEVERAL_THREADS = 5.0
"""As above, for several threads.

A policy: all threads wait for the one that another program has interrupted, layer by layer, and
spin while they wait. No bound follows from that. Power 5 allows for a factor of 7 that was
reported of two threads beside one program (research/2026-11-29-busy-machine.md). Beyond
:data:`MOST_SLOWDOWN` nothing counts as measured.
"""


@dataclass(frozen=True)
class Disturbance:
    """Disturbance of the samples of a figure.

    Attributes:
        load: Share of the CPUs that others used meanwhile, from 0 to 1.
        slowdown: Maximum factor by which the samples are longer than on a quiet machine.
        marked: Whether samples carry a flag: figures of other networks must not rest on them.
    """

    load: float = 0.0
    slowdown: float = 1.0
    marked: bool = False

    @classmethod
    def of(cls, measurement: Measurement) -> Disturbance:
        """Disturbance of samples, all of which count. Unmarked ones have none."""
        marked = [each for each in measurement.observations if each.flags]
        if not marked or not measurement.question.quantity.is_time:
            return QUIET
        load = float(np.mean([_load(each) for each in marked]))
        far = any(_FAR in each.flags for each in marked)
        threads = measurement.question.setup.threads
        return cls(load, max(slowdown(load, threads), FAR_SLOWDOWN if far else 1.0), marked=True)

    @classmethod
    def worst(cls, several: Sequence[Disturbance]) -> Disturbance:
        """Disturbance of figures that are added up: at most that of each."""
        if not several:
            return QUIET
        return cls(
            max(each.load for each in several),
            max(each.slowdown for each in several),
            any(each.marked for each in several),
        )

    @property
    def is_doubtful(self) -> bool:
        """Whether others used so much of the CPUs that the figure is doubtful."""
        return self.load >= DOUBTFUL_LOAD

    @property
    def leaves_nothing(self) -> bool:
        """Whether others used so much of the CPUs that the samples measure nothing."""
        return self.slowdown > MOST_SLOWDOWN

    @property
    def factors(self) -> FloatArray | float:
        """Factors from the samples to a quiet machine, all equally likely: shape (RESAMPLES,).

        Figures that were disturbed alike have the same factors, which do not average out in a sum.
        """
        return 1.0 if self.slowdown == 1 else self.slowdown ** -_shares()


QUIET = Disturbance()
"""No disturbance."""


_BESIDE_OTHERS = "measured-beside-others"
"""Code of the note on such a disturbance."""


def load_of(notes: Iterable[Note]) -> float:
    """Largest load that notes on disturbances name, from 0 to 1; 0 if they name none."""
    named = (each.values["load"] for each in notes if each.code == _BESIDE_OTHERS)
    return max((load for load in named if isinstance(load, float)), default=0.0)


def disturbance_notes(disturbance: Disturbance, *, stored: bool) -> tuple[Note, ...]:
    """A note on figures that were measured while others used the CPUs.

    Args:
        disturbance: Disturbance of the figures.
        stored: Whether they were measured before.
    """
    if not disturbance.load:
        return ()
    load, times = disturbance.load, disturbance.slowdown
    found = warning("measured-beside-others", load=load, times=times, stored=stored)
    return (replace(found, severity="doubtful") if disturbance.is_doubtful else found,)


def slowdown(load: float, threads: int) -> float:
    """Maximum factor by which a latency is longer than on a quiet machine.

    Args:
        load: Share of the CPUs that others used, from 0 to 1.
        threads: Threads that compute one operator.
    """
    power = _POWER_OF_ONE_THREAD if threads == 1 else _POWER_OF_SEVERAL_THREADS
    return float((1 - min(load, _MOST_LOAD)) ** -power)


def _load(taken: Observation) -> float:
    if _NO_LOAD.issuperset(taken.flags):
        return 0.0
    return _UNKNOWN_LOAD if taken.load is None else taken.load


@cache
def _shares() -> FloatArray:
    """Exponents of the slowdown, whose middle 90% are from 0 to 1."""
    drawn = np.random.default_rng(0).permutation(RESAMPLES)
    return np.asarray((drawn + 0.5) / RESAMPLES * 1.12 - 0.06)
