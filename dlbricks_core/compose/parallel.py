"""The critical path."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dlbricks_core.bricks import CutModel
from dlbricks_core.compose.base import Composer
from dlbricks_core.figures.statistics import FloatArray


class Parallel(Composer):
    """Latency of the most expensive path through the model's bricks.

    It bounds the latency of a framework that runs independent layers at the same time.
    Source: Li et al., ICPE 2020, section on latency construction.
    """

    name = "parallel"
    is_bound = True

    def total(self, cut: CutModel, costs: Mapping[str, FloatArray]) -> FloatArray:
        """Largest sum over all paths, in milliseconds, for each replicate."""
        finish: list[FloatArray] = []
        latest = np.zeros(1)
        for each, needed in zip(cut.occurrences, dependencies(cut), strict=True):
            start = np.zeros(1)
            for before in needed:
                start = np.maximum(start, finish[before])
            finish.append(start + costs[each.signature])
            latest = np.maximum(latest, finish[-1])
        return latest


def dependencies(cut: CutModel) -> list[set[int]]:
    """For each occurrence, positions of the earlier occurrences whose results it reads."""
    owner = {layer: i for i, each in enumerate(cut.occurrences) for layer in each.layers}
    found: list[set[int]] = [set() for _ in cut.occurrences]
    for tensor, producer in cut.graph.producers.items():
        for reader in cut.graph.consumers.get(tensor, ()):
            if owner[reader] != owner[producer]:
                found[owner[reader]].add(owner[producer])
    return found
