"""Reads ONNX protobufs into a :class:`RawModel`, without the values of weights.

"Raw" means as the producer wrote it: in any opset, and with dynamic dimensions. The passes
turn it into the canonical form that the engine works on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableSequence, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import (
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    SparseTensorProto,
    TensorProto,
    ValueInfoProto,
    numpy_helper,
)

from dlbricks_core.errors import INVALID_MODEL, Border, ModelError, shown
from dlbricks_core.ir.attributes import has_subgraphs, read_attributes
from dlbricks_core.ir.functions import (
    check_layers,
    domain_of,
    graphs_in,
    inlined,
    opset_of,
    subgraphs,
)
from dlbricks_core.ir.limits import MAX_CONSTANT_ELEMENTS, check_shape
from dlbricks_core.ir.model import Layer, RawModel
from dlbricks_core.ir.tensor_data import (
    DataRange,
    array_of,
    check_tensor,
    is_external,
    read_external_data,
)
from dlbricks_core.ir.tensors import DTYPE_NAMES, Dim, TensorSpec

# Makes names readable that are not valid UTF-8; protobuf hands them out as bytes.


def text_of(raw: bytes) -> str:
    """Text of any bytes; bytes that are not UTF-8 are written as hexadecimal numbers."""
    return raw.decode("utf-8", "backslashreplace")


def make_readable(proto: ModelProto) -> None:
    """Turns every name in a model into text, in place."""
    for entry in proto.opset_import:
        _mend(entry, "domain")
    _mend_graph(proto.graph)
    for function in proto.functions:
        _mend_function(function)


def _mend(message: Any, *fields: str) -> None:
    for name in fields:
        value = getattr(message, name)
        if isinstance(value, bytes):
            setattr(message, name, text_of(value))


def _mend_all(names: MutableSequence[Any]) -> None:
    for position, name in enumerate(names):
        if isinstance(name, bytes):
            names[position] = text_of(name)


def _mend_function(function: FunctionProto) -> None:
    _mend(function, "name", "domain", "overload")
    for names in (function.input, function.output, function.attribute):
        _mend_all(names)
    for entry in function.opset_import:
        _mend(entry, "domain")
    for attribute in function.attribute_proto:
        _mend(attribute, "name")
    _mend_nodes(function.node)


def _mend_graph(graph: GraphProto) -> None:
    _mend(graph, "name")
    for value in (*graph.input, *graph.output, *graph.value_info):
        _mend_value(value)
    for tensor in graph.initializer:
        _mend(tensor, "name")
    for sparse in graph.sparse_initializer:
        _mend(sparse.values, "name")
    _mend_nodes(graph.node)


def _mend_value(value: ValueInfoProto) -> None:
    _mend(value, "name")
    if value.type.HasField("tensor_type"):
        for dim in value.type.tensor_type.shape.dim:
            if dim.HasField("dim_param"):
                _mend(dim, "dim_param")


def _mend_nodes(nodes: Iterable[NodeProto]) -> None:
    for node in nodes:
        # One look for all of them: nearly every name is text.
        names = (node.name, node.op_type, node.domain, node.overload, *node.input, *node.output)
        if bytes in map(type, names):
            _mend(node, "name", "op_type", "domain", "overload")
            _mend_all(node.input)
            _mend_all(node.output)
        for attribute in node.attribute:
            _mend(attribute, "name", "ref_attr_name")
            for graph in graphs_in(attribute):
                _mend_graph(graph)


_OLDEST_OPSET = 7

#: Names that exporters write for "any size". Dimensions with one of them may differ in size.
_NO_NAMES = frozenset({"", "?", "*", "-1", "None"})


def read_model(
    proto: ModelProto,
    *,
    name: str,
    source: str = "",
    base_dir: Path | None = None,
    zeros: bool = False,
) -> RawModel:
    """Reads an ONNX model into a raw model.

    Args:
        proto: Loaded with ``load_external_data=False`` if it has external data. It is changed in
            place: small external tensors get their values, and names that are not valid text
            become readable.
        name: Name of the model.
        source: File or collection that it came from, for people to read.
        base_dir: Folder that external data are relative to; ``None`` to read no file.
        zeros: Whether a declared size of 0 means 0. Some exporters write it for "any size".

    Raises:
        ModelError: If the model is not valid, names files that it may not read, or follows an
            opset that is not supported.
    """
    with Border(source or name):
        check_layers(len(proto.graph.node))
        make_readable(proto)
        read_external_data(proto, base_dir)
        # Without a folder, the places of weights are not those of files.
        files = _weight_files(proto.graph) if base_dir is not None else ()
        return replace(_read(proto, name, source, zeros=zeros), weight_files=files)


def _read(proto: ModelProto, name: str, source: str, *, zeros: bool) -> RawModel:
    opsets = {domain_of(opset.domain): opset.version for opset in proto.opset_import}
    for function in proto.functions:
        _check_opset({domain_of(o.domain): o.version for o in function.opset_import},
                     source, f"the function {shown(function.name)}: ")  # fmt: skip
    nodes = inlined(proto, opsets)
    _check_opset(opsets, source)
    graph = proto.graph
    tensors: dict[str, TensorSpec] = {}
    constants: dict[str, np.ndarray[Any, Any]] = {}
    for value in (*graph.value_info, *graph.output, *graph.input):
        with Border("tensor", value.name):
            tensors[value.name] = _spec(value, zeros=zeros)
    weights = {tensor.name: tensor for tensor in graph.initializer}
    sparse_weights = {tensor.values.name: tensor for tensor in graph.sparse_initializer}
    layers = []
    for node in nodes:
        with Border(node.op_type, node.name or next(iter(node.output), "")):
            if node.op_type == "Constant" and not domain_of(node.domain):
                _read_constant(node, weights, sparse_weights)
            else:
                layers.append(_layer(node))
    for weight_name, tensor in weights.items():
        with Border("tensor", weight_name):
            check_tensor(tensor)
            tensors[weight_name] = TensorSpec(DTYPE_NAMES[tensor.data_type], tuple(tensor.dims))
            if tensors[weight_name].elements <= MAX_CONSTANT_ELEMENTS and not is_external(tensor):
                constants[weight_name] = array_of(tensor)
    for weight_name, sparse in sparse_weights.items():
        with Border("tensor", weight_name):
            check_tensor(sparse.values)
            check_shape(sparse.dims)
            dtype = DTYPE_NAMES[sparse.values.data_type]
            tensors[weight_name] = TensorSpec(dtype, tuple(sparse.dims))
    weight_names = frozenset((*weights, *sparse_weights))
    inputs = tuple(value.name for value in graph.input if value.name not in weight_names)
    outputs = tuple(value.name for value in graph.output)
    _check_names(inputs, weight_names, outputs)
    layers = _sorted(layers, {*inputs, *weight_names})
    made = {out for layer in layers for out in layer.outputs if out}
    for out in made:
        tensors.setdefault(out, TensorSpec("undefined", None))
    for out in outputs:
        if out not in made and out not in weight_names and out not in inputs:
            raise ModelError(f"nothing produces the output {shown(out)}", hint=INVALID_MODEL)
    return RawModel(
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


def _weight_files(graph: GraphProto) -> tuple[str, ...]:
    """Names of the files that hold weights."""
    files = {DataRange.of(each).location for each in graph.initializer if is_external(each)}
    return tuple(sorted(files))


def _check_opset(opsets: Mapping[str, int], file: str, who: str = "") -> None:
    newest = onnx.defs.onnx_opset_version()
    version = opsets.get("")
    if version is None and opsets:
        return  # only custom operators; the passes report each of them by name
    if version is None:
        raise ModelError(
            f"{who}it does not say which version of ONNX's operators it follows",
            hint="Add it: model.opset_import.append(onnx.helper.make_opsetid('', 13)), "
            "or export the model again.",
        )
    if not _OLDEST_OPSET <= version <= newest:
        raise ModelError(
            f"{who}opset {version} is outside of the supported range {_OLDEST_OPSET} to {newest}",
            hint=_older_cure(file, who) if version < _OLDEST_OPSET else _NEWER_CURE,
        )


def _older_cure(file: str, who: str) -> str:
    """Hint for an opset that is too old. The converter of onnx does not convert functions."""
    again = "Export the model again with a newer opset"
    if who:
        return f"{again}."
    opened = f"onnx.load({file!r})" if file else "model"
    converted = f"onnx.version_converter.convert_version({opened}, {_OLDEST_OPSET})"
    line = f"import onnx; onnx.save({converted}, 'converted.onnx')"
    return f"{again}, or let onnx convert it, where it can: {line}"


_NEWER_CURE = (
    "Export the model again with an older opset, or upgrade onnx: pip install --upgrade onnx"
)
"""Hint for an opset that is too new, which the converter of the same onnx does not know either."""


def _check_names(inputs: Sequence[str], weights: frozenset[str], outputs: Sequence[str]) -> None:
    if "" in inputs or "" in weights or "" in outputs:
        raise ModelError("an input, output or initializer has no name", hint=INVALID_MODEL)
    if len(set(inputs)) < len(inputs):
        twice = next(name for name in inputs if inputs.count(name) > 1)
        raise ModelError(f"the input {shown(twice)} is there twice", hint=INVALID_MODEL)


def _layer(node: NodeProto) -> Layer:
    attributes = read_attributes(node)
    return Layer(
        op=node.op_type,
        inputs=tuple(node.input),
        outputs=tuple(node.output),
        attributes=attributes,
        domain=domain_of(node.domain),
        name=node.name,
        captures=tuple(dict.fromkeys(_captures(node))) if has_subgraphs(attributes) else (),
        opset=opset_of(node),
    )


def _captures(node: NodeProto) -> Iterator[str]:
    for graph in subgraphs(node):
        yield from _free_names(graph)


def _free_names(graph: GraphProto) -> Iterator[str]:
    sparse = (each.values for each in graph.sparse_initializer)
    defined = {value.name for value in (*graph.input, *graph.initializer, *sparse)}
    for node in graph.node:
        for name in (*node.input, *_captures(node)):
            if name and name not in defined:
                yield name
        defined.update(node.output)
    for value in graph.output:
        if value.name not in defined:
            yield value.name


def _spec(value: ValueInfoProto, *, zeros: bool) -> TensorSpec:
    proto = value.type
    if proto.HasField("optional_type"):  # there, unless the user says that it is not
        proto = proto.optional_type.elem_type
    if not proto.HasField("tensor_type"):
        return TensorSpec("undefined", None)
    tensor = proto.tensor_type
    shape = (
        tuple(_dim(dim, 0 if zeros else 1) for dim in tensor.shape.dim)
        if tensor.HasField("shape")
        else None
    )
    check_shape(shape or ())
    return TensorSpec(DTYPE_NAMES.get(tensor.elem_type, "undefined"), shape)


def _dim(dim: Any, least: int) -> Dim:
    kind = dim.WhichOneof("value")
    if kind == "dim_value":
        # Some exporters write 0 or -1 for "any size".
        return int(dim.dim_value) if dim.dim_value >= least else None
    return dim.dim_param if kind == "dim_param" and dim.dim_param not in _NO_NAMES else None


def _read_constant(
    node: NodeProto,
    weights: dict[str, TensorProto],
    sparse: dict[str, SparseTensorProto],
) -> None:
    """Adds the value of a ``Constant`` node to the weights."""
    if len(node.attribute) != 1 or len(node.output) != 1 or not node.output[0]:
        raise ModelError("a Constant must have one value and one output", hint=INVALID_MODEL)
    attribute = node.attribute[0]
    out = node.output[0]
    if out in weights or out in sparse:
        raise ModelError(f"the tensor {shown(out)} is defined twice", hint=INVALID_MODEL)
    if attribute.name == "value" and attribute.HasField("t"):
        weights[out] = attribute.t
        return
    if attribute.name == "sparse_value" and attribute.HasField("sparse_tensor"):
        sparse[out] = attribute.sparse_tensor
        return
    kinds = {"value_float": np.float32, "value_floats": np.float32, "value_int": np.int64,
             "value_ints": np.int64, "value_string": object, "value_strings": object}  # fmt: skip
    if attribute.name not in kinds:
        raise ModelError(f"a Constant has no value in {shown(attribute.name)}", hint=INVALID_MODEL)
    value = onnx.helper.get_attribute_value(attribute)
    weights[out] = numpy_helper.from_array(np.array(value, dtype=kinds[attribute.name]))


def _sorted(layers: list[Layer], known: set[str]) -> list[Layer]:
    """The layers in the file's order, or the nearest topological order."""
    defined = set(known)
    in_order = True
    for layer in layers:
        in_order = in_order and all(read in defined for read in layer.reads)
        for out in layer.outputs:
            if out in defined and out:
                raise ModelError(f"the tensor {shown(out)} is defined twice", hint=INVALID_MODEL)
            if out:
                defined.add(out)
    for layer in layers:
        for read in layer.reads:
            if read not in defined:
                raise ModelError(
                    f"{layer.op} {shown(layer.name or next(iter(layer.outputs), ''))} reads "
                    f"{shown(read)}, which nothing produces",
                    hint=INVALID_MODEL,
                )
    if in_order:
        return layers
    import networkx as nx  # slow to import, and few models need it

    producers = {out: i for i, layer in enumerate(layers) for out in layer.outputs if out}
    graph = nx.DiGraph()
    graph.add_nodes_from(range(len(layers)))
    for i, layer in enumerate(layers):
        graph.add_edges_from((producers[read], i) for read in layer.reads if read in producers)
    try:
        order = list(nx.lexicographical_topological_sort(graph))
    except nx.NetworkXUnfeasible as error:
        raise ModelError("the graph has a cycle", hint=INVALID_MODEL) from error
    return [layers[i] for i in order]
