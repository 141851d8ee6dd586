"""The Python API: what the command line does, as functions for notebooks and scripts.

Scripts reach it through the package itself: ``import dlbricks_core as dlbricks``. Each function
calls a workflow of :mod:`dlbricks_core.workflows` and decides nothing itself.
"""

from dlbricks_core.api.advice import advise
from dlbricks_core.api.functions import answer, compare, cut, estimate, load, sweep, time
from dlbricks_core.api.harvesting import harvest
from dlbricks_core.api.inputs import AtSizes, Measuring
from dlbricks_core.api.results import (
    AdviceResult,
    Bricks,
    ComparisonResult,
    Estimates,
    LoadedModel,
    Result,
    Timings,
)
from dlbricks_core.api.serving import Served, serve
from dlbricks_core.api.stores import export_store, import_store, merge_stores, systems
from dlbricks_core.api.suites import (
    attack,
    bench,
    estimate_private,
    generate,
    pack_survey,
    take_survey,
)
from dlbricks_core.api.travelling_results import Exposed, GeneratedSuite, Surveyed, Systems

__all__ = [
    "AdviceResult",
    "AtSizes",
    "Bricks",
    "ComparisonResult",
    "Estimates",
    "Exposed",
    "GeneratedSuite",
    "LoadedModel",
    "Measuring",
    "Result",
    "Served",
    "Surveyed",
    "Systems",
    "Timings",
    "advise",
    "answer",
    "attack",
    "bench",
    "compare",
    "cut",
    "estimate",
    "estimate_private",
    "export_store",
    "generate",
    "harvest",
    "import_store",
    "load",
    "merge_stores",
    "pack_survey",
    "serve",
    "sweep",
    "systems",
    "take_survey",
    "time",
]
