"""Predictors: figures of bricks without running them."""

from dlbricks_core.predict.base import Predictor

__all__ = ["Predictor"]
