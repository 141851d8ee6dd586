"""The predictor of quantities, which the list of plugins imports."""

from __future__ import annotations

from dlbricks_core.estimation.defaults import REGRESSION
from dlbricks_core.estimation.results import QuantityPredictor, RunResult
from dlbricks_core.store import ResultStore


class RegressionPredictor(QuantityPredictor):
    """Regression on stored observations, and on models that were observed elsewhere."""

    name = REGRESSION

    def fill(self, result: RunResult, store: ResultStore) -> RunResult:
        """The result with predicted values."""
        from dlbricks_quantities.predicting import with_regression

        return with_regression(result, store)
