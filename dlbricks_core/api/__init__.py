"""The Python API: the commands as functions for notebooks and scripts.

Scripts use it with ``import dlbricks``. The functions only check arguments and call the engine.
"""

from dlbricks_core.api.functions import answer, compare, cut, estimate, load, sweep, time
from dlbricks_core.api.harvesting import harvest
from dlbricks_core.api.inputs import AtSizes, Measuring
from dlbricks_core.api.results import (
    Bricks,
    ComparisonResult,
    Estimates,
    LoadedModel,
    Result,
    Timings,
)
from dlbricks_core.api.stores import export_store, import_store, merge_stores, systems
from dlbricks_core.api.suites import bench, generate, pack_survey, take_survey
from dlbricks_core.api.travelling_results import GeneratedSuite, Surveyed, Systems

__all__ = [
    "AtSizes",
    "Bricks",
    "ComparisonResult",
    "Estimates",
    "GeneratedSuite",
    "LoadedModel",
    "Measuring",
    "Result",
    "Surveyed",
    "Systems",
    "Timings",
    "answer",
    "bench",
    "compare",
    "cut",
    "estimate",
    "export_store",
    "generate",
    "harvest",
    "import_store",
    "load",
    "merge_stores",
    "pack_survey",
    "sweep",
    "systems",
    "take_survey",
    "time",
]
