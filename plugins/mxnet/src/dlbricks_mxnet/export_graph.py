"""Preparation of an MXNet symbol for its export, on the symbol's JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dlbricks_core.errors import ModelError
from dlbricks_core.ir import TensorSpec, dtype_name, numpy_dtype
from dlbricks_mxnet.export_converters import FLAT, SHAPES, TYPES
from dlbricks_mxnet.framework import import_mxnet, one_line

MOST_ELEMENTS = 1 << 34
"""Elements of a tensor: 64 GiB of numbers of 32 bits."""

Symbol = Any  # mxnet.symbol.Symbol; MXNet has no type information


def without_losses(symbol: Symbol) -> Symbol:
    """Replaces loss layers, which the Module API puts at the end, by what they infer.

    Their labels are no longer inputs of the network then.
    """
    text = symbol.tojson()
    if not any(loss in text for loss in _LOSSES):
        return symbol
    graph = json.loads(text)
    for node in graph["nodes"]:
        if node["op"] not in _LOSSES:
            continue
        attributes = node.get("attrs", {})
        node["op"], node["attrs"] = _LOSSES[node["op"]](attributes)
        del node["inputs"][1:]
    return import_mxnet().sym.load_json(json.dumps(graph))


def _softmax(attributes: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    if attributes.get("multi_output") in ("True", "1"):
        return "softmax", {"axis": "1"}
    if attributes.get("preserve_shape") in ("True", "1"):
        return "softmax", {"axis": "-1"}
    return "softmax", {"axis": "-1", FLAT: "1"}


_LOSSES = {
    "SoftmaxOutput": _softmax,
    "LogisticRegressionOutput": lambda _: ("sigmoid", {}),
    "LinearRegressionOutput": lambda _: ("_copy", {}),
    "MAERegressionOutput": lambda _: ("_copy", {}),
}


def unique_names(symbol: Symbol) -> Symbol:
    """Gives operators that share a name, as a block used twice does, names of their own."""
    graph = json.loads(symbol.tojson())
    counts = Counter(node["name"] for node in graph["nodes"])
    if len(counts) == len(graph["nodes"]):
        return symbol
    seen: Counter[str] = Counter()
    for node in graph["nodes"]:
        name = node["name"]
        if seen[name] and node["op"] != "null":
            number = seen[name]
            while f"{name}_again{number}" in counts:
                number += 1
            node["name"] = f"{name}_again{number}"
        seen[name] += 1
    return import_mxnet().sym.load_json(json.dumps(graph))


def annotate(
    symbol: Symbol, known: Mapping[str, TensorSpec]
) -> tuple[Symbol, dict[str, TensorSpec]]:
    """Writes the shapes and types of all tensors into the symbol, for the converters.

    Returns:
        The symbol, and the specification of each of its variables.
    """
    internals = symbol.get_internals()
    variables = set(symbol.list_inputs())
    known = {name: spec for name, spec in known.items() if name in variables}
    _, shapes, _ = _infer(internals.infer_shape, {k: s.sizes for k, s in known.items()})
    _, types, _ = _infer(internals.infer_type, {k: numpy_dtype(s.dtype) for k, s in known.items()})
    by_node: dict[str, list[TensorSpec]] = {}
    for tensor, shape, dtype in zip(internals, shapes, types, strict=True):
        spec = TensorSpec(dtype_name(np.dtype(dtype)), tuple(shape))
        _check_size(tensor.name, spec)
        by_node.setdefault(tensor.name, []).append(spec)
    graph = json.loads(symbol.tojson())
    for node in graph["nodes"]:
        attributes = node.setdefault("attrs", {})
        attributes[SHAPES] = json.dumps([spec.sizes for spec in by_node[node["name"]]])
        attributes[TYPES] = json.dumps([spec.dtype for spec in by_node[node["name"]]])
    variables = {node["name"] for node in graph["nodes"] if node["op"] == "null"}
    annotated = import_mxnet().sym.load_json(json.dumps(graph))
    return annotated, {name: by_node[name][0] for name in variables}


def _check_size(name: str, spec: TensorSpec) -> None:
    """Refuses a tensor that a constant of its size would fill memory with."""
    if spec.elements > MOST_ELEMENTS:
        raise ModelError(
            f"{name!r} gives {spec.elements} elements; {MOST_ELEMENTS} is the limit",
            hint="Check the shapes of the network's inputs and its attributes.",
        )


def _infer(
    method: Any, known: Mapping[str, Any]
) -> tuple[Sequence[Any], Sequence[Any], Sequence[Any]]:
    mx = import_mxnet()
    try:
        arguments, outputs, auxiliary = method(**known)
    except (mx.MXNetError, ValueError) as error:
        raise ModelError(
            f"MXNet: {one_line(error)}", hint="Check the shapes of the network's inputs."
        ) from error
    if outputs is None:
        raise ModelError(
            "the given shapes do not determine all shapes of the network",
            hint="Give the shape of every input, such as --dim data=1x3x224x224.",
        )
    return arguments, outputs, auxiliary
