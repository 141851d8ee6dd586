"""From networks in canonical form to compiled models with memory for their inputs and outputs."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import openvino
from dlbricks_contrib.expand import Expanded, expanded

from dlbricks_core.backends import Array, BackendSettings, Network
from dlbricks_core.bricks import cold_tensors
from dlbricks_core.ir import CanonicalModel, TensorSpec, numpy_dtype, to_onnx
from dlbricks_core.ir.tensors import aligned_empty
from dlbricks_openvino.ends import channels_last
from dlbricks_openvino.settings import core, properties
from dlbricks_openvino.stacks import small_stacks

KNOWN = frozenset({"com.microsoft.MatMulNBits"})
"""Operators of ONNX Runtime that OpenVINO runs as they are. It has kernels for weights of four bits
only where it sees such an operator. Of the others it runs the definitions.
"""

_UNLIKE_NUMPY = {"bfloat16": (np.uint16, openvino.Type.bf16)}
"""Types of equal width, and OpenVINO's, for element types that it does not know from numpy."""


def defined(model: CanonicalModel) -> Expanded:
    """The model with definitions of the operators that OpenVINO does not run as they are."""
    return expanded(model, KNOWN)


def read(network: Network) -> openvino.Model:
    """OpenVINO's own graph of a network, before it is compiled.

    Args:
        network: Network in canonical form, of operators that OpenVINO knows.
    """
    return core().read_model(to_onnx(network.model, network.weights).SerializeToString())


def compiled(network: Network, settings: BackendSettings) -> openvino.CompiledModel:
    """Compiles a network for the CPU.

    A network that is run by ``infer`` computes in the thread that calls it. One stream for each
    network then costs nothing: all take turns in the same thread, as the layers of a model do.

    Args:
        network: Network in canonical form, with the layouts of ``TensorSpec.layout``.
        settings: Threads and options.

    Raises:
        RuntimeError: If OpenVINO cannot compile it: it has one type of error for all reasons.
    """
    plain = defined(network.model).network(network)
    graph = channels_last(read(plain), network.model)
    with small_stacks():
        return core().compile_model(graph, "CPU", properties(network.model, settings))


def other_shape(ready: openvino.CompiledModel, model: CanonicalModel) -> str:
    """Why results of a compiled model have other shapes than the model's; empty if they do not."""
    for name, port in zip(model.outputs, ready.outputs, strict=True):
        spec, shape = model.tensors[name], port.partial_shape
        if shape.is_dynamic:
            return f"OpenVINO does not know the shape of {name} before it runs"
        if tuple(port.shape) != spec.sizes and not spec.layout:
            return f"OpenVINO computes {name} in the shape {[*port.shape]}"
    return ""


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
        memory = self.memory.reshape(port.shape)
        if memory.dtype.name in _UNLIKE_NUMPY:
            bits, element = _UNLIKE_NUMPY[memory.dtype.name]
            return openvino.Tensor(memory.view(bits), port.shape, element)
        return openvino.Tensor(memory, shared_memory=True)


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

    def infer(self) -> None:
        """One inference in this thread, on the bound memory."""
        self.request.infer(None, share_inputs=True, share_outputs=True)


def placed(model: CanonicalModel, inputs: Mapping[str, Array], name: str) -> Place:
    """Memory of an input, with its value."""
    place = Place.of(model.tensors[name])
    np.copyto(place.values, inputs[name])
    return place


def name_of(port: openvino.ConstOutput, names: Container[str]) -> str:
    """Known name of an input; a copy of the input in the model adds further names.

    Raises:
        KeyError: If none is known.
    """
    for name in port.get_names():
        if name in names:
            return str(name)
    raise KeyError(port.get_any_name())


def bound(
    ready: openvino.CompiledModel, model: CanonicalModel, inputs: Mapping[str, Place]
) -> Loaded:
    """Binds memory to the inputs and outputs of a compiled model."""
    request = ready.create_infer_request()
    for position, port in enumerate(request.model_inputs):
        request.set_input_tensor(position, inputs[name_of(port, inputs)].tensor(port))
    outputs = {}
    for position, name in enumerate(model.outputs):
        if name in inputs:  # OpenVINO would read the input from the memory of the output
            outputs[name] = inputs[name]
            continue
        outputs[name] = Place.of(model.tensors[name])
        request.set_output_tensor(position, outputs[name].tensor(request.model_outputs[position]))
    cold = cold_tensors(model)
    places = {**outputs, **inputs}
    warmed = tuple(place for name, place in places.items() if name not in cold)
    return Loaded(request, inputs, outputs, warmed)
