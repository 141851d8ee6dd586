"""Computes layers in canonical form whose inputs are all known."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from onnx import helper

from dlbricks_core.ir import Array, Attribute, Layer, TensorSpec, TensorValue, numpy_dtype
from dlbricks_core.ir.attributes import tensor_array, tensor_value
from dlbricks_core.ir.limits import MAX_CONSTANT_BYTES, MAX_CONSTANT_ELEMENTS, MAX_RUN_NUMBER
from dlbricks_core.ir.onnx_writer import node_proto, required_opset
from dlbricks_core.ir.tensors import DTYPE_NAMES
from dlbricks_core.operators.table import operator

_log = logging.getLogger(__name__)


def run_layer(layer: Layer, inputs: Mapping[str, Array], opset: int) -> dict[str, Array] | None:
    """Results of a layer by name; ``None`` if the evaluator cannot compute all of them.

    Args:
        layer: A layer of a domain with known operator definitions.
        inputs: A value for every tensor that the layer reads.
        opset: Version of the operator set that the layer follows.
    """
    if operator(layer.op).costly or not _is_modest(layer):
        return None
    # Whoever lists plugins or writes a backend imports this room, and need not pay for numpy's
    # version of every operator.
    from onnx.reference import ReferenceEvaluator

    names = [name for name in layer.outputs if name]
    graph = helper.make_graph(
        [node_proto(layer)],
        "layer",
        [helper.make_empty_tensor_value_info(name) for name in layer.reads],
        [helper.make_empty_tensor_value_info(name) for name in names],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid(layer.domain, opset)])
    try:
        with np.errstate(all="ignore"):
            results = ReferenceEvaluator(model).run(None, dict(inputs))
    except Exception as error:  # noqa: BLE001 - the evaluator raises whatever numpy raises
        _log.debug("the reference evaluator cannot run %s: %s", layer.op, error)
        return None
    if not all(isinstance(result, np.ndarray | np.generic) for result in results):
        return None
    return {name: np.asarray(result) for name, result in zip(names, results, strict=True)}


def _is_modest(layer: Layer) -> bool:
    """Whether the numbers in a layer's attributes are small enough to run it."""
    numbers = (
        number
        for value in layer.attributes.values()
        for number in (value if isinstance(value, tuple) else (value,))
    )
    return all(abs(n) <= MAX_RUN_NUMBER for n in numbers if isinstance(n, int))


def evaluate(
    layer: Layer, inputs: Sequence[Array | None], specs: Mapping[str, TensorSpec]
) -> tuple[Array, ...] | None:
    """Results of a layer; ``None`` if they cannot be computed.

    Args:
        layer: In canonical form, of the domain ``ai.onnx``.
        inputs: Value of each input, ``None`` where one is left out.
        specs: Specification of the layer's tensors.
    """
    keys = tuple(None if value is None else tensor_value(value) for value in inputs)
    outputs = tuple(bool(name) for name in layer.outputs)
    opset = required_opset(layer, specs)
    return _evaluate(layer.op, tuple(sorted(layer.attributes.items())), keys, outputs, opset)


@lru_cache(maxsize=1 << 14)
def _evaluate(
    op: str,
    attributes: tuple[tuple[str, Attribute], ...],
    keys: tuple[TensorValue | None, ...],
    outputs: tuple[bool, ...],
    opset: int,
) -> tuple[Array, ...] | None:
    inputs = [None if key is None else tensor_array(key) for key in keys]
    function = _FUNCTIONS.get(op)
    if function is not None and not any(key.dtype == "string" for key in keys if key):
        with np.errstate(all="ignore"):
            result = function(dict(attributes), *inputs)
        if result is None:
            return None
        results = [np.asarray(result)]
    else:
        layer = Layer(
            op,
            tuple(f"<{i}" if key is not None else "" for i, key in enumerate(keys)),
            tuple(f">{i}" if wanted else "" for i, wanted in enumerate(outputs)),
            dict(attributes),
        )
        named = {f"<{i}": value for i, value in enumerate(inputs) if value is not None}
        found = run_layer(layer, named, opset)
        if found is None:
            return None
        results = list(found.values())
    if any(_text_bytes(result) > MAX_CONSTANT_BYTES for result in results):
        return None
    for result in results:
        result.setflags(write=False)
    return tuple(results)


def _text_bytes(value: Array) -> int:
    return sum(len(text) for text in value.flat) if value.dtype.kind == "O" else 0


def _is_small(sizes: Iterable[Any]) -> bool:
    """Whether a value of some shape is small enough to keep; ask before computing it."""
    return math.prod(int(size) for size in sizes) <= MAX_CONSTANT_ELEMENTS


Attributes = Mapping[str, Any]


def _cast(attributes: Attributes, data: Array) -> Array:
    dtype = DTYPE_NAMES[attributes["to"]]
    if dtype != "string":
        return data.astype(numpy_dtype(dtype))
    numbers = data.astype(np.int8) if data.dtype.kind == "b" else data
    texts = [_TEXTS.get(text, text) for text in map(str, numbers.flat)]
    return np.array(texts, dtype=object).reshape(data.shape)


#: Texts of numpy for NaN and infinity -> texts of ONNX.
_TEXTS = {"nan": "NaN", "inf": "INF", "-inf": "-INF"}


def _divide(attributes: Attributes, a: Array, b: Array) -> Array:
    """Quotient; integer division truncates toward zero."""
    if a.dtype.kind not in "iu" or not np.all(b):
        return np.asarray(a / np.where(b == 0, 1, b) if a.dtype.kind in "iu" else a / b, a.dtype)
    quotient = np.abs(a) // np.abs(b)
    return np.asarray(quotient * np.sign(a) * np.sign(b), a.dtype)


def _slice(attributes: Attributes, data: Array, *cut: Array) -> Array:
    index = [slice(None)] * data.ndim
    for start, end, axis, step in zip(*(part.tolist() for part in cut), strict=True):
        stop = None if step < 0 and end < 0 else end
        index[axis] = slice(start, stop, step)
    return data[tuple(index)]


def _expand(attributes: Attributes, data: Array, shape: Array) -> Array | None:
    return np.array(np.broadcast_to(data, tuple(shape))) if _is_small(shape) else None


def _tile(attributes: Attributes, data: Array, repeats: Array) -> Array | None:
    return np.tile(data, tuple(repeats)) if _is_small((data.size, *repeats)) else None


def _filled(attributes: Attributes, shape: Array) -> Array | None:
    return np.array(constant_of_shape(attributes, shape.tolist())) if _is_small(shape) else None


def _range(attributes: Attributes, start: Array, limit: Array, delta: Array) -> Array | None:
    if not _is_small([np.ceil((float(limit) - float(start)) / float(delta))]):
        return None
    return np.arange(start.item(), limit.item(), delta.item(), dtype=start.dtype)


def constant_of_shape(attributes: Attributes, sizes: Sequence[int]) -> Array:
    """An array with one value everywhere, which takes no memory of its own."""
    value = attributes.get("value")
    fill = tensor_array(value) if isinstance(value, TensorValue) else np.zeros(1, np.float32)
    return np.broadcast_to(fill.reshape(()), tuple(int(size) for size in sizes))


def _reduce(function: Callable[..., Any]) -> Callable[..., Any]:
    def apply(attributes: Attributes, data: Array, axes: Array) -> Any:
        if attributes.get("noop_with_empty_axes"):
            return data
        kept = bool(attributes["keepdims"])
        return function(data, axis=tuple(axes.tolist()), keepdims=kept).astype(data.dtype)

    return apply


#: Functions for the operators of shape arithmetic; the reference evaluator computes all others.
_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "Add": lambda attributes, a, b: a + b,
    "And": lambda attributes, a, b: a & b,
    "Cast": _cast,
    "Ceil": lambda attributes, a: np.ceil(a),
    "Concat": lambda attributes, *parts: np.concatenate(parts, axis=attributes["axis"]),
    "ConstantOfShape": _filled,
    "Div": _divide,
    "Equal": lambda attributes, a, b: a == b,
    "Expand": _expand,
    "Floor": lambda attributes, a: np.floor(a),
    "Gather": lambda attributes, a, index: np.take(a, index, axis=attributes["axis"]),
    "Greater": lambda attributes, a, b: a > b,
    "GreaterOrEqual": lambda attributes, a, b: a >= b,
    "Less": lambda attributes, a, b: a < b,
    "LessOrEqual": lambda attributes, a, b: a <= b,
    "Mul": lambda attributes, a, b: a * b,
    "Neg": lambda attributes, a: -a,
    "Not": lambda attributes, a: ~a,
    "Range": _range,
    "ReduceMax": _reduce(np.max),
    "ReduceMin": _reduce(np.min),
    "ReduceProd": _reduce(np.prod),
    "ReduceSum": _reduce(np.sum),
    "Reshape": lambda attributes, a, shape: a.reshape(tuple(shape)),
    "Slice": _slice,
    "Squeeze": lambda attributes, a, axes: np.squeeze(a, axis=tuple(axes)),
    "Sub": lambda attributes, a, b: a - b,
    "Tile": _tile,
    "Transpose": lambda attributes, a: a.transpose(attributes["perm"]),
    "Unsqueeze": lambda attributes, a, axes: np.expand_dims(a, tuple(axes)),
    "Where": lambda attributes, condition, a, b: np.where(condition, a, b),
}
