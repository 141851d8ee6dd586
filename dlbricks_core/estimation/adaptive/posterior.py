"""Posterior of adaptive measuring: predictions from all figures so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dlbricks_core.bricks import CutModel
from dlbricks_core.compose.base import common_error
from dlbricks_core.compose.options import find_composer
from dlbricks_core.estimation.adaptive.drift import drift, drifting
from dlbricks_core.estimation.adaptive.timings import TimingWorker
from dlbricks_core.estimation.conditioned import ConditionedPredictor
from dlbricks_core.figures.figure import RESAMPLES
from dlbricks_core.figures.predicted import Placed, Predicted
from dlbricks_core.figures.statistics import FloatArray
from dlbricks_core.measure.planner import half_widths
from dlbricks_core.predict import MeasuredNetworks


@dataclass(frozen=True, eq=False)
class State:
    """Posterior after a batch of timings.

    Attributes:
        figures: Figures of bricks as parts of a model, and of measured whole models, by signature.
        sums: Draws of each model's latency in milliseconds, including the error of composing where
            they are sums: shape (draws, models).
        half_widths: Half-width of each model's 90% interval, relative to its latency.
        common: Standard deviation of the relative error that the bricks of each model share:
            shape (models,). It is 0 for models that were measured as wholes.
    """

    figures: Mapping[str, Predicted | Placed]
    sums: FloatArray
    half_widths: FloatArray
    common: FloatArray

    def measured(self, signature: str) -> bool:
        """Whether the figure of a network rests on its own measurement."""
        return isinstance(self.figures.get(signature), Placed)

    @property
    def widest(self) -> float:
        """The largest half-width; 0 if there are no models."""
        return float(self.half_widths.max(initial=0.0))


class Posterior:
    """Predicts latencies from all figures so far.

    Args:
        predictor: Name of the predictor.
        bench: The networks that could be timed, and their known figures.
        atlas: Further measurements on all systems.
    """

    def __init__(
        self, predictor: str, bench: TimingWorker, atlas: Sequence[MeasuredNetworks]
    ) -> None:
        self._bench = bench
        subjects = bench.subjects
        # Stored figures of these networks are passed separately, or must stay unknown.
        apart = subjects.kept_apart | bench.known.keys()
        self._oracle = ConditionedPredictor(predictor, bench.request, atlas, apart)
        models = len(subjects.cutting.brickset.models)
        self._composing_error = find_composer(subjects.cutting.options.composer).composing_error
        normal = np.random.default_rng(0).standard_normal((models, RESAMPLES)).T
        # Mean and deviation are exact, because the planner computes the variance from the draws.
        self._normal = (normal - normal.mean(axis=0)) / normal.std(axis=0)

    def state(self) -> State:
        """The present posterior."""
        figures = self._figures()
        models = self._bench.subjects.cutting.brickset.models
        sums = np.stack([_drawn(cut, figures) for cut in models], axis=1)
        # A model of a single brick may be predicted as well.
        wholes = [figures.get(cut.whole.signature) for cut in models]
        composed = np.array([not isinstance(each, Placed) for each in wholes], dtype=bool)
        common = composed * np.array([common_error(cut, figures) for cut in models])
        errors = np.hypot(composed * self._composing_error, common)
        sums = sums * (1 + errors * self._normal)
        return State(figures, sums, half_widths(sums), common)

    def _figures(self) -> Mapping[str, Predicted | Placed]:
        subjects, known = self._bench.subjects, self._bench.known
        parts = subjects.bricks.keys() | subjects.probes.keys()
        asked = {
            s: each
            for s, each in subjects.every.items()
            if s in known or (s in parts and (self._bench.open(s) or s in self._bench.nothing))
        }
        found = self._oracle.figures(asked, {s: f for s, f in known.items() if f.teaches})
        wholes = {cut.whole.signature for cut in subjects.cutting.brickset.models}
        figures: dict[str, Predicted | Placed] = {}
        for signature, each in found.items():
            if signature not in known:
                figures[signature] = each
                continue
            # A whole model passes its inputs and outputs, as in its timing.
            measured = known[signature]
            # The figure of a disturbed network is not corrected by other networks either.
            own = signature in wholes or not measured.teaches
            placed = drifting(signature, measured, drift().session) if own else each
            figures[signature] = Placed(measured, placed)
        return figures


def _drawn(cut: CutModel, figures: Mapping[str, Predicted | Placed]) -> FloatArray:
    """Draws of a model's latency: its own if it was measured, otherwise the sum of its bricks.

    Bricks without a figure are left out.
    """
    if cut.whole.signature in figures:
        return figures[cut.whole.signature].plausible
    known = {s: figures[s] for s in cut.counts if s in figures}
    total = np.full(RESAMPLES, max((each.overhead for each in known.values()), default=0.0))
    for signature, each in known.items():
        total += cut.counts[signature] * np.maximum(each.plausible - each.overhead, 0.0)
    return total
