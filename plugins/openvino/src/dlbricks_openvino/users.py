"""Models as OpenVINO's users run them: a file, compiled and called."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from time import perf_counter

import openvino

from dlbricks_core.backends import Array, BackendSettings, Opened
from dlbricks_core.errors import UnsupportedError
from dlbricks_core.ir import CanonicalModel
from dlbricks_openvino.executed import number
from dlbricks_openvino.files import is_own
from dlbricks_openvino.files.reading import read_named
from dlbricks_openvino.loading import name_of
from dlbricks_openvino.messages import one_line
from dlbricks_openvino.profile import Counters
from dlbricks_openvino.settings import core, properties

_MOST_PROFILED = 20
_ENOUGH_MS = 5.0
"""Most profiled runs of a short model, and the milliseconds that they take together at least:
OpenVINO's counters have whole microseconds."""


def open_file(
    model: CanonicalModel,
    inputs: Mapping[str, Array],
    settings: BackendSettings,
    profiled_runs: int,
) -> Opened:
    """The model's file, compiled for the shapes of the import.

    A user who knows the shapes gives them to OpenVINO, as its guides recommend. Profiling of layers
    has no measurable cost, so one model is profiled and timed.

    Args:
        model: The imported file.
        inputs: Value of each input by name.
        settings: Threads and options.
        profiled_runs: Runs that are profiled, after a first one.

    Raises:
        UnsupportedError: If the import lacks an input of the file, or OpenVINO cannot compile it.
    """
    wanted = {**properties(model, settings), "PERF_COUNT": profiled_runs > 0}
    try:
        graph = _read(model.source)
        fed = _fed(graph, inputs)
        if graph.is_dynamic():
            graph.reshape({name: value.shape for name, value in fed.items()})
        number(graph, model)
        ready = core().compile_model(graph, "CPU", wanted)
    except RuntimeError as error:
        raise UnsupportedError(f"OpenVINO cannot run {model.source}: {one_line(error)}") from error
    run = partial(ready, fed)
    if not profiled_runs:
        return Opened(run)
    run()
    begin, counters = perf_counter(), Counters(ready, runs=1)
    fewest = round(_ENOUGH_MS / max(counters.timed(run), 1e-3))
    for _ in range(min(max(profiled_runs, fewest), _MOST_PROFILED) - 1):
        counters.timed(run)
    return Opened(run, counters.profile(model), perf_counter() - begin)


def _read(source: str) -> openvino.Model:
    """OpenVINO's graph of a file, whose tensors have the names of the import."""
    return read_named(source) if is_own(source) else core().read_model(source)


def _fed(graph: openvino.Model, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Values of the file's inputs.

    Raises:
        UnsupportedError: If the imported model lacks one of them.
    """
    try:
        names = [name_of(port, inputs) for port in graph.inputs]
    except KeyError as error:
        (name,) = error.args
        raise UnsupportedError(f"the import has no input {name!r}, which the file has") from error
    return {name: inputs[name] for name in names}
