"""Costs: predicted seconds to time a network."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Self

from dlbricks_core import fitted
from dlbricks_core.facts import Measurement
from dlbricks_core.ir import CanonicalModel

START_S, QUICK_START_S = 3.0, 1.0
"""Usual and minimum seconds to start a worker and to import a framework."""

_PRIOR_S = 1.0
"""Weight of the usual costs, in seconds of observed costs."""


@dataclass(frozen=True)
class UsualCosts:
    """Costs of timing on a usual server. :class:`Costs` scales them to other machines.

    Attributes:
        network_s: Seconds to load any network, in addition to its layers and bytes.
        layer_s: Seconds to load a layer.
        weight_byte_s: Seconds to load a byte of weights.
        live_byte_s: Seconds for a byte of other tensors.
        warm_up_runs: Number of warm-up runs.
        run_s: Seconds of a run beyond latencies.
        latencies: Latencies of the network in a run, including those of the run before it that
            prepares the caches.
    """

    network_s: float
    layer_s: float
    weight_byte_s: float
    live_byte_s: float
    warm_up_runs: float
    run_s: float
    latencies: float

    def loading_s(self, model: CanonicalModel, latency_ms: float) -> float:
        """Seconds to load a network and to warm it up."""
        return (
            self.network_s
            + self.layer_s * len(model.layers)
            + self.weight_byte_s * model.weight_bytes
            + self.live_byte_s * model.live_bytes
            + self.warm_up_runs * latency_ms / 1e3
        )

    def seconds_of_run(self, latency_ms: float) -> float:
        """Seconds of one run."""
        return self.run_s + self.latencies * latency_ms / 1e3


@cache
def usual_costs() -> UsualCosts:
    """The fitted costs."""
    return UsualCosts(**fitted.values(__file__, "costs"))


@dataclass(frozen=True)
class Costs:
    """Cost of timing networks on this machine.

    Attributes:
        slowdown: Seconds of timing on this machine, relative to a usual server.
    """

    slowdown: float = 1.0

    @classmethod
    def seen(cls, taken: Iterable[tuple[CanonicalModel, Measurement]]) -> Self:
        """Costs derived from networks that were measured."""
        usual = seen = _PRIOR_S
        costs = usual_costs()
        for model, measurement in taken:
            for each in measurement.observations:
                if each.spent_s is not None:
                    usual += len(each.values) * costs.seconds_of_run(each.values[0])
                    seen += each.spent_s
                if each.loading_s is not None:
                    usual += costs.loading_s(model, each.values[0])
                    seen += each.loading_s
        return cls(seen / usual)

    def seconds(self, model: CanonicalModel, latency_ms: float, runs: int) -> float:
        """Seconds to load a network and to run it a number of times."""
        costs = usual_costs()
        runs_s = runs * costs.seconds_of_run(latency_ms)
        return self.slowdown * (costs.loading_s(model, latency_ms) + runs_s)
