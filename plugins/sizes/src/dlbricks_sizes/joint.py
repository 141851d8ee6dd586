"""Joint fit of a model's latencies at several sizes.

Each size is timed in moments of its own, so the latencies may contradict each other: a token after
143 others takes 15% longer than one after 128, for one percent more work. The fit is the nearest
set of latencies that grow with the work, and not much faster than it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from dlbricks_core.analysis.work import Work
from dlbricks_core.compose import Estimate
from dlbricks_core.estimation.model_result import ModelResult
from dlbricks_core.estimation.results import RunResult
from dlbricks_core.figures.figure import relative_half_width
from dlbricks_core.figures.precision import NORMAL_HALF_WIDTH
from dlbricks_core.figures.statistics import FloatArray
from dlbricks_sizes.loading import SizedModel
from dlbricks_sizes.sizing import Sizes

IntArray = NDArray[np.int64]

_STEEPEST = 3.0
"""Largest growth of a latency, in units of the growth of operations and of bytes together (in
logarithms). Kernels that fill their last tile, and frameworks that copy the cache at each token,
grow faster than the work."""

_FINEST = 0.01
"""Smallest relative half-width that a latency counts with."""

_BY_CHANCE = 0.001
"""Probability that figures without a step show one."""

_FEWEST = 2
"""Fewest sizes on each side of a step: a single size that differs shows a bad moment."""


@dataclass(frozen=True)
class _Edge:
    """Two sizes without another one between them.

    Attributes:
        low: Position of the size with less work.
        high: Position of the size with more work.
        most: Largest growth of the logarithm of the latency.
    """

    low: int
    high: int
    most: float


@dataclass(frozen=True)
class _Fit:
    """Latencies that satisfy all edges.

    Attributes:
        logs: Logarithm of the latency at each size: shape (sizes,).
        binding: Edges that keep a latency from its own figure.
        misfit: Weighted sum of the squared distances from the figures.
    """

    logs: FloatArray
    binding: Sequence[_Edge]
    misfit: float

    @property
    def groups(self) -> IntArray:
        """Number of the group of each size: those that binding edges connect are one group."""
        found = np.arange(len(self.logs))
        for edge in self.binding:
            found[found == found[edge.high]] = found[edge.low]
        return found

    @property
    def free(self) -> int:
        """Degrees of freedom of the misfit: sizes beyond one of each group."""
        return len(self.logs) - len(np.unique(self.groups))


def with_joint_fit(models: Sequence[SizedModel], result: RunResult) -> RunResult:
    """The result of a run whose models at several sizes have estimates of one fit.

    Args:
        models: Models at all sizes.
        result: Result for all of these models.
    """
    found = {each.cut.model.name: each for each in result.models}
    for each in models:
        names = {sizes: model.name for sizes, model in each.models.items()}
        fitted = jointly({sizes: found[name] for sizes, name in names.items()})
        found |= {names[sizes]: one for sizes, one in fitted.items()}
    return replace(result, models=[found[each.cut.model.name] for each in result.models])


def jointly(results: Mapping[Sizes, ModelResult]) -> dict[Sizes, ModelResult]:
    """Results for a model at several sizes, with estimates that do not contradict each other.

    Where one size is at least as large as another in every dimension and has at least as much
    work, its latency is as long or longer, and longer by no more than :data:`_STEEPEST` allows. A
    step beyond that is shown where several sizes on both sides show it with significance. Sizes
    that would contradict each other share their figures, and the scatter of all figures about the
    fit widens all intervals. Phases of an answer are fitted apart: they may have numbers of
    threads of their own.

    Args:
        results: Results by sizes. Those without a complete estimate are returned as they are.
    """
    fitted = dict(results)
    for phase in dict.fromkeys(sizes.phase for sizes in results):
        known = {
            sizes: each
            for sizes, each in results.items()
            if sizes.phase == phase and each.estimate.value and not each.estimate.partial
        }
        if len(known) > 1:
            fitted |= _fitted(known)
    return fitted


def _fitted(results: Mapping[Sizes, ModelResult]) -> Mapping[Sizes, ModelResult]:
    """Results of one phase on one curve."""
    places = np.array([[each.batch or 0, *dict(each.dims).values()] for each in results])
    edges = _edges(places, [Work.of(each.cut.model) for each in results.values()])
    logs = np.array([math.log(each.estimate.value or 0) for each in results.values()])
    weights = _precisions(results)
    fit = _with_steps(logs, weights, edges, places)
    if not fit.binding:
        return results
    # Each group has a degree of freedom less than sizes.
    spread = math.sqrt(fit.misfit / float(weights.sum()) * len(logs) / fit.free)
    wider = [
        replace(each.estimate, composing_error=math.hypot(each.estimate.composing_error, spread))
        for each in results.values()
    ]
    together = fit.groups
    curve = {}
    for i, (sizes, each) in enumerate(results.items()):
        members = np.flatnonzero(together == together[i])
        estimate = _shared([wider[k] for k in members], weights[members], fit.logs[members],
                           float(fit.logs[i]))  # fmt: skip
        same = each.is_measurement and math.isclose(fit.logs[i], logs[i], abs_tol=1e-9)
        curve[sizes] = replace(each, estimate=estimate, is_measurement=same)
    return curve


def _edges(places: FloatArray, works: Sequence[Work]) -> list[_Edge]:
    """Edges between sizes with more and more work.

    Args:
        places: Sizes of all dimensions: shape (sizes, dimensions).
        works: Work at each size.
    """
    work = np.array([[max(each.flops, 1), max(each.moved_bytes, 1)] for each in works], float)
    every = np.hstack([places, work])
    larger = (every[:, None, :] <= every[None, :, :]).all(axis=2)
    larger &= (places[:, None, :] < places[None, :, :]).any(axis=2)
    between = (larger.astype(np.int64) @ larger.astype(np.int64)) > 0
    amounts = np.log(work).sum(axis=1)
    return [
        _Edge(int(low), int(high), _STEEPEST * float(amounts[high] - amounts[low]))
        for low, high in np.argwhere(larger & ~between)
    ]


def _precisions(results: Mapping[Sizes, ModelResult]) -> FloatArray:
    """Weight of each figure: one over the variance of its logarithm."""
    widths = [relative_half_width(each.estimate.interval) for each in results.values()]
    finite = [max(width, _FINEST) if math.isfinite(width) else 1.0 for width in widths]
    return np.asarray(np.square(NORMAL_HALF_WIDTH / np.array(finite)))


def _with_steps(
    logs: FloatArray, weights: FloatArray, edges: Sequence[_Edge], places: FloatArray
) -> _Fit:
    """The fit, without the edges across steps that the figures show with significance."""
    fit = _nearest(logs, weights, edges)
    while fit.misfit > _least_gain():
        kept = _apart(fit.binding, edges, places)
        fits = [_nearest(logs, weights, each) for each in kept]
        if not fits:
            return fit
        best, edges = min(zip(fits, kept, strict=True), key=lambda each: each[0].misfit)
        if not _is_significant(fit.misfit - best.misfit, best):
            return fit
        fit = best
    return fit


def _least_gain() -> float:
    """Smallest gain of a step, in units of the variance that the figures state."""
    return NormalDist().inv_cdf(1 - _BY_CHANCE / 2) ** 2


def _is_significant(gain: float, rest: _Fit) -> bool:
    """Whether neither the figures' own variance nor what remains explains a gain (F test)."""
    if gain <= _least_gain():
        return False
    if not rest.misfit:
        return True
    from scipy.special import fdtri

    return gain > float(fdtri(1, rest.free, 1 - _BY_CHANCE)) * rest.misfit / rest.free


def _apart(
    binding: Sequence[_Edge], edges: Sequence[_Edge], places: FloatArray
) -> list[list[_Edge]]:
    """Edges without those across a step, for each possible step that a binding edge crosses."""
    found = []
    for values in places.T:
        for value in np.unique(values)[_FEWEST:]:

            def crosses(edge: _Edge, of: FloatArray = values, at: float = value) -> bool:
                return bool(of[edge.low] < at <= of[edge.high])

            if len(np.unique(values[values >= value])) < _FEWEST:
                continue
            if any(map(crosses, binding)):
                found.append([edge for edge in edges if not crosses(edge)])
    return found


def _nearest(logs: FloatArray, weights: FloatArray, edges: Sequence[_Edge]) -> _Fit:
    """The latencies nearest to the figures: least squares with linear inequalities.

    Solved as a least-distance problem by nonnegative least squares (Lawson and Hanson, Solving
    Least Squares Problems, 1974, chapter 23).
    """
    growths = np.array([logs[edge.high] - logs[edge.low] for edge in edges])
    most = np.array([edge.most for edge in edges])
    if ((growths >= 0) & (growths <= most)).all():
        return _Fit(logs, (), 0.0)
    # Its import takes a tenth of a second, which most runs need not wait for.
    from scipy.optimize import nnls

    roots = np.sqrt(weights / weights.mean())
    differences = np.zeros((len(edges), len(logs)))
    for row, edge in zip(differences, edges, strict=True):
        row[edge.low], row[edge.high] = -1.0, 1.0
    sides = np.vstack([differences, -differences]) / roots
    least = np.concatenate([-growths, growths - most])
    system = np.vstack([sides.T, least])
    target = np.append(np.zeros(len(logs)), 1.0)
    pulls, _ = nnls(system, target)
    rest = system @ pulls - target
    moved = -rest[:-1] / rest[-1]
    binding = [edge for edge, *pair in zip(edges, *np.split(pulls, 2), strict=True) if any(pair)]
    misfit = float(weights.mean() * np.sum(np.square(moved)))
    return _Fit(np.asarray(logs + moved / roots), binding, misfit)


def _shared(
    estimates: Sequence[Estimate], weights: FloatArray, logs: FloatArray, log: float
) -> Estimate:
    """The estimate at one size of a group, from the figures of all of them.

    Args:
        estimates: Estimates of the group.
        weights: Weight of each.
        logs: Logarithm of each one's latency on the curve.
        log: Logarithm of the latency at this size.
    """
    shares = weights / weights.sum() * np.exp(log - logs)
    values = np.array([each.value for each in estimates], float)
    shares *= math.exp(log) / float(shares @ values)
    return Estimate.weighted(list(zip(map(float, shares), estimates, strict=True)))
