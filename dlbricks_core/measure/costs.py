"""Seconds that timing a network will take, as far as it can be known beforehand."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from dlbricks_core.facts import Measurement
from dlbricks_core.ir import CanonicalModel

START_S = 3.0
"""Seconds to start a worker and to import a framework."""

_NETWORK_S, _LAYER_S, _WEIGHT_BYTE_S, _LIVE_BYTE_S, _WARM_UP_RUNS = 2.5e-3, 2.5e-4, 2e-9, 6e-10, 6.0
"""What loading takes: seconds for each network, layer, byte of weights and of other tensors, and
latencies. These and the numbers below are of a usual server; :class:`Costs` says how far another
machine or framework is off."""

_RUN_S, _LATENCIES = 2e-4, 2.5
"""Seconds of a run beyond latencies, and latencies of a run: its own, and that of what runs before
it to put the caches in order."""

_PRIOR_S = 1.0
"""Seconds that these numbers count for, beside what is seen."""


@dataclass(frozen=True)
class Costs:
    """What timing networks costs here.

    Attributes:
        slowdown: Seconds that it takes, over those that it usually takes.
    """

    slowdown: float = 1.0

    @classmethod
    def seen(cls, taken: Iterable[tuple[CanonicalModel, Measurement]]) -> Self:
        """Costs as they were when networks were measured."""
        usual = seen = _PRIOR_S
        for model, measurement in taken:
            for each in measurement.observations:
                if each.spent_s is not None:
                    usual += len(each.values) * _run_s(each.values[0])
                    seen += each.spent_s
                if each.loading_s is not None:
                    usual += _loading_s(model, each.values[0])
                    seen += each.loading_s
        return cls(seen / usual)

    def seconds(self, model: CanonicalModel, latency_ms: float, runs: int) -> float:
        """Seconds to load a network and to run it so many times."""
        return self.slowdown * (_loading_s(model, latency_ms) + runs * _run_s(latency_ms))


def _loading_s(model: CanonicalModel, latency_ms: float) -> float:
    return (
        _NETWORK_S
        + _LAYER_S * len(model.layers)
        + _WEIGHT_BYTE_S * model.weight_bytes
        + _LIVE_BYTE_S * model.live_bytes
        + _WARM_UP_RUNS * latency_ms / 1e3
    )


def _run_s(latency_ms: float) -> float:
    return _RUN_S + _LATENCIES * latency_ms / 1e3
