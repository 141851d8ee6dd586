"""Figures: values with their uncertainty, how precise they are, and how they rank."""

from typing import TYPE_CHECKING

from dlbricks_core.lazy import lazy

if TYPE_CHECKING:
    from dlbricks_core.figures.figure import RESAMPLES, Derived, Figure, Measured, Predicted

__all__ = ["RESAMPLES", "Derived", "Figure", "Measured", "Predicted"]

lazy(__name__)
