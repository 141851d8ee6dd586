"""Layers that OpenVINO cannot run, or computes in another element type than the model's."""

from __future__ import annotations

from collections.abc import Mapping

from dlbricks_core.backends import BackendSettings, Network, refused_layers
from dlbricks_core.ir import CanonicalModel, Layer
from dlbricks_openvino.compiling import compiled

_TYPES = frozenset(("float32", "float16", "int64", "int32", "int8", "uint8", "bool"))
"""Element types that OpenVINO takes from Python and computes as such, or in a wider type."""

_REFUSES = ("OpConversionFailure", "NotImplementedFailure", "Unsupported operation")
"""Words of OpenVINO's errors: of what reads ONNX, and of the CPU plugin."""

#: OpenVINO computes 64-bit integers in 32 bits. Only indices are sure to fit: these operators
#: read or compute them, at these positions.
_READ = {
    "Gather": (1,), "GatherElements": (1,), "GatherND": (1,), "OneHot": (0,),
    "ScatterElements": (1,), "ScatterND": (1,),
}  # fmt: skip
_COMPUTED = {"ArgMax": (0,), "ArgMin": (0,), "TopK": (1,)}


def unsupported(model: CanonicalModel) -> Mapping[int, str]:
    """Reason for every layer that OpenVINO cannot run exactly, by its index."""
    return {**refused_layers(model, _refusal), **narrowed(model)}


def narrowed(model: CanonicalModel) -> Mapping[int, str]:
    """Reason for every layer that OpenVINO would compute in another type, by its index."""
    reasons = {index: _other_type(model, layer) for index, layer in enumerate(model.layers)}
    return {index: reason for index, reason in reasons.items() if reason}


def _refusal(layer: CanonicalModel) -> str:
    try:
        compiled(Network(layer, layer.constants, {}), BackendSettings())
    except RuntimeError as error:
        if not is_refusal(error):
            raise
        return f"OpenVINO does not implement {layer.layers[0].qualified_op}"
    return ""


def is_refusal(error: RuntimeError) -> bool:
    """Whether OpenVINO says that it lacks something; it has one type of error for all reasons."""
    return any(words in str(error) for words in _REFUSES)


def _other_type(model: CanonicalModel, layer: Layer) -> str:
    """Why the element types of a layer would not be computed as such; mostly empty."""
    fixed = model.constants
    for allowed, names in ((_READ, layer.inputs), (_COMPUTED, layer.outputs)):
        for position, name in enumerate(names):
            dtype = model.tensors[name].dtype if name else "float32"
            if dtype not in _TYPES:
                return f"{layer.op}: OpenVINO does not compute {dtype} as such"
            free = name in fixed or position in allowed.get(layer.op, ())
            if dtype == "int64" and not free:
                return f"{layer.op}: OpenVINO computes int64 in 32 bits"
    return ""
