"""Models at several sizes. Each size is a separate model, and the sizes share bricks.

Text generation and sweeps, which are functions here: :func:`answer` and :func:`sweep`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlbricks_core.lazy import lazy

if TYPE_CHECKING:
    from dlbricks_sizes.api import AtSizes, answer, sweep
    from dlbricks_sizes.generation import Generation, of_task
    from dlbricks_sizes.loading import ModelsAtSizes, Sized, load_asked, read_asked
    from dlbricks_sizes.pictures import with_pictures
    from dlbricks_sizes.sizing import Sizes
    from dlbricks_sizes.sweeping import Sweep

__all__ = [
    "AtSizes",
    "Generation",
    "ModelsAtSizes",
    "Sized",
    "Sizes",
    "Sweep",
    "answer",
    "load_asked",
    "of_task",
    "read_asked",
    "sweep",
    "with_pictures",
]

lazy(__name__)
