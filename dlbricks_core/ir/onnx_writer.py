"""Writes canonical models, with values for their weights, as ONNX protobufs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper

from dlbricks_core.ir.attributes import write_attributes
from dlbricks_core.ir.model import CanonicalModel, Layer
from dlbricks_core.ir.opsets import CANONICAL_OPSET, required_opset
from dlbricks_core.ir.tensors import DTYPE_NUMBERS, TensorSpec

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
