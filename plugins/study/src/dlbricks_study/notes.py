"""Notes on studies, and their sentences.

Modules that make a note import the function from here, so that its sentence is there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dlbricks_core.facts.note import note
from dlbricks_core.report.notes import add_words

__all__ = ["note"]


def _left_out(reason: str) -> Callable[..., str]:
    """Words for layers that a sum leaves out, with the reason."""

    def words(operators: Mapping[str, int]) -> str:
        named = ", ".join(f"{op} ({number})" for op, number in operators.items())
        return f"the sum leaves out {named}: {reason}"

    return words


add_words(
    {
        "operations-unknown": _left_out("their operations have no rule"),
        "sizes-unknown": _left_out("their sizes are unknown"),
        "samples-scatter": lambda bricks, of_bricks: (
            f"samples of {bricks:,} of {of_bricks:,} bricks scatter widely"
        ),
        "bricks-below-1-ms": lambda bricks, of_bricks: (
            f"{bricks:,} of {of_bricks:,} bricks take less than 1 ms a run"
        ),
        "models-in-other-rounds": lambda models, of_models: (
            f"{models} of {of_models} models have bricks that were not timed in the same rounds as "
            "the whole model: drift of the machine is part of their errors"
        ),
    }
)
