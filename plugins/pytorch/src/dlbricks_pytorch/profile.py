"""Times of a whole model's layers, taken around its torch calls, and torch's own profile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any

import numpy as np
import torch
from torch import fx

from dlbricks_core.backends import (
    WARMUP_RUNS,
    BackendSettings,
    Network,
    Profile,
    ProfiledLayer,
    Span,
    Timeline,
    warmed_up,
)
from dlbricks_core.ir import CanonicalModel
from dlbricks_pytorch.loading import placed_inputs, placed_weights


@dataclass(frozen=True)
class _Step:
    """One call of the lowered graph.

    Attributes:
        node: The call.
        layer: Index of the layer that the call belongs to.
        dropped: Nodes whose results are not read after the call.
    """

    node: fx.Node
    layer: int
    dropped: tuple[fx.Node, ...]


def profile(network: Network, settings: BackendSettings, runs: int) -> Profile:
    """Time of every layer of a network that runs call by call, with the clock read around each.

    As in the code that torch generates for the graph, results are freed right after their last use,
    and the time of freeing counts for the last reader.

    Args:
        network: Network in canonical form.
        settings: Threads and memory format.
        runs: Number of runs that count; a few more warm the network up.
    """
    model = network.model
    module = placed_weights(network, settings)
    inputs = placed_inputs(network.model, network.inputs, settings)
    steps = _steps(model, module)
    held = _held(module, inputs)
    taken = np.zeros((runs, len(model.layers)))

    def run(row: Any) -> float:
        begin = perf_counter_ns()
        _run(steps, dict(held), row)
        return (perf_counter_ns() - begin) / 1e6

    warmed_up(lambda: run(np.zeros(len(model.layers))))
    latencies = [run(row) for row in taken]
    medians = np.median(taken, axis=0) / 1e6
    layers = [
        ProfiledLayer(layer.name, layer.qualified_op, layer.outputs, float(ms))
        for layer, ms in zip(model.layers, medians, strict=True)
    ]
    return Profile(layers, float(np.median(latencies)))


def timeline(run: Callable[[], None]) -> Timeline:
    """All operators of torch in one run, each on the thread that calls it.

    An operator that calls others encloses them. Threads that only share an operator's work are not
    distinguished.

    Args:
        run: Function that runs one inference to its end.
    """
    for _ in range(WARMUP_RUNS):
        run()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        begin = perf_counter_ns()
        run()
        run_ms = (perf_counter_ns() - begin) / 1e6
    events = sorted(profiler.events() or (), key=lambda each: each.time_range.start)
    first = events[0].time_range.start if events else 0.0
    spans = [
        Span(
            event.name,
            f"thread {event.thread}",
            (event.time_range.start - first) / 1e3,
            event.time_range.elapsed_us() / 1e3,
        )
        for event in events
    ]
    return Timeline(spans, run_ms)


def _run(steps: Sequence[_Step], values: dict[fx.Node, Any], spent_ns: Any) -> None:
    for step in steps:
        node = step.node
        call: Callable[..., Any] = node.target  # type: ignore[assignment]
        arguments = fx.node.map_arg(node.args, values.__getitem__)
        named = fx.node.map_arg(node.kwargs, values.__getitem__)
        begin = perf_counter_ns()
        values[node] = call(*arguments, **named)
        arguments = named = None
        for used in step.dropped:
            del values[used]
        spent_ns[step.layer] += perf_counter_ns() - begin


def _steps(model: CanonicalModel, module: fx.GraphModule) -> list[_Step]:
    index = {layer.outputs: i for i, layer in enumerate(model.layers)}
    calls = [node for node in module.graph.nodes if node.op == "call_function"]
    last: dict[fx.Node, fx.Node] = {}
    for node in module.graph.nodes:  # the output node is the last reader
        last.update(dict.fromkeys(node.all_input_nodes, node))
    dropped: dict[fx.Node, list[fx.Node]] = {}
    for node in calls:
        dropped.setdefault(last.get(node, node), []).append(node)
    return [
        _Step(node, index[node.meta["layer"].outputs], tuple(dropped.get(node, ())))
        for node in calls
    ]


def _held(module: fx.GraphModule, inputs: Sequence[torch.Tensor]) -> dict[fx.Node, Any]:
    """Values that exist before the first call: inputs and weights."""
    fed = iter(inputs)
    held = {}
    for node in module.graph.nodes:
        if node.op == "placeholder":
            held[node] = next(fed)
        elif node.op == "get_attr":
            held[node] = getattr(module, node.target)
    return held
