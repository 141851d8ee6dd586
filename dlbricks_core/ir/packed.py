"""Canonical models as bytes: an ONNX protobuf, with fields that ONNX lacks in its metadata."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import ModelProto, TensorProto, helper, numpy_helper

from dlbricks_core.errors import ModelError
from dlbricks_core.ir.model import CanonicalModel
from dlbricks_core.ir.onnx_reader import read_model
from dlbricks_core.ir.onnx_writer import to_onnx
from dlbricks_core.ir.tensor_data import array_of, is_external

_KEY = "dlbricks"

_NOWHERE = "weights"
"""File name that replaces the data of weights without values: ONNX demands one, and none is
read."""


def packed(model: CanonicalModel) -> bytes:
    """The model as bytes, without the values of weights that are not among its constants.

    Args:
        model: Model in canonical form.
    """
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

    Args:
        data: Result of :func:`packed`.
        name: Name of the model.
        source: File or collection that it came from, for people to read.

    Raises:
        ModelError: If it is something else.
    """
    try:
        proto = ModelProto.FromString(data)
        about = {each.key: each.value for each in proto.metadata_props}
        return _read(proto, json.loads(about[_KEY]), name, source)
    except (DecodeError, KeyError, ValueError, TypeError) as error:
        raise ModelError(f"the stored graph of {name} cannot be read") from error


def _read(proto: ModelProto, metadata: Mapping[str, Any], name: str, source: str) -> CanonicalModel:
    given = [each for each in proto.graph.initializer if not is_external(each)]
    computed = [TensorProto.FromString(base64.b64decode(text)) for text in metadata["computed"]]
    constants = {each.name: array_of(each) for each in (*given, *computed)}
    raw = read_model(proto, name=name, source=source, zeros=True)
    layouts = {
        tensor: replace(raw.tensors[tensor], layout=layout)
        for tensor, layout in metadata["layouts"].items()
    }
    opaque = metadata.get("opaque", {})
    layers = [
        replace(layer, opaque=opaque[str(i)]) if str(i) in opaque else layer
        for i, layer in enumerate(raw.layers)
    ]
    return CanonicalModel(
        name=raw.name,
        layers=tuple(layers),
        inputs=raw.inputs,
        outputs=raw.outputs,
        tensors={**raw.tensors, **layouts},
        weights=raw.weights,
        constants=constants,
        opsets=metadata["opsets"],
        source=raw.source,
        annotations=metadata["annotations"],
    )
