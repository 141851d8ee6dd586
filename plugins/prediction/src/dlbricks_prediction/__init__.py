"""Predictor of latencies: a Gaussian process over layers, on data of other systems."""

from typing import TYPE_CHECKING

from dlbricks_core.lazy import lazy

if TYPE_CHECKING:
    from dlbricks_prediction.atlas import Contribution, Provenance, shipped

__all__ = ["Contribution", "Provenance", "shipped"]

lazy(__name__)
