"""Sizes of the errors that all bricks of a model share, by backend."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from dlbricks_core.figures.figure import Discrepancy

_SIZES = Path(__file__).parent / "discrepancies.json"


@cache
def discrepancy_of(backend: str) -> Discrepancy:
    """Discrepancy of a backend's models; that of all backends together for an unknown one.

    The sizes are fitted to families of models that were left out of the atlas, in addition to the
    error of composing (benchmarks/predictor/intervals.py). No backend has smaller sizes than all
    backends together, because its families are few.
    """
    sizes = json.loads(_SIZES.read_text())
    return Discrepancy(**sizes.get(backend, sizes["*"]))
