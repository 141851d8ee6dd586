"""From networks in canonical form to OpenVINO's compiled models."""

from __future__ import annotations

from functools import cache

import openvino

from dlbricks_core.backends import BackendSettings, Network
from dlbricks_core.ir import to_onnx
from dlbricks_openvino.ends import channels_last


@cache
def core() -> openvino.Core:
    """OpenVINO's core object, one in each process."""
    return openvino.Core()


def compiled(network: Network, settings: BackendSettings) -> openvino.CompiledModel:
    """Compiles a network for the CPU.

    Args:
        network: Network in canonical form, with the layouts of ``TensorSpec.layout``.
        settings: Number of threads.

    Raises:
        RuntimeError: If OpenVINO cannot compile it: it has one type of error for all reasons.
    """
    model = network.model
    graph = core().read_model(to_onnx(model, network.weights).SerializeToString())
    # A network that is run by ``infer`` computes in the thread that calls it. One stream for each
    # network then costs nothing: all take turns in the same thread, as the layers of a model do.
    return core().compile_model(
        channels_last(graph, model),
        "CPU",
        {
            "INFERENCE_NUM_THREADS": settings.threads,
            "NUM_STREAMS": 1,
            "INFERENCE_PRECISION_HINT": "f32",
            "ENABLE_CPU_PINNING": False,
        },
    )
