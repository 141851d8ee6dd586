"""ONNX Runtime's sessions, and their options."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import onnxruntime as ort

from dlbricks_core.backends import Array, BackendSettings
from dlbricks_core.errors import UnsupportedError
from dlbricks_core.ir import CanonicalModel, TensorSpec, numpy_dtype
from dlbricks_core.ir.tensors import DTYPE_NUMBERS, is_aligned
from dlbricks_core.operators.table import operator
from dlbricks_onnxruntime.buffers import ThreadPool, aligned
from dlbricks_onnxruntime.messages import one_line

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto

QUIET = 4
"""ONNX Runtime's severity "fatal": errors arrive as exceptions."""

LEVELS = {
    "all": ort.GraphOptimizationLevel.ORT_ENABLE_ALL,
    "extended": ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    "basic": ort.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "off": ort.GraphOptimizationLevel.ORT_DISABLE_ALL,
}

INLINE_BYTES = 4096
"""Maximum bytes of a weight that is written into the model. Parameters are always written: ONNX
Runtime's shape inference reads them, and cannot see values that are passed in memory.
"""

_SHARED_BYTES = 2**28
"""Minimum bytes of a weight that a session reads in place. Otherwise a session copies it first, and
a weight of 4 GB takes 13 GB while it is packed. Kernels that pack weights read their own memory in
either case.
"""

#: Types of equal width for element types that numpy lacks: ONNX Runtime reinterprets their bits.
_BITS = {"bfloat16": np.uint16, "float8e4m3fn": np.uint8, "float8e4m3fnuz": np.uint8,
         "float8e5m2": np.uint8, "float8e5m2fnuz": np.uint8}  # fmt: skip


class Session(ort.InferenceSession):  # type: ignore[misc]
    """A session, and the memory of its weights.

    Attributes:
        weights: Memory that must live as long as the session.
    """

    weights: tuple[ort.OrtValue, ...] = ()


def create_session(
    model: CanonicalModel, weights: Mapping[str, Array], options: ort.SessionOptions
) -> Session:
    """A session for a model of any size.

    Large weights are passed in memory. Inside the model they would be copied five times, and
    protobuf is limited to 2 GB. Known parameters are written into the model.

    Args:
        model: Model in canonical form.
        weights: Values of the weights by name.
        options: Options of this session only: its weights become part of them.

    Raises:
        UnsupportedError: If ONNX Runtime has no kernel for a layer.
    """
    specs = model.tensors
    inline = parameters((e.qualified_op, e.inputs) for e in model.layers) & model.constants.keys()
    large = [n for n in sorted(model.weights) if n not in inline and is_large(specs[n])]
    proto = written(model, weights, frozenset(large))
    return session_of(proto, {name: (specs[name], weights[name]) for name in large}, options)


def written(
    model: CanonicalModel, weights: Mapping[str, Array], elsewhere: Collection[str] = ()
) -> ModelProto:
    """The model as an ONNX protobuf that ONNX Runtime optimizes without an error.

    When it turns an AveragePool into a quantized pooling, it keeps attributes that the quantized
    operator lacks, and then rejects its own graph. Dilations of one are left out for this reason,
    because they have no effect.

    Args:
        model: Model in canonical form.
        weights: Values of the weights by name.
        elsewhere: Weights that are only declared.
    """
    from dlbricks_core.ir import to_onnx  # imports onnx, which a user's own file does not need

    proto = to_onnx(model, weights, elsewhere)
    for node in proto.graph.node:
        if node.op_type == "AveragePool":
            kept = [a for a in node.attribute if a.name != "dilations" or set(a.ints) != {1}]
            del node.attribute[:]
            node.attribute.extend(kept)
    return proto


def session_of(
    proto: ModelProto,
    large: Mapping[str, tuple[TensorSpec, Array]],
    options: ort.SessionOptions,
) -> Session:
    """A session for a model whose large weights are only declared in it.

    Args:
        proto: The model.
        large: Type and values of these weights by name. Aligned arrays are used in place.
        options: Options of this session only.

    Raises:
        UnsupportedError: If ONNX Runtime has no kernel for a layer.
    """
    values = [
        value_of(spec, array if is_aligned(array) else aligned(array))
        for spec, array in large.values()
    ]
    if large:
        options.add_external_initializers(list(large), values)
    for (name, (spec, _)), value in zip(large.items(), values, strict=True):
        if spec.nbytes >= _SHARED_BYTES:
            options.add_initializer(name, value)
    session = open_session(proto.SerializeToString(), options)
    session.weights = tuple(values)
    return session


def open_session(model: bytes | str, options: ort.SessionOptions) -> Session:
    """A session for a serialized model, or for one in a file.

    Raises:
        UnsupportedError: If ONNX Runtime has no kernel for a layer.
    """
    try:
        return Session(model, options, ["CPUExecutionProvider"])
    except _UNSUPPORTED as error:
        raise UnsupportedError(f"ONNX Runtime: {one_line(error)}") from error


def is_large(spec: TensorSpec) -> bool:
    """Whether a weight should be passed in memory rather than written into a model.

    Types of less than a byte are always written: they are packed in ONNX but not in numpy.
    """
    known = spec.dtype in _BITS or numpy_dtype(spec.dtype).isbuiltin == 1
    return known and spec.dtype != "string" and spec.nbytes > INLINE_BYTES


def parameters(layers: Iterable[tuple[str, Iterable[str]]]) -> set[str]:
    """Tensors whose values ONNX Runtime may read before anything runs: sizes, axes, pads.

    Args:
        layers: Operator, with its domain in front, and inputs of each.
    """
    return {
        name
        for op, inputs in layers
        for position, name in enumerate(inputs)
        if position in operator(op).parameters
    }


def graph_parameters(graph: GraphProto) -> set[str]:
    """Tensors whose values ONNX Runtime may read before anything runs, in a graph that it wrote."""
    return parameters(
        (f"{n.domain}.{n.op_type}" if n.domain else n.op_type, n.input) for n in graph.node
    )


def session_options(settings: BackendSettings) -> ort.SessionOptions:
    """Options of a session that runs one operator at a time and logs nothing."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = settings.threads
    options.inter_op_num_threads = 1
    options.use_per_session_threads = ThreadPool.threads is None
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    options.graph_optimization_level = LEVELS[settings.options.get("optimizations", "all")]
    options.log_severity_level = QUIET
    if settings.as_used:
        return options
    # A session's own threads, if any, spin within a run, but not on into the next session's.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    options.add_session_config_entry("session.use_env_allocators", "1")
    return options


def unpacked(options: ort.SessionOptions) -> ort.SessionOptions:
    """Options of a session that is not timed and allocates no memory for large weights.

    Kernels do not pack them. The session does not reserve memory for all of them in advance, which
    the system refuses if the machine has less.
    """
    options.add_session_config_entry("session.disable_prepacking", "1")
    options.enable_mem_pattern = False
    return options


def without_optimizations(settings: BackendSettings) -> BackendSettings:
    """Settings for a graph that runs unchanged, without optimizations."""
    return replace(settings, options={**settings.options, "optimizations": "off"})


def value_of(spec: TensorSpec, array: Array) -> ort.OrtValue:
    """ONNX Runtime's view of an array, which shares its memory."""
    if spec.dtype in _BITS:
        return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(
            array.view(_BITS[spec.dtype]), DTYPE_NUMBERS[spec.dtype]
        )
    return ort.OrtValue.ortvalue_from_numpy(array)


_STATES = ort.capi.onnxruntime_pybind11_state
_UNSUPPORTED = (_STATES.NotImplemented, _STATES.InvalidGraph, _STATES.Fail)
"""Errors for a well-formed model with a layer that has no kernel. ``Fail`` comes from kernels that
reject attributes, and from operators in unknown domains.
"""
