"""Loads and runs networks with ONNX Runtime; the shared timer interface."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import onnxruntime as ort
from onnx import ModelProto

from dlbricks_core.backends import Array, BackendSettings, CpuTimer, Network, Profile
from dlbricks_core.errors import UnsupportedError
from dlbricks_core.ir import Model, TensorSpec, numpy_dtype, save_onnx, to_onnx
from dlbricks_core.ir.tensors import DTYPE_NUMBERS
from dlbricks_onnxruntime.buffers import ThreadPool, aligned, places, share_arena
from dlbricks_onnxruntime.limits import refusal
from dlbricks_onnxruntime.warming import Warmer

_LEVELS = {
    "all": ort.GraphOptimizationLevel.ORT_ENABLE_ALL,
    "extended": ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    "basic": ort.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "off": ort.GraphOptimizationLevel.ORT_DISABLE_ALL,
}
_MAX_INLINE_BYTES = 1_900_000_000
#: Types that numpy lacks: ONNX Runtime takes their bits.
_BITS = {"bfloat16": np.uint16, "float8e4m3fn": np.uint8, "float8e4m3fnuz": np.uint8,
         "float8e5m2": np.uint8, "float8e5m2fnuz": np.uint8}  # fmt: skip
_QUIET = 4  # ONNX Runtime's severity "fatal": errors arrive as exceptions


@dataclass
class Loaded:
    """A session with its inputs and outputs bound to arrays of ours.

    An output that is an input is the same array: ONNX Runtime never writes such outputs.

    Attributes:
        model: What it runs.
        arrays: Memory of inputs, outputs, and what shares it with one of them, by name.
        pristine: What inputs held before a result took their place.
        warm: What brings results and then inputs into the caches.
    """

    session: ort.InferenceSession
    binding: ort.IOBinding
    model: Model
    arrays: dict[str, Array]
    pristine: Mapping[str, Array] = field(default_factory=dict)
    warm: Sequence[ort.IOBinding] = ()


class OnnxruntimeTimer(CpuTimer[Loaded]):
    """Times networks on the CPU execution provider; runs are synchronous."""

    def __init__(self, settings: BackendSettings) -> None:
        ort.set_default_logger_severity(_QUIET)
        ThreadPool.share(settings.threads)
        share_arena()
        self._settings = settings
        self._warmer = Warmer(session_options(settings))

    def load(self, network: Network) -> Loaded:
        """Builds a session and binds memory for every input and output."""
        model = network.model
        for layer in model.layers:
            reason = refusal(model, layer)
            if reason:
                raise UnsupportedError(reason)
        shared = places(model) if model.executed else {}
        arrays = allocate(network, shared)
        loaded = bind(self._session(network, arrays), model, arrays)
        kept = (name for name in (*model.outputs, *model.inputs) if name not in shared)
        loaded.warm = self._warmer.bindings(arrays[name] for name in dict.fromkeys(kept))
        written_over = set(shared.values()).intersection(model.inputs)
        loaded.pristine = {name: arrays[name].copy() for name in written_over}
        return loaded

    def load_copy(self, network: Network, loaded: Loaded) -> Loaded:
        """Builds a session on the other's memory, which its runs keep in the caches."""
        return bind(self._session(network, loaded.arrays), network.model, loaded.arrays)

    def _session(self, network: Network, arrays: Mapping[str, Array]) -> ort.InferenceSession:
        """A session that hands on whatever has an array."""
        model = network.model
        # Layers that ONNX Runtime itself made are not to be rewritten again.
        settings = without_optimizations(self._settings) if model.executed else self._settings
        handed_on = replace(model, outputs=_handed_on(model, arrays))
        return create_session(to_onnx(handed_on, network.weights), session_options(settings))

    def run(self, loaded: Loaded) -> None:
        """Runs one inference to its end."""
        loaded.session.run_with_iobinding(loaded.binding)

    def synchronize(self, loaded: Loaded) -> None:
        """Nothing is left to wait for: the CPU provider's runs are synchronous."""

    def touch(self, loaded: Loaded) -> None:
        """Writes every result, then every input onto itself."""
        for name in loaded.model.inputs:
            array = loaded.arrays[name]
            if name in loaded.pristine:
                np.copyto(array, loaded.pristine[name])
            elif array.dtype != np.float32:
                np.copyto(array, array.copy())
        self._warmer.warm(loaded.warm)

    def outputs(self, loaded: Loaded) -> Mapping[str, Array]:
        """Results of the last run by name."""
        return {name: loaded.arrays[name].copy() for name in loaded.model.outputs}

    def profile(self, network: Network, runs: int) -> Profile:
        """What ONNX Runtime's profiler says of every node that it executes."""
        from dlbricks_onnxruntime.profile import profile

        return profile(network, self._settings, runs)

    def unload(self, loaded: Loaded) -> None:
        """Drops the session with all that it holds."""
        loaded.binding.clear_binding_inputs()
        loaded.binding.clear_binding_outputs()
        loaded.warm = ()
        loaded.pristine = {}
        loaded.arrays = {}
        del loaded.binding, loaded.session

    def close(self) -> None:
        """Sessions own everything; nothing is left to free."""


def allocate(network: Network, shared: Mapping[str, str]) -> dict[str, Array]:
    """Memory for every input and result of a network, with the inputs' values.

    Args:
        network: With its inputs' values.
        shared: Which of its tensors take whose place; see :func:`places`.
    """
    model = network.model
    arrays = {name: aligned(network.inputs[name]) for name in model.inputs}
    for name in model.outputs:
        if name not in arrays and name not in shared:
            spec = model.tensors[name]
            arrays[name] = aligned(np.zeros(spec.sizes, dtype=numpy_dtype(spec.dtype)))
    for name, place in shared.items():
        arrays[name] = arrays[place].reshape(model.tensors[name].sizes)
    return arrays


def bind(session: ort.InferenceSession, model: Model, arrays: Mapping[str, Array]) -> Loaded:
    """Binds arrays to a session: the model's inputs, and what it hands on."""
    binding = session.io_binding()
    for name in model.inputs:
        binding.bind_ortvalue_input(name, _value(model.tensors[name], arrays[name]))
    for name in _handed_on(model, arrays):
        binding.bind_ortvalue_output(name, _value(model.tensors[name], arrays[name]))
    return Loaded(session, binding, model, dict(arrays))


def _handed_on(model: Model, arrays: Mapping[str, Array]) -> tuple[str, ...]:
    """The model's outputs, and results in its middle that have an array."""
    others = (name for name in arrays if name not in model.inputs)
    return tuple(dict.fromkeys((*model.outputs, *others)))


def without_optimizations(settings: BackendSettings) -> BackendSettings:
    """The same settings for a graph that is to run just as it stands."""
    return replace(settings, options={**settings.options, "optimizations": "off"})


def session_options(settings: BackendSettings) -> ort.SessionOptions:
    """One operator at a time, on so many threads, as quiet as possible."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = settings.threads
    options.inter_op_num_threads = 1
    options.use_per_session_threads = ThreadPool.threads is None
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    options.graph_optimization_level = _LEVELS[settings.options.get("optimizations", "all")]
    options.log_severity_level = _QUIET
    # Threads of its own, if it has any, spin within a run, not on into the next session's.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    options.add_session_config_entry("session.use_env_allocators", "1")
    return options


def create_session(proto: ModelProto, options: ort.SessionOptions) -> ort.InferenceSession:
    """A session for a model of any size.

    Raises:
        UnsupportedError: If ONNX Runtime has no kernel for a layer.
    """
    providers = ["CPUExecutionProvider"]
    try:
        if proto.ByteSize() < _MAX_INLINE_BYTES:
            return ort.InferenceSession(proto.SerializeToString(), options, providers)
        with tempfile.TemporaryDirectory(prefix="dlbricks-") as folder:
            path = Path(folder) / "model.onnx"
            save_onnx(proto, path)
            return ort.InferenceSession(str(path), options, providers)
    except _UNSUPPORTED as error:
        raise UnsupportedError(f"ONNX Runtime: {_reason(error)}") from error


_STATES = ort.capi.onnxruntime_pybind11_state
_UNSUPPORTED = (_STATES.NotImplemented, _STATES.InvalidGraph, _STATES.Fail, _STATES.InvalidArgument)


def _reason(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text.partition(" : ")[2].partition(" : ")[2] or text


def _value(spec: TensorSpec, array: Array) -> ort.OrtValue:
    """The array for ONNX Runtime, which works on its memory; no copy is made."""
    if spec.dtype in _BITS:
        return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(
            array.view(_BITS[spec.dtype]), DTYPE_NUMBERS[spec.dtype]
        )
    return ort.OrtValue.ortvalue_from_numpy(array)
