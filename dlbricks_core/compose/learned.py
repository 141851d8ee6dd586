"""The sum over short segments, whose latencies a predictor gives."""

from __future__ import annotations

from collections.abc import Mapping

from dlbricks_core.bricks import CutModel
from dlbricks_core.compose.base import Estimate
from dlbricks_core.compose.fitting import composing
from dlbricks_core.compose.sequential import Sequential
from dlbricks_core.figures.figure import Figure, interval


class Learned(Sequential):
    """Sum of a predictor's latencies of short segments, conditioned on the timed segments.

    Models are cut as they are, without a framework; the predictor accounts for a framework's
    rewriting of a segment. Short segments repeat more often, and each takes little time to measure.
    """

    name = "learned"
    strategy = "short-segments"
    granularity = 128
    rereading = True
    #: Error of composing, in addition to the errors in the predictor's draws.
    composing_error = composing().composing_error

    def compose(self, cut: CutModel, latencies: Mapping[str, Figure]) -> Estimate:
        """Estimate of a model; the measured latency if the whole model was timed."""
        whole = latencies.get(cut.whole.signature)
        if whole is None or whole.origin == "predicted":
            return super().compose(cut, latencies)
        ends = interval(whole.plausible)
        return Estimate(whole.value, ends, (), ends, whole.plausible)
