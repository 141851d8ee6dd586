"""Figures: values with their uncertainty, how precise they are, and how they rank."""

from typing import TYPE_CHECKING

from dlbricks_core.lazy import lazy

if TYPE_CHECKING:
    from dlbricks_core.figures.figure import RESAMPLES, Cost, Figure, Measured
    from dlbricks_core.figures.predicted import Predicted
    from dlbricks_core.figures.protocols import PROTOCOLS

__all__ = [
    "PROTOCOLS",
    "RESAMPLES",
    "Cost",
    "Figure",
    "Measured",
    "Predicted",
]

lazy(__name__)
