"""Predictions for networks of which only the features are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from dlbricks_prediction.atlas import Contribution, LayerTable, counts_matrix
from dlbricks_prediction.features import Features
from dlbricks_prediction.from_atlas import believed
from dlbricks_prediction.sampling import centred
from dlbricks_prediction.whole_errors import discrepancy_of

from dlbricks_core.facts import Setup, System
from dlbricks_core.figures.figure import RESAMPLES
from dlbricks_core.figures.predicted import Predicted


@dataclass(frozen=True, eq=False)
class FeaturePrediction:
    """Prediction for a network from its features alone.

    Attributes:
        figure: Latency of the whole network in milliseconds.
        parts: Number of layers and milliseconds by the kind of layer; the network's ends are
            kinds of their own.
    """

    figure: Predicted
    parts: Mapping[str, tuple[int, float]]


def predicted_from_features(
    networks: Mapping[str, Features],
    setup: Setup,
    system: System,
    atlas: Sequence[Contribution],
    call_ms: float = 0.0,
) -> dict[str, FeaturePrediction]:
    """Predictions for networks from their features, without their graphs.

    Args:
        networks: Features of all layers and ends of each network, by its signature.
        setup: How the networks run.
        system: System on which the networks run.
        atlas: Measurements, here and elsewhere.
        call_ms: Cost of a call of the timer, in milliseconds, which each latency includes.
    """
    table = LayerTable()
    counts = {name: table.add(features) for name, features in networks.items()}
    matrix = counts_matrix(counts.values(), len(table.kinds))
    belief = believed(table.features, setup, system, atlas)
    layer_ms = np.exp(belief.mean)
    draws = (matrix @ np.exp(centred(belief, matrix).draws(RESAMPLES)).T).T
    # Each of these networks counts as a model, with an error of its own.
    own = np.random.default_rng(0).standard_normal(draws.shape)
    draws *= np.maximum(1 + discrepancy_of(setup.backend).predicted * own, 0.0)
    found = {}
    for (name, own), likely, each in zip(counts.items(), matrix @ layer_ms, draws.T, strict=True):
        parts: dict[str, tuple[int, float]] = {}
        for place, number in own.items():
            times, ms = parts.get(table.kinds[place], (0, 0.0))
            parts[table.kinds[place]] = times + number, ms + number * float(layer_ms[place])
        figure = Predicted(float(likely) + call_ms, each + call_ms, call_ms)
        found[name] = FeaturePrediction(figure, parts)
    return found
