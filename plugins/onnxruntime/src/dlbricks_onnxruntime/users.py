"""Models as ONNX Runtime's users run them: a session for a file, and ``session.run``."""

from __future__ import annotations

import json
import re
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import onnxruntime as ort

from dlbricks_core.backends import (
    Array,
    BackendSettings,
    Opened,
    Profile,
    ProfiledLayer,
    Watch,
    page_faults,
    timed_ms,
)
from dlbricks_core.errors import UnsupportedError
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.machine.system import physical_cores_available
from dlbricks_onnxruntime.sessions import LEVELS, QUIET, open_session

_KERNEL = "_kernel_time"
_RUN = "model_run"

_MOST_PROFILED = 20
_ENOUGH_MS = 5.0
"""Most profiled runs of a short model, and the milliseconds that they take together at least: the
profiler's times are whole microseconds."""

_MARKS = re.compile(r"^fused |(_bn)?_nchwc$|_token_\d+$|/(\w*Fusion\w*|\w*_fusion)/?$")
"""Additions of ONNX Runtime to the name of a layer, or of its result, for a layer of its own."""


def open_file(
    model: CanonicalModel,
    inputs: Mapping[str, Array],
    settings: BackendSettings,
    profiled_runs: int,
) -> Opened:
    """A session for the model's file.

    Profiling ends before the session returns, so later runs are those of any session.

    Args:
        model: The imported file.
        inputs: Value of each input by name.
        settings: Threads and optimizations.
        profiled_runs: Runs that are profiled, after a first one.
    """
    options = ort.SessionOptions()
    options.intra_op_num_threads = settings.threads
    options.log_severity_level = QUIET
    options.graph_optimization_level = LEVELS[settings.options.get("optimizations", "all")]
    with tempfile.TemporaryDirectory(prefix="dlbricks-") as folder:
        options.enable_profiling = profiled_runs > 0
        options.profile_file_prefix = str(Path(folder) / "profile")
        session = open_session(model.source, options)
        run = partial(session.run, None, _fed(session, inputs))
        if not profiled_runs:
            return Opened(run)
        first_ms = timed_ms(run)
        begin, known = perf_counter(), page_faults()
        further = _further_runs(run, profiled_runs)
        for _ in range(further):
            run()
        faults = (page_faults() - known) / (1 + further)
        events = json.loads(Path(session.end_profiling()).read_text(encoding="utf-8"))
        profile = _profile(model, events)
        return Opened(run, profile, perf_counter() - begin, first_ms, faults)


def _fed(session: ort.InferenceSession, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Values of the session's inputs.

    Raises:
        UnsupportedError: If the imported model lacks one of them.
    """
    names = [each.name for each in session.get_inputs()]
    if lacking := [name for name in names if name not in inputs]:
        raise UnsupportedError(f"the import has no input {lacking[0]!r}, which the file has")
    return {name: inputs[name] for name in names}


def _further_runs(run: partial[Any], fewest: int) -> int:
    """Further runs to profile, after one that is timed."""
    taken_ms = max(timed_ms(run), 1e-3)
    return min(max(fewest - 1, round(_ENOUGH_MS / taken_ms) - 1, 0), _MOST_PROFILED)


def _profile(model: CanonicalModel, events: Iterable[Mapping[str, Any]]) -> Profile:
    """Times of the executed layers, each with the tensor of the model that it computes."""
    runs = [each for each in events if each["name"] == _RUN]
    begins = sorted(each["ts"] for each in runs)[1:]
    durations: dict[tuple[str, str], list[float]] = defaultdict(list)
    for event in events:
        if event.get("cat") != "Node" or not event["name"].endswith(_KERNEL):
            continue
        if event["ts"] >= begins[0]:
            key = event["name"].removesuffix(_KERNEL), event["args"].get("op_name", "")
            durations[key].append(event["dur"] / 1e3)
    outputs = {layer.name: layer.outputs for layer in model.layers if layer.name}
    layers = [
        ProfiledLayer(name, operator, _computed(name, outputs, model), _of_a_run(ms, len(begins)))
        for (name, operator), ms in durations.items()
    ]
    return Profile(layers, float(np.median([each["dur"] for each in runs[1:]])) / 1e3)


def _of_a_run(ms: Sequence[float], runs: int) -> float:
    """Time of the layers of one name in a run: the median over runs, in milliseconds."""
    if len(ms) % runs:
        return sum(ms) / runs
    return float(np.median(np.reshape(ms, (runs, -1)).sum(axis=1)))


def _computed(
    name: str, outputs: Mapping[str, tuple[str, ...]], model: CanonicalModel
) -> tuple[str, ...]:
    """Tensors of the model that an executed layer computes; empty if its name tells none.

    A new layer is named after a layer that it stands for, or after that layer's result.
    """
    while True:
        if name in outputs:
            return outputs[name]
        if name in model.producers:
            return (name,)
        shorter = _MARKS.sub("", name)
        if shorter == name:
            return ()
        name = shorter


def watch(target: object) -> AbstractContextManager[Watch] | None:
    """A context that times ``run`` of a session; ``None`` for anything else."""
    return _watched(target) if isinstance(target, ort.InferenceSession) else None


@contextmanager
def _watched(session: ort.InferenceSession) -> Iterator[Watch]:
    threads = session.get_session_options().intra_op_num_threads
    seen = Watch(threads or physical_cores_available())
    run = session.run

    def timed(names: Any, feeds: Mapping[str, Array], *more: Any) -> Any:
        begin = perf_counter()
        results = run(names, feeds, *more)
        seen.samples_ms.append((perf_counter() - begin) * 1e3)
        seen.shapes = {name: np.shape(value) for name, value in feeds.items()}
        return results

    session.run = timed
    try:
        yield seen
    finally:
        del session.run
    import onnx  # only programs of users need it here

    # A session made of bytes has no path; both are where the session itself keeps them.
    path, data = session._model_path, session._model_bytes
    seen.source = path if path else onnx.load_from_string(data)
