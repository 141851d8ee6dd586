"""Sizes of the errors that all bricks of a model have in common, by backend."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from dlbricks_core.figures.figure import Discrepancy

_SIZES = Path(__file__).parent / "discrepancies.json"


@cache
def discrepancy_of(backend: str) -> Discrepancy:
    """What a backend's models are off by; what all backends' are for an unknown one.

    The sizes are fitted to families of models that were left out, beside the error of composing
    (benchmarks/predictor/intervals.py). A backend whose families show less than those of all
    backends together has the size of all: eight families are few.
    """
    sizes = json.loads(_SIZES.read_text())
    return Discrepancy(**sizes.get(backend, sizes["*"]))
