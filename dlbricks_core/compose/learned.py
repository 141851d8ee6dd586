"""The sum over short segments, of which a predictor tells the latencies."""

from __future__ import annotations

from collections.abc import Mapping

from dlbricks_core.bricks import CutModel
from dlbricks_core.compose.base import Estimate
from dlbricks_core.compose.fitting import composing
from dlbricks_core.compose.sequential import Sequential
from dlbricks_core.figures.figure import Figure, interval


class Learned(Sequential):
    """Sum of what a predictor tells of short segments, from those of them that are timed.

    Models are cut as they are: no framework has to be asked. What a framework makes of a segment
    is for the predictor to know. Short segments are more often alike, and each costs little to
    time.
    """

    name = "learned"
    strategy = "short-segments"
    granularity = 128
    rereading = True
    #: What no brick accounts for, beside the errors that the predictor's draws hold.
    composing_error = composing().composing_error

    def compose(self, cut: CutModel, latencies: Mapping[str, Figure]) -> Estimate:
        """Estimate of a model: the latency of the whole where that was timed."""
        whole = latencies.get(cut.whole.signature)
        if whole is None or whole.origin == "predicted":
            return super().compose(cut, latencies)
        ends = interval(whole.plausible)
        return Estimate(whole.value, ends, (), ends, whole.plausible)
