"""ONNX protobuf to a raw :class:`Model`, without reading weights.

"Raw" means as the producer wrote it: any opset, dynamic dimensions allowed. The
passes turn it into the canonical form that the engine works on.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import onnx
import onnx.inliner
from onnx import (
    GraphProto,
    ModelProto,
    NodeProto,
    SparseTensorProto,
    TensorProto,
    ValueInfoProto,
    numpy_helper,
)
from onnx.external_data_helper import ExternalDataInfo

from dlbricks_core.errors import ModelError
from dlbricks_core.ir.attributes import read_attributes
from dlbricks_core.ir.model import Layer, Model
from dlbricks_core.ir.tensors import DTYPE_NAMES, Dim, TensorSpec

#: Values of initializers up to this many elements are kept: shapes, axes, pads and what
#: they are computed from are smaller, weights that take memory are larger.
MAX_CONSTANT_ELEMENTS = 4096

_OLDEST_OPSET = 7

#: What exporters write for "any size": dimensions of that name are not the same for it.
_NO_NAMES = frozenset({"", "?", "*", "-1", "None"})


def read_model(
    proto: ModelProto, *, name: str, source: str = "", base_dir: Path | None = None
) -> Model:
    """Lowers an ONNX model into a raw IR model.

    Args:
        proto: Loaded with ``load_external_data=False`` where it has external data.
        name: What to call the model.
        source: Where it came from, for people.
        base_dir: Folder that external data is relative to.

    Raises:
        ModelError: If the model is not valid or its opset is out of range.
    """
    opsets = {opset.domain if opset.domain != "ai.onnx" else "": opset.version
              for opset in proto.opset_import}  # fmt: skip
    _check_opset(opsets, name)
    if proto.functions:
        proto = onnx.inliner.inline_local_functions(proto)
    graph = proto.graph
    tensors: dict[str, TensorSpec] = {}
    constants: dict[str, np.ndarray[Any, Any]] = {}
    for value in (*graph.value_info, *graph.output, *graph.input):
        tensors[value.name] = _spec(value)
    weights = {tensor.name: tensor for tensor in graph.initializer}
    sparse_weights = {tensor.values.name: tensor for tensor in graph.sparse_initializer}
    nodes = []
    for node in graph.node:
        if node.op_type == "Constant" and node.domain in ("", "ai.onnx"):
            _read_constant(node, weights, sparse_weights)
        else:
            nodes.append(node)
    for weight_name, tensor in weights.items():
        tensors[weight_name] = TensorSpec(DTYPE_NAMES[tensor.data_type], tuple(tensor.dims))
        value = _small_value(tensor, base_dir, name)
        if value is not None:
            constants[weight_name] = value
    for weight_name, sparse in sparse_weights.items():
        tensors[weight_name] = TensorSpec(DTYPE_NAMES[sparse.values.data_type], tuple(sparse.dims))
    weight_names = frozenset((*weights, *sparse_weights))
    layers = [_layer(node) for node in nodes]
    inputs = tuple(value.name for value in graph.input if value.name not in weight_names)
    layers = _sorted(layers, {*inputs, *weight_names}, name)
    for layer in layers:
        for out in layer.outputs:
            if out:
                tensors.setdefault(out, TensorSpec("undefined", None))
    outputs = tuple(value.name for value in graph.output)
    missing = [out for out in outputs if out not in tensors]
    if missing:
        raise ModelError(f"{name}: output {missing[0]!r} is produced by no layer")
    return Model(
        name=name,
        layers=tuple(layers),
        inputs=inputs,
        outputs=outputs,
        tensors=tensors,
        weights=weight_names,
        constants=constants,
        opsets=opsets,
        source=source,
    )


def _check_opset(opsets: Mapping[str, int], name: str) -> None:
    newest = onnx.defs.onnx_opset_version()
    version = opsets.get("")
    if version is None and opsets:
        return  # only custom operators; the passes report each of them by name
    if version is None or not _OLDEST_OPSET <= version <= newest:
        raise ModelError(
            f"{name}: opset {version} is outside of the supported range "
            f"{_OLDEST_OPSET} to {newest}",
            hint="Export the model again with a newer opset, or convert it with "
            "onnx.version_converter.",
        )


def _layer(node: NodeProto) -> Layer:
    attributes = read_attributes(node)
    return Layer(
        op=node.op_type,
        inputs=tuple(node.input),
        outputs=tuple(node.output),
        attributes=attributes,
        domain="" if node.domain == "ai.onnx" else node.domain,
        name=node.name,
        captures=tuple(dict.fromkeys(_captures(node))),
    )


def _captures(node: NodeProto) -> Iterable[str]:
    for attribute in node.attribute:
        for graph in [attribute.g] if attribute.HasField("g") else attribute.graphs:
            yield from _free_names(graph)


def _free_names(graph: GraphProto) -> Iterable[str]:
    defined = {value.name for value in (*graph.input, *graph.initializer)}
    for node in graph.node:
        for name in (*node.input, *_captures(node)):
            if name and name not in defined:
                yield name
        defined.update(node.output)
    for value in graph.output:
        if value.name not in defined:
            yield value.name


def _spec(value: ValueInfoProto) -> TensorSpec:
    kind = value.type.WhichOneof("value")
    if kind != "tensor_type":
        return TensorSpec("undefined", None)
    tensor = value.type.tensor_type
    shape = tuple(_dim(dim) for dim in tensor.shape.dim) if tensor.HasField("shape") else None
    return TensorSpec(DTYPE_NAMES.get(tensor.elem_type, "undefined"), shape)


def _dim(dim: Any) -> Dim:
    kind = dim.WhichOneof("value")
    if kind == "dim_value":
        # Some exporters write 0 or -1 for "any size".
        return int(dim.dim_value) if dim.dim_value > 0 else None
    return dim.dim_param if kind == "dim_param" and dim.dim_param not in _NO_NAMES else None


def _read_constant(
    node: NodeProto,
    weights: dict[str, TensorProto],
    sparse: dict[str, SparseTensorProto],
) -> None:
    """Takes a ``Constant`` node for the initializer that it is."""
    attribute = node.attribute[0]
    out = node.output[0]
    if attribute.name == "value":
        weights[out] = attribute.t
        return
    if attribute.name == "sparse_value":
        sparse[out] = attribute.sparse_tensor
        return
    value = onnx.helper.get_attribute_value(attribute)
    kinds = {"value_float": np.float32, "value_floats": np.float32, "value_int": np.int64,
             "value_ints": np.int64, "value_string": object, "value_strings": object}  # fmt: skip
    weights[out] = numpy_helper.from_array(np.array(value, dtype=kinds[attribute.name]))


def _small_value(
    tensor: TensorProto, base_dir: Path | None, model: str
) -> np.ndarray[Any, Any] | None:
    if math.prod(tensor.dims) > MAX_CONSTANT_ELEMENTS:
        return None
    if tensor.data_location != TensorProto.EXTERNAL:
        return numpy_helper.to_array(tensor)
    info = ExternalDataInfo(tensor)
    path = (base_dir or Path()) / info.location
    try:
        with path.open("rb") as file:
            file.seek(info.offset or 0)
            raw = file.read(info.length) if info.length else file.read()
    except OSError:
        # Weights that nobody needs may be absent; a needed value is asked for by the passes.
        return None
    inline = TensorProto(data_type=tensor.data_type, dims=tensor.dims, raw_data=raw)
    try:
        return numpy_helper.to_array(inline)
    except ValueError as error:
        raise ModelError(
            f"{model}: external data of {tensor.name!r} is shorter than its shape says",
            hint=f"Check that {info.location} was copied completely.",
        ) from error


def _sorted(layers: list[Layer], known: set[str], name: str) -> list[Layer]:
    """The layers in the file's order, or the nearest topological order."""
    defined = set(known)
    in_order = True
    for layer in layers:
        in_order = in_order and all(read in defined for read in layer.reads)
        for out in layer.outputs:
            if out in defined and out:
                raise ModelError(
                    f"{name}: tensor {out!r} is defined twice",
                    hint="The file is not a valid ONNX model; try onnx.checker on it.",
                )
        defined.update(out for out in layer.outputs if out)
    for layer in layers:
        for read in layer.reads:
            if read not in defined:
                raise ModelError(
                    f"{name}: {layer.op} {layer.name!r} reads {read!r}, which nothing produces",
                    hint="The file is not a valid ONNX model; try onnx.checker on it.",
                )
    if in_order:
        return layers
    producers = {out: i for i, layer in enumerate(layers) for out in layer.outputs if out}
    graph = nx.DiGraph()
    graph.add_nodes_from(range(len(layers)))
    for i, layer in enumerate(layers):
        graph.add_edges_from((producers[read], i) for read in layer.reads if read in producers)
    try:
        order = list(nx.lexicographical_topological_sort(graph))
    except nx.NetworkXUnfeasible as error:
        raise ModelError(f"{name}: the graph has a cycle") from error
    return [layers[i] for i in order]
