"""Sessions of models that were optimized beforehand (ONNX Runtime's offline mode)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

import onnx
from onnx import ModelProto, numpy_helper

from dlbricks_core.backends import Array, BackendSettings
from dlbricks_core.ir import CanonicalModel, TensorSpec
from dlbricks_core.ir.onnx_writer import declared
from dlbricks_core.ir.tensors import DTYPE_NAMES
from dlbricks_onnxruntime.buffers import aligned
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
"""Maximum bytes of weights of a model that is optimized beforehand. Reading more takes a hundred
times the time that it saves.
"""


@dataclass(frozen=True)
class Optimized:
    """The optimized graph of a model, from which any number of sessions can be created.

    Attributes:
        proto: The graph. Its large weights are only declared.
        weights: Type and values of these weights by name.
    """

    proto: ModelProto
    weights: Mapping[str, tuple[TensorSpec, Array]]

    def session(self, settings: BackendSettings) -> Session:
        """A new session with its own copy of the weights."""
        return session_of(
            self.proto, self.weights, session_options(without_optimizations(settings))
        )


def optimized(
    model: CanonicalModel, weights: Mapping[str, Array], settings: BackendSettings
) -> Optimized:
    """The graph that ONNX Runtime optimizes a model into.

    The changes that a session makes to its graph during its creation are scattered in memory. With
    cold caches, a model of some tenths of a millisecond then takes 5 to 15% longer, but hardly
    longer in a loop. Sessions of bricks, which change nothing, lack this cost.

    Args:
        model: Model in canonical form, with less than 2 GB of weights (protobuf's limit).
        weights: Values of the weights by name.
        settings: Settings with the option ``optimizations``.

    Raises:
        UnsupportedError: If ONNX Runtime has no kernel for a layer.
    """
    options = unpacked(session_options(settings))
    # The file is in memory: creating and deleting one on a disk takes as long as the optimization.
    file = os.memfd_create("dlbricks-optimized")
    try:
        options.optimized_model_filepath = f"/proc/self/fd/{file}"
        create_session(model, weights, options)
        proto = onnx.load_from_string(os.pread(file, os.fstat(file).st_size, 0))
    finally:
        os.close(file)
    taken = {}
    inline = graph_parameters(proto.graph)
    for tensor in proto.graph.initializer:
        spec = TensorSpec(DTYPE_NAMES[tensor.data_type], tuple(tensor.dims))
        if tensor.name not in inline and is_large(spec):
            taken[tensor.name] = spec, aligned(numpy_helper.to_array(tensor))
            tensor.CopyFrom(declared(tensor.name, spec))
    return Optimized(proto, taken)
