"""Measuring: sessions that time networks, metrics for other quantities, and workers."""

from dlbricks_core.measure.metric import Metric, Values

__all__ = ["Metric", "Values"]
