"""Models at several sizes. Each size is a separate model, and the sizes share bricks."""

from dlbricks_core.estimation.sizes.generation import (
    PHASES,
    Generation,
    of_task,
)
from dlbricks_core.estimation.sizes.loading import ModelsAtSizes, Sized, load_asked, read_asked
from dlbricks_core.estimation.sizes.pictures import with_pictures
from dlbricks_core.estimation.sizes.sizing import Sizes
from dlbricks_core.estimation.sizes.sweep import Sweep

__all__ = [
    "PHASES",
    "Generation",
    "ModelsAtSizes",
    "Sized",
    "Sizes",
    "Sweep",
    "load_asked",
    "of_task",
    "read_asked",
    "with_pictures",
]
