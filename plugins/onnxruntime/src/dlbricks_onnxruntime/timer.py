"""The timer: loads and runs networks with ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnxruntime as ort

from dlbricks_core.backends import (
    Array,
    BackendSettings,
    CpuTimer,
    Network,
    Opened,
    Profile,
    Timeline,
)
from dlbricks_core.bricks import cold_tensors, native_to
from dlbricks_core.errors import UnsupportedError
from dlbricks_core.ir import CanonicalModel
from dlbricks_onnxruntime.buffers import ThreadPool, aligned, places, share_arena
from dlbricks_onnxruntime.limits import refusal
from dlbricks_onnxruntime.loading import (
    Loaded,
    allocate,
    bind,
    handed_on,
    share_caches,
)
from dlbricks_onnxruntime.sessions import (
    QUIET,
    create_session,
    session_options,
    without_optimizations,
)

if TYPE_CHECKING:
    from dlbricks_onnxruntime.deployed import SavedModel


class OnnxruntimeTimer(CpuTimer[Loaded]):
    """Times networks on the CPU execution provider; runs are synchronous."""

    def __init__(self, settings: BackendSettings) -> None:
        ort.set_default_logger_severity(QUIET)
        if not settings.as_used:
            # They import onnx. Later it would count as the memory of a network.
            from dlbricks_onnxruntime import deployed, offline  # noqa: F401

            ThreadPool.share(settings.threads)
            share_arena()
        self._settings = settings

    def load(self, network: Network) -> Loaded:
        """Builds a session and binds memory for every input and output."""
        model = network.model
        for layer in model.layers:
            reason = refusal(model, layer)
            if reason:
                raise UnsupportedError(reason)
        shared = places(model) if native_to(model) else {}
        arrays = allocate(network, shared)
        loaded = self._bound(network, arrays)
        left = {*shared, *cold_tensors(model)}
        kept = (name for name in (*model.outputs, *model.inputs) if name not in left)
        loaded.warmed = tuple(_bytes_of(arrays[name]) for name in dict.fromkeys(kept))
        written_over = set(shared.values()).intersection(model.inputs)
        loaded.pristine = {name: arrays[name].copy() for name in written_over}
        return loaded

    def open(
        self, model: CanonicalModel, inputs: Mapping[str, Array], profiled_runs: int
    ) -> Opened:
        """A session for the user's file, with ONNX Runtime's own defaults."""
        from dlbricks_onnxruntime.users import open_file

        return open_file(model, inputs, self._settings, profiled_runs)

    def load_copy(self, network: Network, loaded: Loaded, *, private_cache_bytes: int) -> Loaded:
        """Builds a session on the memory of the other network, which its runs keep in the caches.

        If the other graph was optimized beforehand, both run the same graph. It only matters that
        the copy's weights have other addresses. So must tensors that are to stay cold.
        """
        cold = cold_tensors(network.model) & loaded.arrays.keys()
        arrays = {**loaded.arrays, **{name: aligned(loaded.arrays[name]) for name in cold}}
        share_caches(network.model, arrays)
        if loaded.graph is None:
            return self._bound(network, arrays)
        return bind(loaded.graph.session(self._settings), network.model, arrays)

    def _bound(self, network: Network, arrays: Mapping[str, Array]) -> Loaded:
        """A session whose outputs are all results with an array."""
        from dlbricks_onnxruntime.offline import WORTH_IT, optimized

        model, settings = network.model, self._settings
        complete = replace(model, outputs=handed_on(model, arrays))
        if native_to(model):  # Layers created by ONNX Runtime itself must not be optimized again.
            settings = without_optimizations(settings)
        elif model.weight_bytes < WORTH_IT:
            graph = optimized(complete, network.weights, settings)
            return bind(graph.session(settings), model, arrays, graph)
        session = create_session(complete, network.weights, session_options(settings))
        return bind(session, model, arrays)

    def save(self, network: Network, folder: Path) -> SavedModel:
        """Writes an ONNX file."""
        from dlbricks_onnxruntime.deployed import save

        return save(network, folder, self._settings)

    def run(self, loaded: Loaded) -> None:
        """Runs one inference to its end."""
        loaded.session.run_with_iobinding(loaded.binding)

    def warm_io(self, loaded: Loaded) -> None:
        """Writes every result, then every input, onto itself, from a single core.

        If each core wrote the part that it then reads, bricks would be too fast with several
        threads: in a model, the previous layer divides its work differently.
        """
        for name, values in loaded.pristine.items():
            np.copyto(loaded.arrays[name], values)
        for memory in loaded.warmed:
            np.bitwise_or(memory, 0, out=memory)

    def outputs(self, loaded: Loaded) -> Mapping[str, Array]:
        """Results of the last run by name."""
        names, arrays = loaded.model.outputs, loaded.arrays
        if not arrays.keys() >= set(names):  # ONNX Runtime allocated them
            return dict(zip(names, loaded.binding.copy_outputs_to_cpu(), strict=True))
        return {name: arrays[name].copy() for name in names}

    def profile(self, network: Network, runs: int) -> Profile:
        """Time of every node that ONNX Runtime executes, from its profiler."""
        from dlbricks_onnxruntime.profile import profile

        return profile(network, self._settings, runs)

    def timeline(self, network: Network) -> Timeline:
        """Activity of each thread in one run, from ONNX Runtime's profiler."""
        from dlbricks_onnxruntime.profile import timeline

        return timeline(network, self._settings)

    def unload(self, loaded: Loaded) -> None:
        """Drops the session and its memory."""
        loaded.binding.clear_binding_inputs()
        loaded.binding.clear_binding_outputs()
        loaded.warmed = ()
        loaded.pristine = {}
        loaded.arrays = {}
        loaded.graph = None
        del loaded.binding, loaded.session


def _bytes_of(array: Array) -> Array:
    """Memory of an array as bytes; empty if the array holds texts."""
    if array.dtype.hasobject:
        return np.empty(0, dtype=np.uint8)
    return array.reshape(-1).view(np.uint8)
