"""Latencies in proportion to operations and bytes."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dlbricks_core.analysis import Volume
from dlbricks_core.bricks import Brick
from dlbricks_core.facts import Setup, System
from dlbricks_core.figures import RESAMPLES, Figure, Predicted
from dlbricks_core.predict import Predictor

SHARE = 0.7
"""Weight of the operations in a brick's volume; the rest is the weight of the bytes."""


class Proportional(Predictor):
    """The geometric mean of the known bricks' latency per volume, times a brick's volume."""

    name = "proportional"

    def predict(
        self,
        bricks: Mapping[str, Brick],
        setup: Setup,
        system: System,
        known: Mapping[str, Figure],
        atlas: Sequence[Any] = (),
    ) -> Mapping[str, Predicted]:
        """Latencies in milliseconds; none if fewer than two bricks are known."""
        volumes = {s: Volume.of(brick.model).expected(SHARE) for s, brick in bricks.items()}
        rates = np.log([each.own / volumes[s] for s, each in known.items() if each.own > 0])
        if len(rates) < 2:
            return {}
        rate, deviation = rates.mean(), rates.std(ddof=1)
        random = np.random.default_rng(0)
        # The mean of few rates is uncertain: an error that all bricks have in common.
        common = random.standard_t(len(rates) - 1, RESAMPLES) / np.sqrt(len(rates))
        return {
            signature: Predicted(
                volume * np.exp(rate),
                volume * np.exp(rate + deviation * (common + random.standard_normal(RESAMPLES))),
            )
            for signature, volume in volumes.items()
            if signature not in known
        }
