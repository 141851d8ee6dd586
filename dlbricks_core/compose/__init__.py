"""Composers: from figures of bricks to the latency of a model."""

from typing import TYPE_CHECKING

from dlbricks_core.lazy import lazy

if TYPE_CHECKING:
    from dlbricks_core.compose.base import Composer, Estimate
    from dlbricks_core.compose.parallel import Parallel, dependencies
    from dlbricks_core.compose.plan import FromPredictor, OwnFigure, Plan, Recipe, Scaled
    from dlbricks_core.compose.segmented import Segmented
    from dlbricks_core.compose.sequential import Sequential

__all__ = [
    "Composer",
    "Estimate",
    "FromPredictor",
    "OwnFigure",
    "Parallel",
    "Plan",
    "Recipe",
    "Scaled",
    "Segmented",
    "Sequential",
    "dependencies",
]

lazy(__name__)
