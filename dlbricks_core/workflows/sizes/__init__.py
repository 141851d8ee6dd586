"""Models at several sizes. Each size is a model of its own, and the sizes share bricks."""

from dlbricks_core.workflows.sizes.generation import GENERATE, PROMPT, Generation, jobs_of
from dlbricks_core.workflows.sizes.loading import ModelsAtSizes, Sized, load_asked, read_asked
from dlbricks_core.workflows.sizes.sizing import Sizes
from dlbricks_core.workflows.sizes.sweep import Sweep

__all__ = [
    "GENERATE",
    "PROMPT",
    "Generation",
    "ModelsAtSizes",
    "Sized",
    "Sizes",
    "Sweep",
    "jobs_of",
    "load_asked",
    "read_asked",
]
