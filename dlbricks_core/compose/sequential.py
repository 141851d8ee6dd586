"""The sum over all bricks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from dlbricks_core.compose.base import Composer

if TYPE_CHECKING:
    from dlbricks_core.bricks import CutModel
    from dlbricks_core.figures.statistics import FloatArray


class Sequential(Composer):
    """Sum of the latencies of all bricks: CPU frameworks run one layer after another.

    Source: Li et al., ICPE 2020, section on latency construction.
    """

    name = "sequential"

    def total(self, cut: CutModel, costs: Mapping[str, FloatArray]) -> FloatArray:
        """Sum over all occurrences of bricks, in milliseconds, for each replicate."""
        total = np.zeros(1)
        for signature, count in cut.counts.items():
            total = total + count * costs[signature]
        return total
