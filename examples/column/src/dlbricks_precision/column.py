"""How precise each estimate is."""

from dlbricks_core.estimation.model_result import ModelResult
from dlbricks_core.report import Column


class Precision(Column):
    """Half of the 90% interval, relative to the estimate."""

    name = "precision"
    heading = "Precision"

    def cell(self, result: ModelResult) -> str | None:
        """The half-width in percent: ``±4%``; none without an interval."""
        half_width = self.value(result)
        return None if half_width is None else f"±{half_width:.0%}"

    def value(self, result: ModelResult) -> float | None:
        """The half-width as a fraction."""
        estimate = result.estimate
        if not estimate.value or estimate.interval is None:
            return None
        low, high = estimate.interval
        return (high - low) / 2 / estimate.value
