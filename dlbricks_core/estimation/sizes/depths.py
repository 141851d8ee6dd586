"""Joint fit of the latencies of one token at several depths of the cache.

A token's work grows smoothly with the cache, but each depth is timed separately, at another moment.
Separate figures may contradict each other: a token after 64 tokens may appear to take twice as
long as a token after 67.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from dlbricks_core.analysis.work import Work
from dlbricks_core.compose import Estimate
from dlbricks_core.estimation.model_result import ModelResult
from dlbricks_core.figures.figure import relative_half_width
from dlbricks_core.figures.statistics import FloatArray

_GROWTHS = np.linspace(0.0, 4.0, 81)
"""Tried growths of the latency, in units of the growth of the bytes that layers move. A framework
that copies the cache at each token moves it several times."""

_USUAL_GROWTH, _GROWTH_SPREAD = 1.0, 1.0
"""Expected growth, and its standard deviation: without it, noise would decide the growth of depths
whose bytes are nearly equal."""

_FINEST = 0.01
"""Minimum relative half-width of a figure in the weights."""


def fitted(results: Mapping[int, ModelResult]) -> dict[int, ModelResult]:
    """Results at several depths, with estimates on one curve.

    The latency at each depth is ``a * (1 + g * growth)``, where ``growth`` is the growth of the
    bytes that the layers move. The factors ``a`` and ``g`` are common to all depths. The scatter of
    the figures about the curve widens the intervals.

    Args:
        results: Results by depth. They are returned unchanged unless a whole model was timed,
            because estimates from bricks share the bricks' figures already.
    """
    timed = any(each.is_measurement for each in results.values())
    values = {depth: each.estimate.value for depth, each in results.items()}
    if not timed or any(not value for value in values.values()):
        return dict(results)
    moved = np.array([Work.of(each.cut.model).moved_bytes for each in results.values()], float)
    logs = np.log([value for value in values.values() if value])
    shape, weights = _shape(moved / moved.min() - 1.0, logs, _precisions(results))
    rest = logs - np.log(shape)
    spread = math.sqrt(float(np.sum(weights * (rest - np.sum(weights * rest)) ** 2)))
    estimates = [_wider(each.estimate, spread) for each in results.values()]
    curve = {}
    for (depth, each), height in zip(results.items(), shape, strict=True):
        shares = weights * height / shape
        estimate = Estimate.weighted(list(zip(map(float, shares), estimates, strict=True)))
        curve[depth] = replace(each, estimate=estimate, is_measurement=False)
    return curve


def _precisions(results: Mapping[int, ModelResult]) -> FloatArray:
    """Weight of each depth's figure: a narrower interval gives a larger weight."""
    widths = [relative_half_width(each.estimate.interval) for each in results.values()]
    finite = [max(width, _FINEST) if math.isfinite(width) else 1.0 for width in widths]
    return np.asarray(1.0 / np.square(finite))


def _shape(
    growth: FloatArray, logs: FloatArray, precisions: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Relative latency at each depth, and the share of each depth's figure in the common factor."""
    weights = precisions / precisions.sum()

    def misfit(times: float) -> float:
        rest = logs - np.log1p(times * growth)
        return float(np.sum(precisions * (rest - np.sum(weights * rest)) ** 2))

    # Figures that no curve fits scatter more than their intervals, so their weight is reduced.
    scatter = max(1.0, min(map(misfit, _GROWTHS)) / max(1, len(logs) - 2))

    def cost(times: float) -> float:
        return misfit(times) / scatter + ((times - _USUAL_GROWTH) / _GROWTH_SPREAD) ** 2

    return np.asarray(1.0 + min(_GROWTHS, key=cost) * growth), np.asarray(weights)


def _wider(estimate: Estimate, spread: float) -> Estimate:
    return replace(estimate, composing_error=math.hypot(estimate.composing_error, spread))
