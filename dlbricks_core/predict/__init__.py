"""Predictors: figures of bricks that were not timed."""

from dlbricks_core.predict.atlas import Contribution, Provenance, shipped
from dlbricks_core.predict.base import Predictor

__all__ = ["Contribution", "Predictor", "Provenance", "shipped"]
