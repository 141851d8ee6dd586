"""Layers and values that OpenVINO would compute otherwise than the model says, without an error.

Found with the operator cases of the onnx package, on OpenVINO 2026.4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np
from dlbricks_contrib.layer_view import LayerView

from dlbricks_core.backends import Network
from dlbricks_core.ir import CanonicalModel, Layer
from dlbricks_core.operators.table import operator

_TYPES = frozenset(
    ("float32", "float16", "bfloat16", "int64", "int32", "int8", "uint8", "bool")
)  # fmt: skip
"""Element types in which OpenVINO computes, or which it computes in a wider type."""

_MOST = 2**30
"""Least absolute value of 64-bit integers that is refused: OpenVINO computes them in 32 bits, and a
sum of two has to fit."""

#: Inputs that are indices, by operator. They fit into 32 bits, or are out of range.
_INDICES = {
    "Gather": (1,), "GatherElements": (1,), "GatherND": (1,), "OneHot": (0,),
    "ScatterElements": (1,), "ScatterND": (1,),
}  # fmt: skip

#: Operators whose 64-bit results may need more than 32 bits, although their inputs do not.
_GROWING = frozenset(
    ("BitShift", "CumSum", "MatMul", "MatMulInteger", "Mul", "Pow", "ReduceProd", "ReduceSumSquare")
)


def refusals(model: CanonicalModel) -> Mapping[int, str]:
    """Reason for every layer that OpenVINO would compute in another type, by its index."""
    reasons = {i: next(_reasons(model, layer), "") for i, layer in enumerate(model.layers)}
    return {index: reason for index, reason in reasons.items() if reason}


def refused_values(network: Network) -> Iterator[str]:
    """Reason for every input and weight whose values OpenVINO does not compute with."""
    model = network.model
    for name, value in {**network.inputs, **network.weights}.items():
        wide = model.tensors[name].dtype == "int64" and value.size
        if wide and _is_number(model, name) and np.abs(value.astype(np.float64)).max() >= _MOST:
            yield f"OpenVINO computes int64 in 32 bits, and {name} has a value that needs more"


def _reasons(model: CanonicalModel, layer: Layer) -> Iterator[str]:
    yield from differences(model, layer)
    for name in filter(None, layer.outputs):
        wide = model.tensors[name].dtype == "int64"
        if wide and _grows(model, layer) and _is_number(model, name):
            yield f"{layer.op}: OpenVINO computes int64 in 32 bits"


def differences(model: CanonicalModel, layer: Layer) -> Iterator[str]:
    """Reasons why OpenVINO would compute something else, seen from the layer alone."""
    for name in filter(None, (*layer.inputs, *layer.outputs)):
        dtype = model.tensors[name].dtype
        if dtype not in _TYPES:
            yield f"{layer.op}: OpenVINO does not compute {dtype} as such"
    if layer.qualified_op in _LIMITS:
        view = LayerView(model, layer)
        yield from (f"{layer.op}: OpenVINO {why}" for why in _LIMITS[layer.qualified_op](view))


def _grows(model: CanonicalModel, layer: Layer) -> bool:
    """Whether a result may need more bits than what the layer reads."""
    if layer.op == "Cast":
        return "float" in model.tensors[layer.inputs[0]].dtype
    return layer.op in _GROWING


def _is_number(model: CanonicalModel, name: str) -> bool:
    """Whether anything computes with a tensor, rather than reading it as indices or sizes."""
    if name in model.output_names:
        return True
    readers = (model.layers[index] for index in model.consumers.get(name, ()))
    return any(
        position not in (*_INDICES.get(each.op, ()), *operator(each.qualified_op).parameters)
        for each in readers
        for position, read in enumerate(each.inputs)
        if read == name
    )


def _attention(view: LayerView) -> Iterator[str]:
    given = dict(enumerate(view.layer.inputs))
    mask, past, lengths = (bool(given.get(position)) for position in (3, 4, 6))
    if view.layer.attributes.get("is_causal") and mask and (past or lengths):
        yield "ignores the cache in a causal mask beside another mask"
    windows = (view.layer.attributes.get(f"{side}_window_size", -1) for side in ("left", "right"))
    if any(size != -1 for size in windows):
        yield "has no windows of attention"


def _bit_shift(view: LayerView) -> Iterator[str]:
    if view.dtype(0) != "uint8":
        yield "shifts bytes only"


def _dft(view: LayerView) -> Iterator[str]:
    if view.integers(2) != (1,):
        yield "transforms the second axis only"


def _lstm(view: LayerView) -> Iterator[str]:
    if view.has(7):
        yield "leaves peepholes out"


def _matmul_n_bits(view: LayerView) -> Iterator[str]:
    """Limits of OpenVINO's reader, which needs the values of codes and scales."""
    if view.layer.attributes.get("bits", 4) not in (4, 8):
        yield "supports codes of 4 and 8 bits"
    if any(name and name not in view.model.weights for name in view.layer.inputs[1:]):
        yield "needs constant codes and scales"
    if any(view.layer.inputs[4:]):
        yield "supports neither groups in another order nor a bias"


def _reduction(view: LayerView) -> Iterator[str]:
    if 0 in view.shape(0):
        yield "gives an empty set a value of its own"


def _resize(view: LayerView) -> Iterator[str]:
    attributes = view.layer.attributes
    if attributes.get("antialias") or attributes.get("exclude_outside"):
        yield "weighs neighbours otherwise"
    scales = view.layer.inputs[2:3]
    if attributes.get("coordinate_transformation_mode") == "align_corners" and any(scales):
        yield "aligns corners by sizes, not by scales"


def _mode(wrong: str) -> Callable[[LayerView], Iterator[str]]:
    def limit(view: LayerView) -> Iterator[str]:
        if view.layer.attributes.get("mode") == wrong:
            yield f"has no mode {wrong}"

    return limit


_LIMITS: Mapping[str, Callable[[LayerView], Iterator[str]]] = {
    "Attention": _attention,
    "BitShift": _bit_shift,
    "DFT": _dft,
    "LSTM": _lstm,
    "ReduceMax": _reduction,
    "ReduceMin": _reduction,
    "Resize": _resize,
    "RoiAlign": _mode("max"),
    "SpaceToDepth": _mode("CRD"),
    "com.microsoft.MatMulNBits": _matmul_n_bits,
}
