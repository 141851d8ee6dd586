"""Loads and runs networks with OpenVINO."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import openvino

from dlbricks_core.backends import Array, BackendSettings, CpuTimer, Network
from dlbricks_core.errors import BackendError, UnsupportedError
from dlbricks_core.ir import numpy_dtype
from dlbricks_core.ir.tensors import aligned_empty
from dlbricks_openvino.check import narrowed, one_line, unsupported
from dlbricks_openvino.compiling import LAST, compiled


@dataclass
class Loaded:
    """A network with memory for its inputs and outputs.

    Attributes:
        request: The compiled network, bound to that memory.
        inputs: Memory of the inputs, by position, in the layout that the network reads.
        outputs: Memory of the outputs by name, seen in the model's order of axes.
        warmed: Memory of outputs, then of inputs, as bytes.
    """

    request: openvino.InferRequest
    inputs: list[Array]
    outputs: dict[str, Array]
    warmed: list[Array]


class OpenvinoTimer(CpuTimer[Loaded]):
    """Times networks with OpenVINO's CPU plugin; runs are synchronous."""

    def __init__(self, settings: BackendSettings) -> None:
        self._settings = settings

    def load(self, network: Network) -> Loaded:
        """Compiles the network and binds memory to it."""
        inputs = [_placed(network, name) for name in network.model.inputs]
        return self._bound(network, inputs)

    def load_copy(self, network: Network, loaded: Loaded, *, private_cache_bytes: int) -> Loaded:
        """Compiles a copy that reads the other network's inputs."""
        return self._bound(network, loaded.inputs)

    def _bound(self, network: Network, inputs: list[Array]) -> Loaded:
        model = network.model
        request = self._compiled(network).create_infer_request()
        for position, memory in enumerate(inputs):
            request.set_input_tensor(position, openvino.Tensor(memory, shared_memory=True))
        outputs = {}
        for position, name in enumerate(model.outputs):
            spec = model.tensors[name]
            last = spec.layout == LAST
            sizes = _channels_last(spec.sizes) if last else spec.sizes
            memory = aligned_empty(sizes, numpy_dtype(spec.dtype))
            request.set_output_tensor(position, openvino.Tensor(memory, shared_memory=True))
            outputs[name] = np.moveaxis(memory, -1, 1) if last else memory
        return Loaded(request, inputs, outputs, [*map(_bytes, outputs.values()), *map(_bytes, inputs)])

    def _compiled(self, network: Network) -> openvino.CompiledModel:
        _refuse(narrowed(network.model))
        try:
            return compiled(network, self._settings)
        except RuntimeError as error:
            _refuse(unsupported(network.model))
            raise BackendError(f"OpenVINO: {one_line(error)}") from error

    def run(self, loaded: Loaded) -> None:
        """One inference, in this thread."""
        loaded.request.infer(None, share_inputs=True, share_outputs=True)

    def warm_io(self, loaded: Loaded) -> None:
        """Writes every output, then every input onto itself."""
        for memory in loaded.warmed:
            np.bitwise_or(memory, 0, out=memory)

    def outputs(self, loaded: Loaded) -> Mapping[str, Array]:
        """Copies of the outputs' memory."""
        return {name: np.array(memory, order="C") for name, memory in loaded.outputs.items()}


def _refuse(reasons: Mapping[int, str]) -> None:
    if reasons:
        raise UnsupportedError("; ".join(dict.fromkeys(reasons.values())))


def _placed(network: Network, name: str) -> Array:
    """A copy of an input in the layout that the network reads."""
    value = network.inputs[name]
    if network.model.tensors[name].layout == LAST:
        value = np.moveaxis(value, 1, -1)
    memory = aligned_empty(value.shape, value.dtype)
    np.copyto(memory, value)
    return memory


def _channels_last(sizes: tuple[int, ...]) -> tuple[int, ...]:
    return (sizes[0], *sizes[2:], sizes[1])


def _bytes(array: Array) -> Array:
    """The memory of an array, whatever the order of its axes."""
    base = array if array.flags.c_contiguous else np.moveaxis(array, 1, -1)
    return base.reshape(-1).view(np.uint8)
