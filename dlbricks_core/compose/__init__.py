"""Composers: from measured bricks to a model's latency."""

from dlbricks_core.compose.base import Composer, Estimate
from dlbricks_core.compose.parallel import Parallel, brick_graph
from dlbricks_core.compose.segmented import Segmented
from dlbricks_core.compose.sequential import Sequential
from dlbricks_core.compose.similar import Similar
from dlbricks_core.compose.tiled import Tiled

__all__ = ["Composer", "Estimate", "Parallel", "Segmented", "Sequential", "Similar", "Tiled",
           "brick_graph"]  # fmt: skip
