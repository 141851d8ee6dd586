"""Warm layers: latencies in a loop of a small model, or of a step that has just run.

Reference data are of cold layers, which run after other networks: weights come from memory, and the
framework's code from far caches. A small model in a loop finds both near. Only few samples, of few
kinds of layers, are from such loops. A warm layer is therefore predicted from cold layers: data
from the caches take the baseline's share of the time, and short layers lose most of their start.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from dlbricks_core import fitted
from dlbricks_core.figures.statistics import FloatArray
from dlbricks_prediction.baseline import Processor, expected_ms
from dlbricks_prediction.features import NAMES, Features
from dlbricks_prediction.grouped import Grouped
from dlbricks_prediction.layer_posterior import LayerPosterior

_WEIGHTS, _COLD = NAMES.index("weight_bytes"), NAMES.index("cold_bytes")


@dataclass(frozen=True)
class Warmth:
    """How a framework's warm layers differ from cold ones.

    Attributes:
        start_ms: Latency of a cold layer that is halfway between the shortest and the longest.
        share: Share of their latency that the shortest layers keep. The longest keep all.
        deviation: Standard deviation of the logarithm of that share, which the layers of a model
            have in common.
    """

    start_ms: float
    share: float
    deviation: float

    def of(self, cold_ms: FloatArray) -> FloatArray:
        """Share of its cold latency that each layer keeps: shape (layers,).

        Args:
            cold_ms: Latencies in milliseconds, with data from the caches and code from far ones.
        """
        return np.asarray((cold_ms + self.share * self.start_ms) / (cold_ms + self.start_ms))


@cache
def warmth_of(backend: str) -> Warmth:
    """Warm layers of a backend. For an unknown backend, only the data are assumed to be near."""
    return Warmth(**fitted.of_backend(__file__, "warmth", backend))


def are_warm(features: Features) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Whether each layer is warm. Features of earlier versions mark only layers with weights."""
    weights, cold = features.numbers[:, _WEIGHTS], features.numbers[:, _COLD]
    return np.asarray((cold < 0) | ((cold == 0) & (weights > 0)))


def cold_twins(features: Features) -> Features:
    """Features of the same layers without warmth."""
    numbers = features.numbers.copy()
    warm = are_warm(features)
    numbers[warm, _COLD] = numbers[warm, _WEIGHTS]
    return Features(features.kinds, numbers)


def warmed(
    belief: LayerPosterior, features: Features, warmth: Warmth, processor: Processor
) -> LayerPosterior:
    """The belief about layers, from the belief about their cold twins.

    Args:
        belief: Posterior of the cold twins.
        features: Features of the layers.
        warmth: How warm layers differ.
        processor: The processor.
    """
    warm = are_warm(features)
    if not warm.any():
        return belief
    near = np.log(expected_ms(features, processor) / expected_ms(cold_twins(features), processor))
    mean = belief.mean + np.where(warm, near + np.log(warmth.of(np.exp(belief.mean))), 0.0)
    common = warmth.deviation * warm
    spread = belief.spread
    shared = np.concatenate([spread.shared, common[:, None]], axis=1)
    return replace(belief, mean=mean, spread=Grouped(spread.groups, shared))
