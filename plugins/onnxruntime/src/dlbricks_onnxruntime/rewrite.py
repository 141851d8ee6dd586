"""The graph that ONNX Runtime executes in place of a model: fused, and in blocked layout."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

import onnx
import onnxruntime as ort
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from dlbricks_core.backends import BackendSettings
from dlbricks_core.bricks import native
from dlbricks_core.ir import Array, CanonicalModel, TensorSpec, dtype_name, read_model
from dlbricks_core.ir.functions import subgraphs
from dlbricks_core.ir.tensors import DTYPE_NAMES, DTYPE_NUMBERS
from dlbricks_core.operators.table import MOST_SIZES
from dlbricks_core.values import materialize
from dlbricks_onnxruntime.origins import in_order, named, restored
from dlbricks_onnxruntime.sessions import (
    INLINE_BYTES,
    graph_parameters,
    is_large,
    open_session,
    session_options,
    unpacked,
    without_optimizations,
    written,
)


def rewrite(model: CanonicalModel, settings: BackendSettings, seed: int) -> CanonicalModel:
    """Graph that ONNX Runtime optimizes a model into, to be run without further optimizations.

    ONNX Runtime saves its optimized graph. Large weights are zeros in it, because no result depends
    on them, and drawing, folding and saving them would take far longer.

    Args:
        model: Model in canonical form, without opaque layers.
        settings: Settings with the option ``optimizations``.
        seed: Seed of small weights and of inputs. Their values only affect folding.
    """
    large = frozenset(
        name
        for name in model.weights
        if name not in model.constants and is_large(model.tensors[name])
    )
    model = named(model)
    network = materialize(model, seed, without=large)
    with tempfile.TemporaryDirectory(prefix="dlbricks-") as folder:
        path = Path(folder) / "rewritten.onnx"
        proto = written(model, network.weights, large)
        proto = _optimized(proto, path, settings, large)
        values = _complete(proto, path, network.inputs, settings)
        made = read_model(
            proto, name=model.name, source=model.source, base_dir=path.parent, zeros=True
        )
        made = restored(in_order(made), model)
    computed = {name: value for name, value in values.items() if _may_be_size(_spec_of(value))}
    known = {**computed, **made.constants, **_parameters(proto, large)}
    return native(made, "onnxruntime", known)


def _parameters(proto: ModelProto, unknown: Collection[str]) -> dict[str, Array]:
    """Values of the graph's parameters of any length, which are part of a brick's identity."""
    names = graph_parameters(proto.graph).difference(unknown)
    return {
        tensor.name: numpy_helper.to_array(tensor)
        for tensor in proto.graph.initializer
        if tensor.name in names
    }


def _optimized(
    proto: ModelProto, path: Path, settings: BackendSettings, unknown: Collection[str]
) -> ModelProto:
    """The graph that a session saves at this path, with zeros for large weights again.

    Known parameters keep their values.
    """
    options = unpacked(session_options(settings))
    options.optimized_model_filepath = str(path)
    _share_zeros(proto, path.parent)
    _open(proto, path.with_name("model.onnx"), options)
    found = onnx.load(path, load_external_data=False)
    kept = graph_parameters(found.graph).difference(unknown)
    for tensor in found.graph.initializer:
        large = tensor.data_type in _FLOATS and len(tensor.raw_data) > INLINE_BYTES
        if large and tensor.name not in kept:
            tensor.ClearField("raw_data")
            tensor.data_location = TensorProto.EXTERNAL
    _share_zeros(found, path.parent)
    return found


#: Large folded integers may be indices, so they are kept.
_FLOATS = {DTYPE_NUMBERS[name] for name in ("bfloat16", "float16", "float32", "float64")}


def _open(proto: ModelProto, path: Path, options: ort.SessionOptions) -> ort.InferenceSession:
    """A session for a model that is saved first, because its external weights are files."""
    onnx.save(proto, path)
    return open_session(str(path), options)


def _share_zeros(proto: ModelProto, folder: Path) -> None:
    """Points all external weights of a model to one file of zeros, which takes no space on disk."""
    external = [t for t in proto.graph.initializer if t.data_location == TensorProto.EXTERNAL]
    largest = max(map(_zeros, external), default=0)
    with (folder / _ZEROS).open("wb") as file:
        file.truncate(largest)


_ZEROS = "zeros"


def _zeros(tensor: TensorProto) -> int:
    """Points a weight to the beginning of the file of zeros. Returns its size in bytes."""
    spec = TensorSpec(DTYPE_NAMES[tensor.data_type], tuple(tensor.dims))
    del tensor.external_data[:]
    for key, value in ("location", _ZEROS), ("offset", "0"), ("length", str(spec.nbytes)):
        tensor.external_data.add(key=key, value=value)
    return spec.nbytes


def _complete(
    proto: ModelProto, path: Path, inputs: Mapping[str, Array], settings: BackendSettings
) -> dict[str, Array]:
    """Writes type and shape of every tensor into the graph.

    Returns:
        Results that may be sizes, or whose shapes it took a run to know: ONNX Runtime infers most
        shapes, and all of them in models that compute no sizes.
    """
    graph = proto.graph
    names = list(dict.fromkeys(name for node in graph.node for name in node.output if name))
    unoptimized = without_optimizations(settings)
    session = _open(_with_outputs(proto, names), path, unpacked(session_options(unoptimized)))
    specs = {output.name: _inferred(output) for output in session.get_outputs()}
    asked = [n for n, spec in specs.items() if not spec.is_static or _may_be_size(spec)]
    values = {}
    if asked:
        session = _open(_part(proto, asked), path, unpacked(session_options(unoptimized)))
        values = dict(zip(asked, session.run(asked, dict(inputs)), strict=True))
        specs |= {name: _spec_of(value) for name, value in values.items()}
    del graph.value_info[:]
    graph.value_info.extend(
        helper.make_tensor_value_info(name, DTYPE_NUMBERS[spec.dtype], spec.sizes)
        for name, spec in specs.items()
    )
    return values


def _with_outputs(proto: ModelProto, names: Iterable[str]) -> ModelProto:
    """A copy of a model with other outputs."""
    copy = ModelProto()
    copy.CopyFrom(proto)
    del copy.graph.output[:]
    copy.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in names)
    return copy


def _part(proto: ModelProto, names: Collection[str]) -> ModelProto:
    """The layers that some results depend on. The weights of others are neither read nor mapped."""
    part = _with_outputs(proto, names)
    needed = set(names)
    kept = []
    for node in reversed(proto.graph.node):
        if not needed.isdisjoint(node.output):
            needed.update(_reads(node))
            kept.append(node)
    del part.graph.node[:], part.graph.initializer[:]
    part.graph.node.extend(reversed(kept))
    part.graph.initializer.extend(w for w in proto.graph.initializer if w.name in needed)
    return part


def _reads(node: NodeProto) -> Iterator[str]:
    """Tensors that a node reads, and all that layers of its subgraphs read."""
    yield from node.input
    for graph in subgraphs(node):
        yield from (value.name for value in graph.output)
        for inner in graph.node:
            yield from _reads(inner)


def _inferred(output: ort.NodeArg) -> TensorSpec:
    """Type and shape of a result that ONNX Runtime infers without a run."""
    kind = output.type.removeprefix("tensor(").removesuffix(")")
    number = TensorProto.DataType.Value(kind.upper())
    # An unknown shape looks the same as that of a single number.
    return TensorSpec(DTYPE_NAMES[number], tuple(output.shape) or None)


def _spec_of(value: Array) -> TensorSpec:
    return TensorSpec(dtype_name(value.dtype), value.shape)


def _may_be_size(spec: TensorSpec) -> bool:
    """Whether a result may be a shape, or an input of a shape's computation."""
    return spec.dtype == "int64" and spec.rank < 2 and math.prod(spec.sizes) <= MOST_SIZES
