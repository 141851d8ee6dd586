"""Notes on predictions of quantities, and their sentences.

Modules that make a note import the function from here, so that its sentence is there.
"""

from __future__ import annotations

from collections.abc import Sequence

from dlbricks_core.facts.note import note
from dlbricks_core.report.notes import add_words
from dlbricks_core.wording import argument, count, listed

__all__ = ["note"]

_NAMED = 3
"""Models that a note names; the others are counted."""


def _shipped(
    quantity: str,
    names: Sequence[str],
    models: int,
    backend: str,
    version: str,
    threads: int,
    system: str,
    date: str,
) -> str:
    theirs = "its" if len(names) == 1 else "their"
    return (
        f"{quantity} of {listed(names, _NAMED)} is predicted from {models} well-known models on "
        f"{backend} {version}, {count(threads, 'thread')} ({system}, {date}): measuring with "
        f"{argument('quantity')} {quantity} observes {theirs} bricks"
    )


add_words(
    {
        "too-few-observed": lambda quantity, networks, families, held, held_families: (
            f"a prediction of {quantity} needs {networks} networks of {families} families of "
            f"models, and the store has {held} of {held_families} in this setup: measure more "
            f"models with {argument('quantity')} {quantity}"
        ),
        "predicted-from-shipped": _shipped,
        "models-larger-than-shipped": lambda quantity, names, models: (
            f"{quantity} of {listed(names, _NAMED)} is not predicted from the {models} well-known "
            "models of the package: none is half as large"
        ),
        "bricks-larger-than-observed": lambda quantity, bricks, of_bricks: (
            f"{quantity} is not predicted for {bricks} of {of_bricks} bricks: no network of nearly "
            "their size was observed"
        ),
    }
)
