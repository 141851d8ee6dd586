"""ONNX Runtime's sessions, and their options."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnx import GraphProto, ModelProto

from dlbricks_core.backends import Array, BackendSettings
from dlbricks_core.errors import UnsupportedError
from dlbricks_core.ir import CanonicalModel, TensorSpec, numpy_dtype, to_onnx
from dlbricks_core.ir.parameters import PARAMETER_INPUTS
from dlbricks_core.ir.tensors import DTYPE_NUMBERS, is_aligned
from dlbricks_onnxruntime.buffers import ThreadPool, aligned
from dlbricks_onnxruntime.messages import one_line

QUIET = 4
"""ONNX Runtime's severity "fatal": errors arrive as exceptions."""

_LEVELS = {
    "all": ort.GraphOptimizationLevel.ORT_ENABLE_ALL,
    "extended": ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    "basic": ort.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "off": ort.GraphOptimizationLevel.ORT_DISABLE_ALL,
}

INLINE_BYTES = 4096
"""Size up to which a weight is written into the model, in bytes. Parameters are always written:
ONNX Runtime's shape inference reads them, and finds no values that are handed over in memory."""

_MOST_INSIDE = 2**31 - 2**24
"""Bytes of weights up to which a model is one file: protobuf takes no more than 2 GB."""

_SHARED_BYTES = 2**28
"""Bytes from which a session reads a weight where it was given. It otherwise makes a copy first,
and a weight of 4 GB takes 13 GB while it is packed. Kernels that pack weights read their own memory
in either case."""

#: Types of the same width for element types that numpy lacks: ONNX Runtime takes their bits.
_BITS = {"bfloat16": np.uint16, "float8e4m3fn": np.uint8, "float8e4m3fnuz": np.uint8,
         "float8e5m2": np.uint8, "float8e5m2fnuz": np.uint8}  # fmt: skip


class Session(ort.InferenceSession):  # type: ignore[misc]
    """A session, and the memory of the weights that it was given.

    Attributes:
        weights: Memory that must live as long as the session.
    """

    weights: tuple[ort.OrtValue, ...] = ()


def create_session(
    model: CanonicalModel, weights: Mapping[str, Array], options: ort.SessionOptions
) -> Session:
    """A session for a model of any size.

    Large weights are handed over in memory. Written into the model they would be copied
    five times, and protobuf takes no more than 2 GB. Known parameters are written into it.

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

    Where it makes a quantized pooling of an AveragePool, it keeps attributes that the quantized
    operator does not have, and refuses its own graph. Dilations of one say nothing.

    Args:
        model: Model in canonical form.
        weights: Values of the weights by name.
        elsewhere: Weights that are only declared.
    """
    proto = to_onnx(model, weights, elsewhere)
    for node in proto.graph.node:
        if node.op_type == "AveragePool":
            kept = [a for a in node.attribute if a.name != "dilations" or set(a.ints) != {1}]
            del node.attribute[:]
            node.attribute.extend(kept)
    return proto


def write(model: CanonicalModel, weights: Mapping[str, Array], folder: Path) -> Path:
    """Writes a model as an ONNX file, with its weights in a second one where they are too large.

    Args:
        model: Model in canonical form.
        weights: Values of the weights by name.
        folder: Where the files go.
    """
    path = folder / "model.onnx"
    apart = model.weight_bytes > _MOST_INSIDE
    onnx.save(written(model, weights), path, save_as_external_data=apart, location="weights")
    return path


def session_of(
    proto: ModelProto,
    large: Mapping[str, tuple[TensorSpec, Array]],
    options: ort.SessionOptions,
) -> Session:
    """A session for a model whose large weights are only declared in it.

    Args:
        proto: The model.
        large: Type and values of these weights by name; aligned ones are used where they are.
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
    """Whether a weight is better not written into a model.

    Types of less than a byte always are: they are packed in ONNX and not in numpy.
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
        for operator, inputs in layers
        for position, name in enumerate(inputs)
        if position in PARAMETER_INPUTS.get(operator, ())
    }


def graph_parameters(graph: GraphProto) -> set[str]:
    """Tensors whose values ONNX Runtime may read before anything runs, in a graph that it wrote."""
    return parameters(
        (f"{n.domain}.{n.op_type}" if n.domain else n.op_type, n.input) for n in graph.node
    )


def session_options(settings: BackendSettings) -> ort.SessionOptions:
    """Options of a session that computes one operator at a time and logs nothing."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = settings.threads
    options.inter_op_num_threads = 1
    options.use_per_session_threads = ThreadPool.threads is None
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    options.graph_optimization_level = _LEVELS[settings.options.get("optimizations", "all")]
    options.log_severity_level = QUIET
    # Threads of its own, if it has any, spin within a run, not on into the next session's.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    options.add_session_config_entry("session.use_env_allocators", "1")
    return options


def unpacked(options: ort.SessionOptions) -> ort.SessionOptions:
    """The options for a session that is not timed: it takes no memory for large weights.

    Kernels do not reorder them, and no room for all of them together is asked for beforehand, which
    the system refuses if it is more than the machine has.
    """
    options.add_session_config_entry("session.disable_prepacking", "1")
    options.enable_mem_pattern = False
    return options


def without_optimizations(settings: BackendSettings) -> BackendSettings:
    """The same settings for a graph that is to run just as it stands."""
    return replace(settings, options={**settings.options, "optimizations": "off"})


def value_of(spec: TensorSpec, array: Array) -> ort.OrtValue:
    """ONNX Runtime's view of an array; it works on the same memory."""
    if spec.dtype in _BITS:
        return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(
            array.view(_BITS[spec.dtype]), DTYPE_NUMBERS[spec.dtype]
        )
    return ort.OrtValue.ortvalue_from_numpy(array)


_STATES = ort.capi.onnxruntime_pybind11_state
_UNSUPPORTED = (_STATES.NotImplemented, _STATES.InvalidGraph, _STATES.Fail)
"""Answers to a model that is well-formed, but has a layer without a kernel. ``Fail`` is that of
kernels that refuse attributes, and of operators in unknown domains."""
