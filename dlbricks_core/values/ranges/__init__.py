"""Ranges of valid values, propagated through the layers of a model."""

from dlbricks_core.values.ranges.domains import index_range
from dlbricks_core.values.ranges.interval import EVERYTHING, Range, is_whole
from dlbricks_core.values.ranges.propagation import valid_ranges

__all__ = ["EVERYTHING", "Range", "index_range", "is_whole", "valid_ranges"]
