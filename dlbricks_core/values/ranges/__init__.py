"""Ranges of valid values, propagated through the layers of a model."""

from dlbricks_core.values.ranges.domains import index_range
from dlbricks_core.values.ranges.propagation import valid_ranges

__all__ = ["index_range", "valid_ranges"]
