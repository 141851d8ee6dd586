"""The Python API: the commands as functions for notebooks and scripts.

Scripts use it with ``import dlbricks``. The functions only check arguments and call the engine.
"""

from dlbricks_core.api.functions import cut, estimate, harvest, load, time
from dlbricks_core.api.inputs import Measuring
from dlbricks_core.api.results import (
    Bricks,
    Estimates,
    LoadedModel,
    Result,
    Timings,
)
from dlbricks_core.api.stores import export_store, import_store, merge_stores

__all__ = [
    "Bricks",
    "Estimates",
    "LoadedModel",
    "Measuring",
    "Result",
    "Timings",
    "cut",
    "estimate",
    "export_store",
    "harvest",
    "import_store",
    "load",
    "merge_stores",
    "time",
]
