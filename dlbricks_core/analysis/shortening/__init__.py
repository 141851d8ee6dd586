"""Short models: a few of each repeated block stand for all, and what is made of them is expanded.

A decoder of 80 blocks repeats one block. Whoever looks at layers and their neighbours alone, as
frameworks do that fuse layers, makes of 80 blocks what it makes of a few, again and again. The
repeat is found in both: in the model, to leave copies out, and in what was made of the short model,
to put copies in.
"""

from typing import TYPE_CHECKING

from dlbricks_core.lazy import lazy

if TYPE_CHECKING:
    from dlbricks_core.analysis.shortening.expansion import expand, rewritten_short, same_structure
    from dlbricks_core.analysis.shortening.repeats import (
        KEPT,
        NotRepeatedError,
        Repeat,
        longest_repeat,
    )
    from dlbricks_core.analysis.shortening.short import Short, shorten

__all__ = [
    "KEPT",
    "NotRepeatedError",
    "Repeat",
    "Short",
    "expand",
    "longest_repeat",
    "rewritten_short",
    "same_structure",
    "shorten",
]

lazy(__name__)
