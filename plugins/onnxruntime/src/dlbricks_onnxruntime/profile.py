"""Time of each layer of a whole model, from ONNX Runtime's own profiler."""

from __future__ import annotations

import json
import tempfile
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter_ns

import numpy as np
import onnx
from onnx import NodeProto

from dlbricks_core.backends import WARMUP_RUNS, BackendSettings, Network, Profile, ProfiledLayer
from dlbricks_core.figures.statistics import trimmed_mean
from dlbricks_core.ir import CanonicalModel, Layer
from dlbricks_onnxruntime.loading import allocate, bind
from dlbricks_onnxruntime.origins import named, origins, restored_names
from dlbricks_onnxruntime.sessions import create_session, session_options

_SUFFIX = "_kernel_time"
_WEIGHTS_FILE = "session.optimized_model_external_initializers_file_name"


def profile(network: Network, settings: BackendSettings, runs: int) -> Profile:
    """Time of every node of the graph that ONNX Runtime makes of a model.

    Args:
        network: The network with the tensor names that ``rewrite`` receives.
        settings: Threads and optimizations.
        runs: Number of runs that count.
    """
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
        latencies = []
        for _ in range(WARMUP_RUNS + runs):
            begin = perf_counter_ns()
            session.run_with_iobinding(loaded.binding)
            latencies.append((perf_counter_ns() - begin) / 1e6)
        trace = json.loads(Path(session.end_profiling()).read_text(encoding="utf-8"))
    durations: dict[str, list[float]] = defaultdict(list)
    for event in trace:
        if event["cat"] == "Node" and event["name"].endswith(_SUFFIX):
            durations[event["name"].removesuffix(_SUFFIX)].append(event["dur"] / 1e3)
    layers = _layers(nodes, model, durations, runs)
    return Profile(layers, float(np.median(latencies[-runs:])))


def _layers(
    nodes: Sequence[NodeProto], model: CanonicalModel, durations: dict[str, list[float]], runs: int
) -> list[ProfiledLayer]:
    """Times of the nodes that the trace names; nodes that share a name take turns in it.

    The trace has whole microseconds: a mean over the runs' middle resolves more of a short
    layer than their median.
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
            ms = float(trimmed_mean(samples, 0.25))
            made = (names.get(name, name) for name in node.output)
            outputs = tuple(dict.fromkeys((*made, *originals.get(node.name, ()))))
            layers.append(ProfiledLayer(node.name, operator, outputs, ms))
    return layers


def _layer(node: NodeProto) -> Layer:
    """The node as a layer, with the attributes that are text."""
    texts = {each.name: each.s.decode() for each in node.attribute if each.type == each.STRING}
    return Layer(node.op_type, tuple(node.input), tuple(node.output), texts, node.domain, node.name)
