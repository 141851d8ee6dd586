"""Time of each layer of a whole model, from MXNet's own profiler."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import perf_counter_ns
from typing import Any

import numpy as np

from dlbricks_core.backends import (
    BackendSettings,
    Network,
    Profile,
    ProfiledLayer,
    Span,
    Timeline,
    warmed_up,
)
from dlbricks_core.errors import UnsupportedError
from dlbricks_core.ir import CanonicalModel
from dlbricks_mxnet.events import Event, begins_and_ends, times, traced
from dlbricks_mxnet.executors import EXECUTORS
from dlbricks_mxnet.loading import Loaded, feeds_blocks, placed, unload
from dlbricks_mxnet.lowering import lower
from dlbricks_mxnet.lowering.build import LAYER

#: Environment for running operators one by one; MXNet reads it during binding of an executor.
_ONE_BY_ONE = {"MXNET_EXEC_BULK_EXEC_INFERENCE": "0", "MXNET_SUBGRAPH_BACKEND": "NONE"}


@contextmanager
def _one_by_one(settings: BackendSettings) -> Iterator[None]:
    """Makes executors that are bound meanwhile run and report every operator separately.

    Otherwise MXNet's engine and profiler treat many operators as one piece of work.

    Raises:
        UnsupportedError: If operators would still be indistinguishable.
    """
    if settings.options.get("executor", "cachedop") != "cachedop":
        raise UnsupportedError("what oneDNN fuses for Symbol.bind is not told operator by operator")
    if settings.options.get("engine", "naive") != "naive":
        raise UnsupportedError("the threaded engine does not report which operator of a kind ran")
    before = {name: os.environ.get(name) for name in _ONE_BY_ONE}
    os.environ.update(_ONE_BY_ONE)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def profile(network: Network, settings: BackendSettings, runs: int) -> Profile:
    """Time of every layer of a network: the sum over its operators.

    Args:
        network: Network in canonical form.
        settings: Threads and options.
        runs: Number of runs that count; a few more warm the network up.

    Raises:
        UnsupportedError: If MXNet cannot tell operators apart under these settings.
    """
    with _bound(network, settings) as loaded:
        events, latencies = _profiled(loaded, runs)
        nodes = _operators(loaded)
        taken = times([node["op"] for node in nodes], events, runs)
        return Profile(_layers(loaded.model, nodes, taken), float(np.median(latencies)))


def timeline(network: Network, settings: BackendSettings) -> Timeline:
    """All operators of one run. The naive engine runs them on one thread.

    Args:
        network: Network in canonical form.
        settings: Threads and options.

    Raises:
        UnsupportedError: If MXNet cannot tell operators apart under these settings.
    """
    with _bound(network, settings) as loaded:
        events, (run_ms,) = _profiled(loaded, 1)
        nodes = _operators(loaded)
        begins, ends = begins_and_ends([node["op"] for node in nodes], events, 1)
        first = begins[0]["ts"] if begins else 0
        spans = []
        for node, begin, end in zip(nodes, begins, ends, strict=True):
            marked = node.get("attrs", {}).get(LAYER)
            outputs = () if marked is None else loaded.model.layers[int(marked)].outputs
            when = (begin["ts"] - first) / 1e3, (end["ts"] - begin["ts"]) / 1e3
            spans.append(Span(f"{node['op']} {node['name']}", "naive engine", *when, outputs))
        return Timeline(spans, run_ms)


@contextmanager
def _bound(network: Network, settings: BackendSettings) -> Iterator[Loaded]:
    """A network that is ready to run operator by operator, each marked with its layer."""
    with _one_by_one(settings):
        lowered, blocks = lower(network, marked=True), feeds_blocks(settings)
        loaded = placed(network, lowered, EXECUTORS["symbol"], blocks=blocks)
        try:
            yield loaded
        finally:
            unload(loaded)


def _operators(loaded: Loaded) -> Sequence[Mapping[str, Any]]:
    """Nodes of the lowered symbol that compute, in the order in which they run."""
    return [n for n in json.loads(loaded.lowered.symbol.tojson())["nodes"] if n["op"] != "null"]


def _profiled(loaded: Loaded, runs: int) -> tuple[Sequence[Event], list[float]]:
    """Events and latencies in milliseconds of some runs after the warm-up."""

    def run() -> float:
        begin = perf_counter_ns()
        loaded.results = loaded.start()
        for result in loaded.results:
            result.wait_to_read()
        return (perf_counter_ns() - begin) / 1e6

    warmed_up(run)
    return traced(run, lambda _: runs - 1)


def _layers(
    model: CanonicalModel, nodes: Sequence[Mapping[str, Any]], times: Sequence[float]
) -> list[ProfiledLayer]:
    """Times of the layers, and of operators that belong to no layer."""
    sums = [0.0] * len(model.layers)
    others = []
    for node, ms in zip(nodes, times, strict=True):
        marked = node.get("attrs", {}).get(LAYER)
        if marked is None:
            others.append(ProfiledLayer(node["name"], node["op"], (), ms))
        else:
            sums[int(marked)] += ms
    layers = [
        ProfiledLayer(layer.name, layer.qualified_op, layer.outputs, ms)
        for layer, ms in zip(model.layers, sums, strict=True)
    ]
    return layers + others
