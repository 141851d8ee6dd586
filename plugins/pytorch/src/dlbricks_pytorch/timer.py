"""The timer: loads and runs networks with torch."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch

from dlbricks_core.backends import (
    Array,
    BackendSettings,
    CpuTimer,
    Network,
    Opened,
    Profile,
    Timeline,
)
from dlbricks_core.bricks import cold_tensors
from dlbricks_core.errors import BackendError, UnsupportedError
from dlbricks_core.ir import CanonicalModel
from dlbricks_pytorch import deployed
from dlbricks_pytorch.loading import Loaded, placed_inputs, placed_weights
from dlbricks_pytorch.tensors import to_numpy


class PytorchTimer(CpuTimer[Loaded]):
    """Times networks on the CPU, in inference mode.

    Denormals are computed according to IEEE 754 (``torch.set_flush_denormal(False)``), which is
    torch's default. The values of inputs and weights are chosen to avoid them. Inference mode is
    entered once for the life of the timer, as a server would do, so that no sample includes its
    cost. It belongs to the thread that created the timer.
    """

    def __init__(self, settings: BackendSettings) -> None:
        self._settings = settings
        self._compile = settings.options.get("compile", "off")
        torch.set_num_threads(settings.threads)
        _set_interop_threads()
        torch.set_flush_denormal(False)
        self._mode = torch.inference_mode()
        self._mode.__enter__()

    def load(self, network: Network) -> Loaded:
        """Lowers the network, places weights and inputs, and compiles it if requested."""
        module = placed_weights(network, self._settings)
        inputs = placed_inputs(network.model, network.inputs, self._settings)
        loaded = self._ready(module, inputs, network.model.outputs)
        cold = cold_tensors(network.model)
        named = zip(network.model.inputs, inputs, strict=True)
        loaded.warmed = tuple(tensor for name, tensor in named if name not in cold)
        return loaded

    def open(
        self, model: CanonicalModel, inputs: Mapping[str, Array], profiled_runs: int
    ) -> Opened:
        """The user's own module, and the time of each operator that it calls."""
        from dlbricks_pytorch.users import open_module

        if self._compile != "off" or self._settings.options.get("memory_format") == "channels_last":
            raise UnsupportedError("the user's module runs with torch's defaults only")
        return open_module(model, inputs, profiled_runs)

    def save(self, network: Network, folder: Path) -> deployed.SavedModule:
        """Writes a class that computes the network, and a file of its weights."""
        return deployed.save(network, folder, self._settings, self._ready)

    def _ready(
        self,
        module: torch.nn.Module,
        inputs: tuple[torch.Tensor, ...],
        outputs: tuple[str, ...],
    ) -> Loaded:
        # The function instead of the module: hooks are unused, and a brick should not pay for them.
        call = module.forward
        if self._compile != "off":
            call = self._compiled(call, inputs)
        return Loaded(call, inputs, outputs)

    def run(self, loaded: Loaded) -> None:
        """Runs one inference to its end."""
        loaded.results = loaded.call(*loaded.inputs)

    def warm_io(self, loaded: Loaded) -> None:
        """Warms the memory for the results, then every byte of the inputs, with torch's threads.

        Every run allocates its results, which get the most recently freed memory.
        """
        torch.empty(loaded.result_bytes, dtype=torch.uint8).fill_(0)
        for tensor in loaded.warmed:
            _bytes_of(tensor).bitwise_or_(0)

    def release(self, loaded: Loaded) -> None:
        """Frees the results of the last run."""
        loaded.result_bytes = sum(r.untyped_storage().nbytes() for r in loaded.results)
        loaded.results = ()

    def outputs(self, loaded: Loaded) -> Mapping[str, Array]:
        """Results of the last run by name."""
        return {
            name: to_numpy(tensor)
            for name, tensor in zip(loaded.outputs, loaded.results, strict=True)
        }

    def profile(self, network: Network, runs: int) -> Profile:
        """Time of every layer, taken around its torch calls."""
        if self._compile != "off":
            raise UnsupportedError("a model that torch.compile compiled has no layers")

        from dlbricks_pytorch.profile import profile

        return profile(network, self._settings, runs)

    def timeline(self, network: Network) -> Timeline:
        """Timeline of torch's operators in one run, compiled or not, by its profiler."""
        from dlbricks_pytorch.profile import timeline

        loaded = self.load(network)
        try:
            return timeline(partial(self.run, loaded))
        finally:
            self.unload(loaded)

    def unload(self, loaded: Loaded) -> None:
        """Drops weights, inputs and results, and the compiled code."""
        loaded.results = loaded.inputs = loaded.warmed = ()
        loaded.call = _unloaded

    def close(self) -> None:
        """Leaves inference mode and forgets everything compiled."""
        if self._compile != "off":
            torch.compiler.reset()
        self._mode.__exit__(None, None, None)

    def _compiled(
        self, forward: Callable[..., Any], inputs: tuple[torch.Tensor, ...]
    ) -> Callable[..., tuple[torch.Tensor, ...]]:
        # The function, not the module: its code is the network's own, and torch limits how
        # often one and the same code is compiled.
        compiled = torch.compile(forward, mode=self._compile, dynamic=False, fullgraph=True)
        try:
            compiled(*inputs)
        except Exception as error:  # torch raises whatever its passes and the compiler raise
            raise BackendError(
                f"torch.compile failed: {str(error).strip().splitlines()[0]}",
                hint="Run without the option compile.",
            ) from error
        return compiled


def _unloaded(*_: torch.Tensor) -> tuple[torch.Tensor, ...]:
    raise BackendError("the network was unloaded")


def _set_interop_threads() -> None:
    if torch.get_num_interop_threads() == 1:
        return
    try:
        torch.set_num_interop_threads(1)
    except RuntimeError:  # torch allows this once, and only before its first parallel work
        warnings.warn("torch was in use already: its inter-op threads stay as they are",
                      RuntimeWarning, stacklevel=2)  # fmt: skip


def _bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    """Memory of a tensor as bytes, whatever its layout and element type."""
    return torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())
