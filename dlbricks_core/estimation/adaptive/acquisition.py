"""Acquisition: the networks to time next, by the information of their timing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Self

import numpy as np

from dlbricks_core.estimation.adaptive.drift import drift
from dlbricks_core.estimation.adaptive.posterior import State
from dlbricks_core.estimation.adaptive.timings import RUNS, TimingWorker
from dlbricks_core.estimation.results import Offer
from dlbricks_core.figures.figure import RESAMPLES
from dlbricks_core.figures.predicted import Placed, Predicted
from dlbricks_core.figures.statistics import FloatArray, IntArray
from dlbricks_core.measure.planner import Uncertain, steps

_ERROR = 0.04
"""Relative error of a brick's timing as an estimate of its latency inside a model, for plans."""

_SCATTER = 0.01
"""Relative scatter of a whole model's timing, in addition to its drift, for plans."""

_AHEAD = 0.95
"""Factor on the planned precision of a batch, because the outcome differs somewhat from the plan.
"""

_BEYOND = 0.5
"""Factor on the precision up to which a batch continues, if that takes less time than planning
another batch.
"""

_BATCH = 0.5
"""Maximum share of the remaining budget for a batch; the next batch is planned with the observed
costs.
"""

_MOST_STEPS = 400
"""Maximum number of networks to plan at a time: planning must not take longer than timing."""


@dataclass(frozen=True, eq=False)
class Choice:
    """Networks that could be timed, and the information in their timings.

    Attributes:
        signatures: Signatures of the networks.
        uncertain: Uncertainty of the networks and of the models.
        half_widths: Half-width of each model's 90% interval, relative to its latency.
        wholes: Signature of each model as a whole.
        settled: Whether each model's estimate rests on a timing of the whole, so that no other
            network has further information.
    """

    signatures: Sequence[str]
    uncertain: Uncertain
    half_widths: FloatArray
    wholes: Sequence[str]
    settled: np.ndarray[Any, np.dtype[np.bool_]]

    @classmethod
    def of(cls, state: State, bench: TimingWorker, *, probing: bool = False) -> Self:
        """All networks that are not timed yet: bricks, and either whole models or probes.

        Args:
            state: The present posterior.
            bench: Source of timed networks and their costs.
            probing: Whether probes may be timed instead of whole models.
        """
        subjects, costs = bench.subjects, bench.costs()
        models = subjects.cutting.brickset.models
        parts = [*subjects.bricks, *(subjects.probes if probing else ())]
        bricks = [s for s in parts if s in state.figures and bench.open(s)]
        wholes = [s for s in subjects.wholes if bench.open(s) and not probing]
        place = {cut.whole.signature: i for i, cut in enumerate(models)}
        draws = [state.figures[s].plausible for s in bricks]
        draws += [state.sums[:, place[s]] for s in wholes]
        networks = np.array(draws).reshape(-1, RESAMPLES).T
        means = networks.mean(axis=0)
        signatures = [*bricks, *wholes]
        seconds = [
            costs.seconds(subjects.every[s].model, ms, RUNS)
            for s, ms in zip(signatures, means, strict=True)
        ]
        counts = [
            [cut.counts.get(s, float(cut.whole.signature == s)) for s in signatures]
            for cut in models
        ]
        often = np.array(counts, dtype=np.float64).reshape(len(models), len(signatures))
        whole_error = math.hypot(_SCATTER, drift().session)
        errors = np.array([_ERROR] * len(bricks) + [whole_error] * len(wholes))
        # Draws of whole models are the sums' draws, which include their own errors.
        gone = np.array([_resolved(state.figures[s]) for s in bricks] + [0.0] * len(wholes))
        shares = often * means / np.maximum(state.sums.mean(axis=0), 1e-12)[:, None]
        uncertain = Uncertain(
            state.sums,
            networks,
            often,
            np.array(seconds),
            errors * means,
            state.common,
            shares * gone,
        )
        wholes_of = [cut.whole.signature for cut in models]
        settled = np.array([state.measured(s) for s in wholes_of], dtype=bool)
        return cls(signatures, uncertain, state.half_widths, wholes_of, settled)

    def batch(self, precision: float, left_s: float, least_s: float) -> list[str]:
        """Networks to time next, until the precision is reached or a share of the time is used.

        Models that are precise enough or settled do not count.

        Args:
            precision: Half-width of all models' intervals to reach, relative to their latencies.
            left_s: Remaining seconds.
            least_s: Minimum seconds of a batch, because the next batch costs a prediction.
        """
        able = np.flatnonzero(self.uncertain.seconds <= left_s)
        lacking = np.flatnonzero((self.half_widths > precision) & ~self.settled)
        if not len(lacking):
            return []
        uncertain = self.uncertain.about(lacking).only(able)
        wholes = self._instead(lacking)
        chosen: list[int] = []
        suffices = False
        for step in islice(steps(uncertain, precision * _BEYOND), _MOST_STEPS):
            if chosen and step.seconds > min(_BATCH * left_s, wholes.seconds):
                break
            chosen.append(int(able[step.network]))
            suffices |= step.half_widths.max() <= _AHEAD * precision
            if suffices and step.seconds >= least_s:
                break
        # Single bricks may have more information per second than a whole model, although all bricks
        # together have less.
        if not suffices and wholes.seconds <= left_s:
            return [*wholes.signatures]
        return [self.signatures[i] for i in self._thrifty(chosen, lacking)]

    def first(self, most: int, precision: float, left_s: float) -> list[str]:
        """Networks with most information per second, even if it is little.

        Args:
            most: Number of networks.
            precision: Half-width of all models' intervals at which no information is missing.
            left_s: Maximum seconds for all of them.
        """
        able = np.flatnonzero(self.uncertain.seconds <= left_s)
        chosen: list[str] = []
        for step in islice(steps(self.uncertain.only(able), precision), most):
            if step.seconds > left_s:
                break
            chosen.append(self.signatures[able[step.network]])
        return chosen

    def _thrifty(self, chosen: Sequence[int], lacking: IntArray) -> list[int]:
        """The choice with whole models instead of bricks that take longer and serve no other model.

        Args:
            chosen: Positions of networks.
            lacking: Models that lack precision.
        """
        found = dict.fromkeys(chosen)
        place = {signature: i for i, signature in enumerate(self.signatures)}
        seconds, counts = self.uncertain.seconds, self.uncertain.counts[lacking] > 0
        served = counts.sum(axis=0)
        for model, own in zip(lacking, counts, strict=True):
            whole = place.get(self.wholes[model])
            parts = [i for i in found if own[i] and served[i] == 1 and i != whole]
            cost = float(seconds[parts].sum())
            if whole is not None and (whole in found or cost > seconds[whole]):
                found = {i: None for i in (*found, whole) if i not in parts}
        return [*found]

    def offer(self, precision: float) -> Offer | None:
        """Seconds until the precision is reached; ``None`` if no planned timing reaches it.

        Settled models are left out, because only their own further runs narrow them.
        """
        lacking = np.flatnonzero((self.half_widths > precision) & ~self.settled)
        if not len(lacking):
            return Offer(precision, 0.0)
        seconds = self._instead(lacking).seconds
        for step in islice(steps(self.uncertain.about(lacking), precision), _MOST_STEPS):
            if step.seconds > seconds:
                break
            if step.half_widths.max() <= precision:
                seconds = step.seconds
                break
        return Offer(precision, seconds) if math.isfinite(seconds) else None

    def _instead(self, models: IntArray) -> _Wholes:
        """The step of timing some of the models whole."""
        wholes = tuple(dict.fromkeys(self.wholes[i] for i in models))
        if not {*wholes} <= {*self.signatures}:
            return _Wholes((), math.inf)
        places = [self.signatures.index(s) for s in wholes]
        return _Wholes(wholes, float(self.uncertain.seconds[places].sum()))


def _resolved(figure: Predicted | Placed) -> float:
    """Decrease of the relative error that a model's bricks share, once this brick is timed."""
    assert isinstance(figure, Predicted)
    return max(figure.discrepancy.predicted - figure.discrepancy.measured, 0.0)


@dataclass(frozen=True)
class _Wholes:
    """Whole models that may be timed instead of bricks, and the seconds of their timing."""

    signatures: tuple[str, ...]
    seconds: float
