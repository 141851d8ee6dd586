"""The timer: loads and runs networks with ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime as ort

from dlbricks_core.backends import Array, BackendSettings, CpuTimer, Network, Profile, Timeline
from dlbricks_core.bricks import native_to
from dlbricks_core.errors import UnsupportedError
from dlbricks_onnxruntime.buffers import ThreadPool, aligned, places, share_arena
from dlbricks_onnxruntime.limits import refusal
from dlbricks_onnxruntime.loading import Loaded, allocate, bind, handed_on
from dlbricks_onnxruntime.offline import WORTH_IT, create_optimized
from dlbricks_onnxruntime.sessions import (
    QUIET,
    create_session,
    open_session,
    session_options,
    without_optimizations,
    write,
)


class OnnxruntimeTimer(CpuTimer[Loaded]):
    """Times networks on the CPU execution provider; runs are synchronous."""

    def __init__(self, settings: BackendSettings) -> None:
        ort.set_default_logger_severity(QUIET)
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
        loaded = bind(self._session(network, arrays), model, arrays)
        kept = (name for name in (*model.outputs, *model.inputs) if name not in shared)
        loaded.warmed = tuple(_bytes_of(arrays[name]) for name in dict.fromkeys(kept))
        written_over = set(shared.values()).intersection(model.inputs)
        loaded.pristine = {name: arrays[name].copy() for name in written_over}
        return loaded

    def save(self, network: Network, folder: Path) -> Callable[[], Loaded]:
        """Writes an ONNX file; a session on it is what users of ONNX Runtime make.

        Its arena is its own: in one that is shared it would find what earlier sessions left. Every
        run allocates its results.
        """
        model, inputs = network.model, network.inputs
        path = write(model, network.weights, folder)
        settings = without_optimizations(self._settings) if native_to(model) else self._settings

        def load() -> Loaded:
            options = session_options(settings)
            options.add_session_config_entry("session.use_env_allocators", "0")
            session = open_session(str(path), options)
            return bind(session, model, {name: aligned(inputs[name]) for name in model.inputs})

        return load

    def load_copy(self, network: Network, loaded: Loaded, *, private_cache_bytes: int) -> Loaded:
        """Builds a session on the other network's memory, which its runs keep in the caches."""
        return bind(self._session(network, loaded.arrays), network.model, loaded.arrays)

    def _session(self, network: Network, arrays: Mapping[str, Array]) -> ort.InferenceSession:
        """A session whose outputs are all results that have an array."""
        model, settings = network.model, self._settings
        complete = replace(model, outputs=handed_on(model, arrays))
        if native_to(model):  # Layers that ONNX Runtime itself made are not to be rewritten again.
            settings = without_optimizations(settings)
        elif model.weight_bytes < WORTH_IT:
            return create_optimized(complete, network.weights, settings)
        return create_session(complete, network.weights, session_options(settings))

    def run(self, loaded: Loaded) -> None:
        """Runs one inference to its end."""
        loaded.session.run_with_iobinding(loaded.binding)

    def warm_io(self, loaded: Loaded) -> None:
        """Writes every result, then every input onto itself.

        All of it from one core. Where each core wrote the part that it then reads, bricks came
        out too fast with several threads: in a model, the layer before shared its work out in
        another way.
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
        """What each thread does in one run, from ONNX Runtime's profiler."""
        from dlbricks_onnxruntime.profile import timeline

        return timeline(network, self._settings)

    def unload(self, loaded: Loaded) -> None:
        """Drops the session with all that it holds."""
        loaded.binding.clear_binding_inputs()
        loaded.binding.clear_binding_outputs()
        loaded.warmed = ()
        loaded.pristine = {}
        loaded.arrays = {}
        del loaded.binding, loaded.session


def _bytes_of(array: Array) -> Array:
    """Memory of an array as bytes; empty if the array holds texts."""
    if array.dtype.hasobject:
        return np.empty(0, dtype=np.uint8)
    return array.reshape(-1).view(np.uint8)
