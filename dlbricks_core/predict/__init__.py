"""Predictors: figures of bricks that were not timed. A distribution brings each."""

from typing import TYPE_CHECKING

from dlbricks_core.lazy import lazy

if TYPE_CHECKING:
    from dlbricks_core.predict.base import MeasuredNetworks, Predictor
    from dlbricks_core.predict.installed import find_predictor, usual_predictor

__all__ = ["MeasuredNetworks", "Predictor", "find_predictor", "usual_predictor"]

lazy(__name__)
