"""Writes canonical models, with values for their weights, as ONNX protobufs."""

from __future__ import annotations

import base64
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import onnx
import onnx.defs
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from dlbricks_core.errors import ModelError
from dlbricks_core.ir.attributes import write_attributes
from dlbricks_core.ir.model import CanonicalModel, Layer
from dlbricks_core.ir.onnx_reader import read_model
from dlbricks_core.ir.tensor_data import array_of, is_external
from dlbricks_core.ir.tensors import DTYPE_NUMBERS, TensorSpec

ValueT = TypeVar("ValueT")

# The canonical operator set, and the oldest one that can express a layer.
#
# Layers in canonical form follow the operator definitions of ``CANONICAL_OPSET``. Later opsets
# only added operators, element types and optional attributes (checked against opset 28), so a
# model is stamped with the canonical opset unless one of its layers needs a newer one: files stay
# loadable by as many runtimes as possible.

CANONICAL_OPSET = 21
NEWEST_OPSET: int = onnx.defs.onnx_opset_version()


def required_opset(layer: Layer, tensors: Mapping[str, TensorSpec]) -> int:
    """Oldest opset, from the canonical one on, that allows the layer's form and types.

    Args:
        layer: In canonical form, of the domain ``ai.onnx``.
        tensors: Specification of the layer's inputs and outputs.
    """
    inputs = tuple(tensors[name].dtype if name else "" for name in layer.inputs)
    outputs = tuple(tensors[name].dtype if name else "" for name in layer.outputs)
    return _required(layer.op, frozenset(layer.attributes), inputs, outputs)


@cache
def _required(
    op: str, attributes: frozenset[str], inputs: tuple[str, ...], outputs: tuple[str, ...]
) -> int:
    for version in range(CANONICAL_OPSET, NEWEST_OPSET + 1):
        try:
            schema = onnx.defs.get_schema(op, version, "")
        except onnx.defs.SchemaError:
            continue
        if (
            attributes <= set(schema.attributes)
            and _allows(schema.inputs, inputs)
            and _allows(schema.outputs, outputs)
        ):
            return version
    # No opset fits. The runtime's message is clearest in the opset that it supports fully.
    return CANONICAL_OPSET


_SPELLING = {"float32": "float", "float64": "double"}


def _allows(formals: Sequence[onnx.defs.OpSchema.FormalParameter], dtypes: tuple[str, ...]) -> bool:
    variadic = bool(formals) and (
        formals[-1].option == onnx.defs.OpSchema.FormalParameterOption.Variadic
    )
    if len(dtypes) > len(formals) and not variadic:
        return False
    for i, dtype in enumerate(dtypes):
        if dtype in ("", "undefined"):
            continue
        formal = formals[min(i, len(formals) - 1)]
        if f"tensor({_SPELLING.get(dtype, dtype)})" not in formal.types:
            return False
    return True


_MAX_PROTOBUF_BYTES = 1_900_000_000


def to_onnx(
    model: CanonicalModel,
    values: Mapping[str, np.ndarray[Any, Any]],
    elsewhere: Collection[str] = (),
) -> ModelProto:
    """The model as an ONNX protobuf; the same arguments give the same bytes.

    Args:
        model: Model in canonical form with static shapes.
        values: A value for every weight of the model.
        elsewhere: Weights that are only declared, as external data. The reader of the model
            gets their values in another way.
    """
    graph = helper.make_graph(
        nodes=[node_proto(layer) for layer in model.layers],
        name=model.name,
        inputs=[_value_info(name, model.tensors[name]) for name in model.inputs],
        outputs=[_value_info(name, model.tensors[name]) for name in model.outputs],
        initializer=[declared(name, model.tensors[name]) if name in elsewhere
                     else _initializer(name, model.tensors[name], values[name])
                     for name in sorted(model.weights)],
        value_info=[_value_info(name, spec) for name, spec in sorted(_inner(model).items())],
    )  # fmt: skip
    opset = max(
        (required_opset(layer, model.tensors) for layer in model.layers if not layer.domain),
        default=CANONICAL_OPSET,
    )
    domains = sorted({layer.domain for layer in model.layers if layer.domain})
    imports = [helper.make_opsetid("", opset)]
    imports += [helper.make_opsetid(domain, model.opsets.get(domain, 1)) for domain in domains]
    return helper.make_model(
        graph,
        opset_imports=imports,
        ir_version=helper.find_min_ir_version_for(imports, ignore_unknown=True),
        producer_name="dlbricks",
    )


def save_onnx(proto: ModelProto, path: Path) -> None:
    """Writes the model; weights beyond protobuf's 2 GB go into a file beside it."""
    large = sum(len(tensor.raw_data) for tensor in proto.graph.initializer) > _MAX_PROTOBUF_BYTES
    onnx.save(proto, path, save_as_external_data=large, location=f"{path.name}.data")


def node_proto(layer: Layer) -> NodeProto:
    """One layer as an ONNX node."""
    node = NodeProto(
        op_type=layer.op,
        domain=layer.domain,
        name=layer.name,
        input=layer.inputs,
        output=layer.outputs,
    )
    node.attribute.extend(write_attributes(layer.attributes))
    return node


def _inner(model: CanonicalModel) -> dict[str, TensorSpec]:
    """Tensors that are neither inputs, outputs nor weights."""
    known = {*model.inputs, *model.outputs, *model.weights}
    names = {out for layer in model.layers for out in layer.outputs if out and out not in known}
    return {name: model.tensors[name] for name in names if model.tensors[name].is_static}


def _value_info(name: str, spec: TensorSpec) -> ValueInfoProto:
    if spec.dtype == "undefined":  # no tensor, or a file that says no type: none is made up
        return ValueInfoProto(name=name)
    return helper.make_tensor_value_info(name, DTYPE_NUMBERS[spec.dtype], spec.shape)


def _initializer(name: str, spec: TensorSpec, value: np.ndarray[Any, Any]) -> TensorProto:
    if spec.dtype == "string":
        return helper.make_tensor(name, TensorProto.STRING, spec.sizes, value.ravel().tolist())
    proto = onnx.numpy_helper.from_array(np.ascontiguousarray(value).reshape(spec.sizes), name)
    proto.data_type = DTYPE_NUMBERS[spec.dtype]
    return proto


def declared(name: str, spec: TensorSpec) -> TensorProto:
    """An initializer without values, declared as external data."""
    proto = TensorProto(
        name=name,
        data_type=DTYPE_NUMBERS[spec.dtype],
        dims=spec.sizes,
        data_location=TensorProto.EXTERNAL,
    )
    proto.external_data.add(key="location", value=name)
    return proto


# Canonical models as bytes: an ONNX protobuf, with fields that ONNX lacks in its metadata.

_KEY = "dlbricks"

_NOWHERE = "weights"
"""File name in the place of data of weights without values. ONNX requires a name; no file is
read."""


def packed(model: CanonicalModel) -> bytes:
    """The model as bytes, without the values of weights that are not among its constants."""
    proto = to_onnx(model, model.constants, model.weights - model.constants.keys())
    for tensor in filter(is_external, proto.graph.initializer):
        tensor.external_data[0].value = _NOWHERE
    computed = [
        numpy_helper.from_array(value, name)
        for name, value in sorted(model.constants.items())
        if name not in model.weights
    ]
    about = {
        "annotations": dict(model.annotations),
        "opsets": dict(model.opsets),
        "layouts": {name: spec.layout for name, spec in model.tensors.items() if spec.layout},
        "opaque": {str(i): layer.opaque for i, layer in enumerate(model.layers) if layer.opaque},
        "computed": [base64.b64encode(each.SerializeToString()).decode() for each in computed],
    }
    helper.set_model_props(proto, {_KEY: json.dumps(about, sort_keys=True)})
    data: bytes = proto.SerializeToString(deterministic=True)
    return data


def unpacked(data: bytes, *, name: str, source: str = "") -> CanonicalModel:
    """Reverses :func:`packed`.

    Raises:
        ModelError: If it is something else.
    """
    try:
        proto = ModelProto.FromString(data)
        about = {each.key: each.value for each in proto.metadata_props}
        return _read(proto, json.loads(about[_KEY]), name, source)
    except (DecodeError, KeyError, ValueError, TypeError, RecursionError) as error:
        raise ModelError(f"the stored graph of {name} cannot be read") from error


def _read(proto: ModelProto, metadata: Mapping[str, Any], name: str, source: str) -> CanonicalModel:
    given = [each for each in proto.graph.initializer if not is_external(each)]
    computed = [TensorProto.FromString(base64.b64decode(text)) for text in metadata["computed"]]
    constants = {each.name: array_of(each) for each in (*given, *computed)}
    raw = read_model(proto, name=name, source=source, zeros=True)
    layouts = {
        tensor: replace(raw.tensors[tensor], layout=layout)
        for tensor, layout in _table(metadata["layouts"], str).items()
    }
    opaque = _table(metadata.get("opaque", {}), str)
    layers = [
        replace(layer, opaque=opaque[str(i)]) if str(i) in opaque else layer
        for i, layer in enumerate(raw.layers)
    ]
    return raw.as_canonical(
        layers=tuple(layers),
        tensors={**raw.tensors, **layouts},
        constants=constants,
        opsets=_table(metadata["opsets"], int),
        annotations=_table(metadata["annotations"], str),
    )


def _table(data: Any, kind: type[ValueT]) -> dict[str, ValueT]:
    """The values of one kind by their names: a graph may come from a store of somebody else.

    Raises:
        TypeError: If it is something else.
    """
    if not isinstance(data, dict) or any(type(value) is not kind for value in data.values()):
        raise TypeError(f"no values of the type {kind.__name__} by name: {data!r:.40}")
    return data
