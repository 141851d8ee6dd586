"""From networks in canonical form to OpenVINO's compiled models."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import openvino
from openvino.preprocess import PrePostProcessor

from dlbricks_core.backends import BackendSettings, Network
from dlbricks_core.ir import CanonicalModel, to_onnx

LAST = "acdb"
"""OpenVINO's name of the layout with channels along the last axis."""

_GIVEN, _KEPT = openvino.Layout("NCHW"), openvino.Layout("NHWC")


def is_last(model: CanonicalModel, name: str) -> bool:
    """Whether a tensor has its channels along the last axis."""
    return model.tensors[name].layout == LAST


def positions(ports: Sequence[openvino.Output]) -> dict[str, int]:
    """Position of each input of OpenVINO's, by its name; it drops inputs that nobody reads."""
    return {name: position for position, port in enumerate(ports) for name in port.get_names()}


@cache
def core() -> openvino.Core:
    """OpenVINO's entry to everything; one a process."""
    return openvino.Core()


def compiled(network: Network, settings: BackendSettings) -> openvino.CompiledModel:
    """Compiles a network for the CPU.

    Inputs and outputs with the layout ``LAST`` are read and written as the layers of a model hand
    them on. OpenVINO then leaves out the conversion that it else inserts at either end.

    Args:
        network: In canonical form; layouts are those of :attr:`TensorSpec.layout`.
        settings: Number of threads.

    Raises:
        RuntimeError: If OpenVINO cannot compile it: it has one type of error for all reasons.
    """
    model = network.model
    graph = core().read_model(to_onnx(model, network.weights).SerializeToString())
    ends = PrePostProcessor(graph)
    inputs = positions(graph.inputs)
    placed = [
        ends.input(inputs[name]) for name in model.inputs if is_last(model, name) and name in inputs
    ]
    placed += [ends.output(i) for i, name in enumerate(model.outputs) if is_last(model, name)]
    for end in placed:
        end.tensor().set_layout(_KEPT)
        end.model().set_layout(_GIVEN)
    # A network that is run by ``infer`` computes in the thread that calls it. One stream for each
    # network then costs nothing: all take turns in the same thread, as the layers of a model do.
    return core().compile_model(
        ends.build(),
        "CPU",
        {
            "INFERENCE_NUM_THREADS": settings.threads,
            "NUM_STREAMS": 1,
            "INFERENCE_PRECISION_HINT": "f32",
            "ENABLE_CPU_PINNING": False,
        },
    )
