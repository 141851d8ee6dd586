"""The Python API: what the command line does, as functions for notebooks and scripts.

Reached through the package itself: ``import dlbricks_core as dlbricks``. Nothing is
decided here; each function names a workflow of :mod:`dlbricks_core.workflows`.
"""

from dlbricks_core.api.functions import Measuring, compare, cut, estimate, load, time
from dlbricks_core.api.results import (
    Bricks,
    ComparisonResult,
    Estimates,
    LoadedModel,
    Result,
    Timings,
)

__all__ = [
    "Bricks",
    "ComparisonResult",
    "Estimates",
    "LoadedModel",
    "Measuring",
    "Result",
    "Timings",
    "compare",
    "cut",
    "estimate",
    "load",
    "time",
]
