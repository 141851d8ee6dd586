"""Costs: predicted seconds to time a network."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from dlbricks_core.facts import Measurement
from dlbricks_core.ir import CanonicalModel

START_S, QUICK_START_S = 3.0, 1.0
"""Seconds to start a worker and to import a framework: as usual, and at best."""

_NETWORK_S, _LAYER_S, _WEIGHT_BYTE_S, _LIVE_BYTE_S, _WARM_UP_RUNS = 2.5e-3, 2.5e-4, 2e-9, 6e-10, 6.0
"""Cost of loading: seconds for each network, for each layer, for each byte of weights and for each
byte of other tensors, and a number of warm-up runs. All constants here are those of a usual server;
:class:`Costs` scales them to another machine or framework.
"""

_RUN_S, _LATENCIES = 2e-4, 2.5
"""Cost of a run: seconds beyond latencies, and latencies of the network, including those of the run
before it that prepares the caches.
"""

_PRIOR_S = 1.0
"""Weight of these constants beside observed costs, in seconds."""


@dataclass(frozen=True)
class Costs:
    """Cost of timing networks on this machine.

    Attributes:
        slowdown: Seconds that timing takes here, relative to a usual server.
    """

    slowdown: float = 1.0

    @classmethod
    def seen(cls, taken: Iterable[tuple[CanonicalModel, Measurement]]) -> Self:
        """Costs derived from networks that were measured."""
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
        """Seconds to load a network and to run it a number of times."""
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
