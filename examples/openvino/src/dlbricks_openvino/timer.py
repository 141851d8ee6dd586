"""Loads and runs networks with OpenVINO."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import openvino

from dlbricks_core.backends import Array, BackendSettings, CpuTimer, Network
from dlbricks_core.bricks import cold_tensors
from dlbricks_core.errors import UnsupportedError
from dlbricks_core.ir import TensorSpec, numpy_dtype
from dlbricks_core.ir.tensors import aligned_empty
from dlbricks_openvino.check import is_refusal, narrowed, unsupported
from dlbricks_openvino.compiling import compiled


@dataclass
class Place:
    """Memory of one tensor.

    Attributes:
        memory: Array in memory order, which OpenVINO reads or writes.
        values: View of the array in the model's order of axes.
    """

    memory: Array
    values: Array

    @classmethod
    def of(cls, spec: TensorSpec) -> Place:
        """Memory for a tensor, with the channels along the last axis if it has a layout."""
        dtype = numpy_dtype(spec.dtype)
        if not spec.layout:
            memory = aligned_empty(spec.sizes, dtype)
            return cls(memory, memory)
        batch, channels, *others = spec.sizes
        memory = aligned_empty((batch, *others, channels), dtype)
        return cls(memory, np.moveaxis(memory, -1, 1))

    def tensor(self, port: openvino.Output) -> openvino.Tensor:
        """The memory as an OpenVINO tensor, in the shape of a port, without a copy."""
        return openvino.Tensor(self.memory.reshape(port.shape), shared_memory=True)


@dataclass
class Loaded:
    """A network with memory for its inputs and outputs, by name.

    Attributes:
        request: Inference request of the network.
        inputs: Memory of its inputs.
        outputs: Memory of its outputs.
        warmed: Memory to warm before a timed run: outputs, then inputs.
        before: Network that runs before each run of this one.
    """

    request: openvino.InferRequest
    inputs: Mapping[str, Place]
    outputs: Mapping[str, Place]
    warmed: Sequence[Place]
    before: Loaded | None = None


class OpenvinoTimer(CpuTimer[Loaded]):
    """Times networks with OpenVINO's CPU plugin; runs are synchronous."""

    def __init__(self, settings: BackendSettings) -> None:
        self._settings = settings

    def load(self, network: Network) -> Loaded:
        """Compiles the network and binds memory to it."""
        return self._bound(network, {name: _placed(network, name) for name in network.inputs})

    def load_copy(self, network: Network, loaded: Loaded, *, private_cache_bytes: int) -> Loaded:
        """Compiles a copy that reads the other network's inputs, but for those that stay cold.

        The other network runs before its copy: OpenVINO keeps code and intermediate results for
        each network, and in a model that runs repeatedly both are warm. The copy then displaces the
        network's weights from the cores' private caches. Bricks with weights beyond these are an
        exception: a run would leave their weights in the shared cache, from which the other layers
        of a large model displace them. So are bricks with tensors that are to stay cold.
        """
        cold = cold_tensors(network.model)
        own = {name: _placed(network, name) for name in network.inputs if name in cold}
        copy = self._bound(network, {**loaded.inputs, **own})
        small = not private_cache_bytes or network.model.weight_bytes <= private_cache_bytes
        if small and not cold:
            copy.before = loaded
        return copy

    def _bound(self, network: Network, inputs: Mapping[str, Place]) -> Loaded:
        model = network.model
        request = self._compiled(network).create_infer_request()
        for position, port in enumerate(request.model_inputs):  # without unused outputs
            request.set_input_tensor(position, inputs[port.get_any_name()].tensor(port))
        outputs = {}
        for position, name in enumerate(model.outputs):
            if name in inputs:  # OpenVINO would read the input from the memory of the output
                outputs[name] = inputs[name]
                continue
            outputs[name] = Place.of(model.tensors[name])
            request.set_output_tensor(
                position, outputs[name].tensor(request.model_outputs[position])
            )
        cold = cold_tensors(model)
        places = {**outputs, **inputs}
        warmed = tuple(place for name, place in places.items() if name not in cold)
        return Loaded(request, inputs, outputs, warmed)

    def _compiled(self, network: Network) -> openvino.CompiledModel:
        _refuse(narrowed(network.model))
        try:
            return compiled(network, self._settings)
        except RuntimeError as error:
            if is_refusal(error):
                _refuse(unsupported(network.model))
            raise

    def run(self, loaded: Loaded) -> None:
        """One inference, in this thread."""
        if loaded.before:
            self.run(loaded.before)
        loaded.request.infer(None, share_inputs=True, share_outputs=True)

    def warm_io(self, loaded: Loaded) -> None:
        """Writes the outputs, then the inputs onto themselves."""
        for place in loaded.warmed:
            memory = place.memory.reshape(-1).view(np.uint8)
            np.bitwise_or(memory, 0, out=memory)

    def outputs(self, loaded: Loaded) -> Mapping[str, Array]:
        """Copies of the outputs."""
        return {name: np.array(place.values, order="C") for name, place in loaded.outputs.items()}


def _placed(network: Network, name: str) -> Place:
    """Memory of an input, with its value."""
    place = Place.of(network.model.tensors[name])
    np.copyto(place.values, network.inputs[name])
    return place


def _refuse(reasons: Mapping[int, str]) -> None:
    if reasons:
        raise UnsupportedError("; ".join(dict.fromkeys(reasons.values())))
