"""Figures: values with their uncertainty, how precise they are, and how they rank."""

from dlbricks_core.figures.figure import RESAMPLES, Derived, Figure, Measured, Predicted

__all__ = ["RESAMPLES", "Derived", "Figure", "Measured", "Predicted"]
