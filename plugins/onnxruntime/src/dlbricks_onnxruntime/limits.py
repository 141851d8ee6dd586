"""Layers for which ONNX Runtime creates a session, but which it refuses to run or computes wrongly.

They were found with the operator cases of the onnx package on version 1.31. ONNX Runtime reports
all other unsupported layers itself when a session is created.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec

#: Element types without tensors in the Python interface; only weights may have them.
_UNBOUND = frozenset({"uint2", "int2", "uint4", "int4", "float4e2m1", "float8e8m0"})


def refusal(model: CanonicalModel, layer: Layer) -> str:
    """Reason why a layer cannot run although a session for it exists; usually empty."""
    for name in (*model.activations(layer), *filter(None, layer.outputs)):
        dtype = model.tensors[name].dtype
        if dtype in _UNBOUND:
            return f"{layer.op}: ONNX Runtime takes no tensors of {dtype} from Python"
    rule = _RULES.get(layer.qualified_op)
    reason = rule(model, layer) if rule else ""
    return f"{layer.qualified_op}: {reason}" if reason else ""


def _given(model: CanonicalModel, layer: Layer, position: int) -> TensorSpec | None:
    if position >= len(layer.inputs) or not layer.inputs[position]:
        return None
    return model.tensors[layer.inputs[position]]


def _attention(model: CanonicalModel, layer: Layer) -> str:
    mask, keys, past = (_given(model, layer, position) for position in (3, 1, 4))
    if len(layer.outputs) > 3 and layer.outputs[3] and layer.attributes.get("is_causal"):
        return "ONNX Runtime leaves the causal mask out of qk_matmul_output"
    if mask is not None and keys is not None:
        length = keys.sizes[-2] + (past.sizes[-2] if past else 0)
        if mask.sizes[-1] != length:
            return "ONNX Runtime takes no mask that is shorter than the keys"
        if mask.rank == 1 or mask.sizes[-2] != model.tensors[layer.inputs[0]].sizes[-2]:
            return "ONNX Runtime takes no mask that all queries share"
    return ""


def _conv_integer(model: CanonicalModel, layer: Layer) -> str:
    zero = _given(model, layer, 3)
    return "ONNX Runtime takes one zero point for all weights" if zero and zero.rank else ""


def _grouped_query_attention(model: CanonicalModel, layer: Layer) -> str:
    batch, steps = model.tensors[layer.inputs[0]].sizes[:2]
    cached, total = _given(model, layer, 3), model.constants.get(layer.inputs[6])
    begins = total is not None and int(total.item()) == steps  # the cache has room alone
    if batch > 1 and steps > 1 and cached is not None and cached.sizes[2] and not begins:
        return "ONNX Runtime takes one sequence if there is a cache and more than one new step"
    cache = _given(model, layer, 7)
    heads = layer.attributes["num_heads"]
    assert isinstance(heads, int)
    size = model.tensors[layer.outputs[0]].sizes[2] // heads
    if layer.attributes.get("do_rotary") and cache is not None and size % 16:
        return f"ONNX Runtime rotates heads of a multiple of 16 elements, not of {size}"
    return ""


def _max_unpool(model: CanonicalModel, layer: Layer) -> str:
    asked = _given(model, layer, 2) is not None
    return "ONNX Runtime places elements wrongly where output_shape is given" if asked else ""


def _mod(model: CanonicalModel, layer: Layer) -> str:
    floats = model.tensors[layer.inputs[0]].dtype.startswith(("float", "bfloat"))
    wanting = floats and not layer.attributes.get("fmod")
    return "ONNX Runtime computes remainders of floats by fmod only" if wanting else ""


def _quantize(model: CanonicalModel, layer: Layer) -> str:
    data, scale = (model.tensors[name].dtype for name in layer.inputs[:2])
    mixed = data != scale
    return f"ONNX Runtime takes no {data} with a scale of {scale}" if mixed else ""


def _reduce_bool(model: CanonicalModel, layer: Layer) -> str:
    data = model.tensors[layer.inputs[0]]
    empty = data.dtype == "bool" and not data.elements
    return "ONNX Runtime does not reduce booleans without elements" if empty else ""


def _resize(model: CanonicalModel, layer: Layer) -> str:
    if layer.attributes.get("coordinate_transformation_mode") != "align_corners":
        return ""
    scales = model.constants.get(layer.inputs[2]) if len(layer.inputs) > 2 else None
    if scales is None or not scales.size or layer.attributes.get("mode") == "nearest":
        return ""
    exact = scales * model.tensors[layer.inputs[0]].sizes
    if np.allclose(exact, np.round(exact), atol=1e-6):
        return ""
    return "ONNX Runtime aligns corners by the size before it is rounded"


_RULES: dict[str, Callable[[CanonicalModel, Layer], str]] = {
    "Attention": _attention,
    "ConvInteger": _conv_integer,
    "MaxUnpool": _max_unpool,
    "Mod": _mod,
    "QuantizeLinear": _quantize,
    "ReduceMax": _reduce_bool,
    "ReduceMin": _reduce_bool,
    "Resize": _resize,
    "com.microsoft.GroupQueryAttention": _grouped_query_attention,
}
