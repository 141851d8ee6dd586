"""The Python API: what the command line does, as functions for notebooks and scripts.

Scripts reach it through the package itself: ``import dlbricks_core as dlbricks``. Each function
calls a workflow of :mod:`dlbricks_core.workflows` and decides nothing itself.
"""

from dlbricks_core.api.functions import (
    Measuring,
    answer,
    compare,
    cut,
    estimate,
    export_store,
    import_store,
    load,
    merge_stores,
    sweep,
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
    "answer",
    "compare",
    "cut",
    "estimate",
    "export_store",
    "import_store",
    "load",
    "merge_stores",
    "sweep",
    "systems",
    "time",
]
