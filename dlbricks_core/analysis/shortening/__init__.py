"""Short models: a few copies represent each repeated block, and the rewritten graph is expanded.

A decoder of 80 blocks repeats one block. A framework that fuses a layer only with its neighbours
rewrites each of 80 blocks as it rewrites each of a few. The repeat is found in the model, to leave
out copies, and in the rewritten short model, to insert copies.
"""

from typing import TYPE_CHECKING

from dlbricks_core.lazy import lazy

if TYPE_CHECKING:
    from dlbricks_core.analysis.shortening.expansion import rewritten_short, same_structure
    from dlbricks_core.analysis.shortening.short import (
        KEPT,
        NotRepeatedError,
        longest_repeat,
        shorten,
    )

__all__ = [
    "KEPT",
    "NotRepeatedError",
    "longest_repeat",
    "rewritten_short",
    "same_structure",
    "shorten",
]

lazy(__name__)
