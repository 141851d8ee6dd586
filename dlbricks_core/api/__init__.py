"""The Python API: what the command line does, as functions for notebooks and scripts.

Scripts reach it through the package itself: ``import dlbricks_core as dlbricks``. Each function
calls a workflow of :mod:`dlbricks_core.workflows` and decides nothing itself.
"""

from dlbricks_core.api.functions import (
    Measuring,
    compare,
    cut,
    estimate,
    export_store,
    import_store,
    load,
    merge_stores,
    systems,
    time,
)
from dlbricks_core.api.results import (
    Bricks,
    ComparisonResult,
    Estimates,
    LoadedModel,
    Result,
    Systems,
    Timings,
)

__all__ = [
    "Bricks",
    "ComparisonResult",
    "Estimates",
    "LoadedModel",
    "Measuring",
    "Result",
    "Systems",
    "Timings",
    "compare",
    "cut",
    "estimate",
    "export_store",
    "import_store",
    "load",
    "merge_stores",
    "systems",
    "time",
]
