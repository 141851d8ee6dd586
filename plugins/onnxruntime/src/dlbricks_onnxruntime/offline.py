"""Sessions of models that ONNX Runtime has optimized beforehand (its offline mode)."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

import onnx
from onnx import numpy_helper

from dlbricks_core.backends import Array, BackendSettings
from dlbricks_core.ir import CanonicalModel, TensorSpec
from dlbricks_core.ir.onnx_writer import declared
from dlbricks_core.ir.tensors import DTYPE_NAMES
from dlbricks_onnxruntime.sessions import (
    Session,
    create_session,
    graph_parameters,
    is_large,
    session_of,
    session_options,
    unpacked,
    without_optimizations,
)

WORTH_IT = 64_000_000
"""Most bytes of weights of a model that is optimized beforehand. Reading more takes a hundred
times as long as the optimization saves."""


def create_optimized(
    model: CanonicalModel, weights: Mapping[str, Array], settings: BackendSettings
) -> Session:
    """A session of the graph that ONNX Runtime makes of a model.

    What a session changes in its graph while it is made lies scattered in memory. A model
    of some tenths of a millisecond takes 5 to 15% longer for that when it is cold, and next to
    nothing in a loop. Sessions of bricks, which change nothing, do not pay for it.

    Args:
        model: Model in canonical form, with less than 2 GB of weights (protobuf's limit).
        weights: Values of the weights by name.
        settings: Settings with the option ``optimizations``.

    Raises:
        UnsupportedError: If ONNX Runtime has no kernel for a layer.
    """
    options = unpacked(session_options(settings))
    with tempfile.TemporaryDirectory(prefix="dlbricks-") as folder:
        path = Path(folder) / "optimized.onnx"
        options.optimized_model_filepath = str(path)
        create_session(model, weights, options)
        proto = onnx.load(path)
    taken = {}
    inline = graph_parameters(proto.graph)
    for tensor in proto.graph.initializer:
        spec = TensorSpec(DTYPE_NAMES[tensor.data_type], tuple(tensor.dims))
        if tensor.name not in inline and is_large(spec):
            taken[tensor.name] = spec, numpy_helper.to_array(tensor)
            tensor.CopyFrom(declared(tensor.name, spec))
    return session_of(proto, taken, session_options(without_optimizations(settings)))
