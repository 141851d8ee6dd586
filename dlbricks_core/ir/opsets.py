"""The canonical operator set, and the oldest one that can express a layer.

Layers in canonical form follow the operator definitions of ``CANONICAL_OPSET``. Later
opsets only added operators, element types and optional attributes (checked against
opset 28), so a model is stamped with the canonical opset unless one of its layers needs
a newer one: files stay loadable by as many runtimes as possible.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import onnx.defs

from dlbricks_core.ir.model import Layer
from dlbricks_core.ir.tensors import TensorSpec

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
