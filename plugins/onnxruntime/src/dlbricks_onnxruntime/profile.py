"""Time of each layer of a whole model, from ONNX Runtime's own profiler."""

from __future__ import annotations

import json
import tempfile
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto

from dlbricks_core.backends import (
    BackendSettings,
    Network,
    Profile,
    ProfiledLayer,
    Span,
    Timeline,
    warmed_up,
)
from dlbricks_core.figures.statistics import trimmed_mean
from dlbricks_core.ir import CanonicalModel, Layer
from dlbricks_onnxruntime.loading import allocate, bind
from dlbricks_onnxruntime.origins import named, origins, restored_names
from dlbricks_onnxruntime.sessions import create_session, session_options

_DROPPED = 0.4
"""Share of the runs to drop at each end: where few are profiled, other work disturbs several."""

_SUFFIX = "_kernel_time"
_RUN = "model_run"
_DETAILS = ("provider", "node_index", "input_type_shape", "output_type_shape", "parameter_size")
_WEIGHTS_FILE = "session.optimized_model_external_initializers_file_name"


def profile(network: Network, settings: BackendSettings, runs: int) -> Profile:
    """Time of every node of the graph that ONNX Runtime makes of a model.

    Args:
        network: The network with the tensor names that ``rewrite`` receives.
        settings: Threads and optimizations.
        runs: Number of runs that count.
    """
    trace = _trace(network, settings, runs)
    durations: dict[str, list[float]] = defaultdict(list)
    for event in trace.kernels:
        durations[event["name"].removesuffix(_SUFFIX)].append(event["dur"] / 1e3)
    layers = _layers(trace.nodes, trace.model, durations, runs)
    return Profile(layers, float(np.median(trace.latencies_ms)))


def timeline(network: Network, settings: BackendSettings) -> Timeline:
    """All nodes of one run, and the threads of the pool that took part in each.

    ONNX Runtime reports which threads took part in a node, but not when. So their spans are as long
    as the node.

    Args:
        network: The network with the tensor names that ``rewrite`` receives.
        settings: Threads and optimizations.
    """
    trace = _trace(network, settings, 1)
    begin = next(each["ts"] for each in reversed(trace.events) if each["name"] == _RUN)
    kernels = [each for each in trace.kernels if each["ts"] >= begin]
    names = restored_names(map(_layer, trace.nodes), trace.model)
    outputs = {
        each.name: tuple(names.get(name, name) for name in each.output) for each in trace.nodes
    }
    spans: list[Span] = []
    took_part = _parts(trace.kernels[: -len(kernels)]) if kernels else {}
    for event in kernels:
        name = event["name"].removesuffix(_SUFFIX)
        about = event["args"]
        when = (event["ts"] - begin) / 1e3, event["dur"] / 1e3
        label = f"{about['op_name']} {name}"
        details = {each: str(about[each]) for each in _DETAILS if each in about}
        spans.append(Span(label, "main thread", *when, outputs.get(name, ()), details))
        now = _parts([event])
        for number, thread in enumerate(now, 1):
            if now[thread] != took_part.get(thread, 0):
                spans.append(Span(f"part of {label}", f"thread {number} of the pool", *when))
        took_part |= now
    return Timeline(spans, trace.latencies_ms[-1])


@dataclass(frozen=True)
class _Trace:
    """Trace of ONNX Runtime's profiler, and the graph that was executed.

    Attributes:
        events: All events in the order of their begin.
        nodes: Nodes of the executed graph.
        model: The model with the tensor names of the caller.
        latencies_ms: Latency of each run that counts, in milliseconds.
    """

    events: Sequence[Mapping[str, Any]]
    nodes: Sequence[NodeProto]
    model: CanonicalModel
    latencies_ms: Sequence[float]

    @property
    def kernels(self) -> Sequence[Mapping[str, Any]]:
        """Events of nodes, in the order in which they ran."""
        return [
            each for each in self.events if each["cat"] == "Node" and each["name"].endswith(_SUFFIX)
        ]


def _trace(network: Network, settings: BackendSettings, runs: int) -> _Trace:
    options = session_options(settings)
    options.enable_profiling = True
    with tempfile.TemporaryDirectory(prefix="dlbricks-") as folder:
        options.profile_file_prefix = str(Path(folder) / "profile")
        path = Path(folder) / "rewritten.onnx"
        options.optimized_model_filepath = str(path)
        options.add_session_config_entry(_WEIGHTS_FILE, "weights")
        model = named(network.model)
        session = create_session(model, network.weights, options)
        nodes = onnx.load(path, load_external_data=False).graph.node
        loaded = bind(session, model, allocate(network, {}))

        def run() -> float:
            begin = perf_counter_ns()
            session.run_with_iobinding(loaded.binding)
            return (perf_counter_ns() - begin) / 1e6

        warmed_up(run)
        latencies = [run() for _ in range(runs)]
        events = json.loads(Path(session.end_profiling()).read_text(encoding="utf-8"))
    return _Trace(sorted(events, key=itemgetter("ts")), nodes, model, latencies)


def _parts(kernels: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Number of work items that each thread of the pool has done up to the last of some nodes."""
    if not kernels:
        return {}
    # The text is empty without a pool.
    scheduled = kernels[-1]["args"].get("thread_scheduling_stats") or {}
    return {name: each["num_run"] for name, each in scheduled.get("sub_threads", {}).items()}


def _layers(
    nodes: Sequence[NodeProto], model: CanonicalModel, durations: dict[str, list[float]], runs: int
) -> list[ProfiledLayer]:
    """Times of the nodes in the trace; nodes that share a name alternate in it.

    The trace has whole microseconds. For a short layer, a mean over the middle fifth has a better
    resolution than the median.
    """
    originals = origins(model)
    names = restored_names(map(_layer, nodes), model)
    namesakes = Counter(node.name for node in nodes)
    turn: Counter[str] = Counter()
    layers = []
    for node in nodes:
        samples = durations[node.name][turn[node.name] :: namesakes[node.name]][-runs:]
        turn[node.name] += 1
        if samples:
            operator = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
            ms = float(trimmed_mean(samples, _DROPPED))
            made = (names.get(name, name) for name in node.output)
            outputs = tuple(dict.fromkeys((*made, *originals.get(node.name, ()))))
            layers.append(ProfiledLayer(node.name, operator, outputs, ms))
    return layers


def _layer(node: NodeProto) -> Layer:
    """The node as a layer, with the attributes that are text."""
    texts = {each.name: each.s.decode() for each in node.attribute if each.type == each.STRING}
    return Layer(node.op_type, tuple(node.input), tuple(node.output), texts, node.domain, node.name)
