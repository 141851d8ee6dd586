"""Time of each layer of a whole model, from OpenVINO's own counters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from time import perf_counter

import numpy as np
import openvino

from dlbricks_core.backends import (
    Array,
    BackendSettings,
    Network,
    Profile,
    ProfiledLayer,
    warmed_up,
)
from dlbricks_core.ir import CanonicalModel
from dlbricks_openvino.executed import Node, compiled_whole, executed, layers_of, with_merged
from dlbricks_openvino.loading import bound, placed

_SHORT_US = 50.0
"""Microseconds below which a layer is short: its time is the mean over all runs."""

_DISTURBED = 1.25
"""Latency, relative to the median, from which a run is disturbed: its layers do not count."""


def profile(network: Network, settings: BackendSettings, runs: int) -> Profile:
    """Time of every node of the graph that OpenVINO makes of a model.

    Args:
        network: The network with the tensor names that ``rewrite`` receives.
        settings: Threads and options.
        runs: Number of runs that count.
    """
    model = network.model
    ready = compiled_whole(network, settings, profiled=True)
    loaded = bound(
        ready, model, {name: placed(model, network.inputs, name) for name in model.inputs}
    )
    warm = 0

    def run() -> float:
        nonlocal warm
        warm += 1
        begin = perf_counter()
        loaded.infer()
        return (perf_counter() - begin) * 1e3

    warmed_up(run)
    counters = Counters(ready, warm)
    for _ in range(runs):
        counters.timed(loaded.infer)

    return counters.profile(model)


def _mean_us(totals: Array, kept: Array) -> float:
    """Mean microseconds of a run, from the sums up to each moment.

    Rounding takes up to a microsecond a run from each sum. It cancels over all runs, but not over
    some of them. For short layers that matters more than the runs that something disturbed.

    Args:
        totals: Sums before the first run and after each: shape (runs + 1,).
        kept: Indices of the runs that nothing disturbed.
    """
    of_runs = np.diff(totals)
    mean = float(of_runs.mean())
    return max(mean if mean < _SHORT_US else float(of_runs[kept].mean()), 0.0)


class Counters:
    """Times of the layers of a compiled model, run by run.

    OpenVINO has the mean of all runs since the model was compiled, in whole microseconds. The sums
    of two successive moments differ by the run between them.

    Args:
        ready: A model that was compiled with ``PERF_COUNT``.
        runs: Runs since then; they do not count.
    """

    def __init__(self, ready: openvino.CompiledModel, runs: int) -> None:
        self._ready = ready
        self._runs = runs
        self._latencies_ms: list[float] = []
        self._totals = [self._now()]

    def timed(self, run: Callable[[], object]) -> float:
        """Runs the model once, and returns the latency in milliseconds."""
        begin = perf_counter()
        run()
        latency_ms = (perf_counter() - begin) * 1e3
        self._runs += 1
        self._latencies_ms.append(latency_ms)
        self._totals.append(self._now())
        return latency_ms

    def profile(self, model: CanonicalModel) -> Profile:
        """Mean time of each layer over the runs that nothing disturbed.

        Args:
            model: The model with whose layers the graph was numbered.
        """
        latencies = np.array(self._latencies_ms)
        median = float(np.median(latencies))
        kept = np.flatnonzero(latencies <= _DISTURBED * median)
        nodes = list(self._executed())
        computed = with_merged(layers_of(nodes, model), model)
        layers = []
        for node in nodes:
            totals = np.array([each.get(node.name, 0) for each in self._totals])
            ms = _mean_us(totals, kept) / 1e3
            outputs = (n for i in computed[node.name] for n in model.layers[i].outputs if n)
            layers.append(ProfiledLayer(node.name, node.operator, tuple(outputs), ms))
        return Profile(layers, median)

    def _now(self) -> Mapping[str, int]:
        """Microseconds of each layer in all runs so far together."""
        return {node.name: self._runs * (node.us or 0) for node in self._executed()}

    def _executed(self) -> Iterator[Node]:
        nodes = executed(self._ready.get_runtime_model())
        return (node for node in nodes if node.us is not None)
