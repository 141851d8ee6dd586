"""Checks that a raw layer fits its operator's definition, before anything relies on that.

ONNX shape inference uses some attributes unchecked, and ends the process if they do not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnx.defs

from dlbricks_core.errors import INVALID_MODEL, ModelError, shown
from dlbricks_core.ir import Attribute, Subgraph, TensorSpec, TensorValue
from dlbricks_core.ir.opsets import NEWEST_OPSET
from dlbricks_core.passes.schemas import definition

_Kind = onnx.defs.OpSchema.AttrType


def _all(*kinds: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, tuple) and all(isinstance(v, kinds) for v in value)


def _instance_of(*kinds: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kinds)


#: Type of an attribute -> whether a value has it.
_FITS: Mapping[Any, Callable[[Any], bool]] = {
    _Kind.INT: _instance_of(int),
    _Kind.FLOAT: _instance_of(float),
    _Kind.STRING: _instance_of(str, bytes),
    _Kind.TENSOR: _instance_of(TensorValue),
    _Kind.GRAPH: _instance_of(Subgraph),
    _Kind.INTS: _all(int),
    _Kind.FLOATS: _all(float),
    _Kind.STRINGS: _all(str, bytes),
    _Kind.TENSORS: _all(TensorValue),
    _Kind.GRAPHS: _all(Subgraph),
}

#: Attributes that name axes of the first input, or a number of its first axes.
_AXES = ("axis", "axes", "batch_axis", "time_axis", "batch_dims")


#: Operators that ignore their axis where they have one scale.
_FREE = frozenset({"DequantizeLinear", "QuantizeLinear"})


def check_definition(
    schema: onnx.defs.OpSchema,
    attributes: Mapping[str, Attribute],
    inputs: Sequence[TensorSpec | None],
    outputs: Sequence[bool],
) -> None:
    """Checks a layer against the definition of its operator.

    Args:
        schema: The definition that the layer follows.
        attributes: Attributes by name; attributes that the definition lacks are ignored.
        inputs: Specification of each input, ``None`` where one is left out.
        outputs: Whether each output is wanted.

    Raises:
        ModelError: If the definition does not allow the number of inputs or outputs, the type
            of an attribute, or an axis.
    """
    # Some producers use inputs that the opset that they name does not have yet.
    newest = definition(schema.name, schema.domain, NEWEST_OPSET) or schema
    most = (max(schema.max_input, newest.max_input), max(schema.max_output, newest.max_output))
    _check_count(schema.name, "inputs", inputs, schema.min_input, most[0])
    _check_count(schema.name, "outputs", outputs, schema.min_output, most[1])
    for name, formal in schema.attributes.items():
        value = attributes.get(name)
        if value is None:
            if formal.required:
                raise ModelError(f"{schema.name} lacks its attribute {name}", hint=INVALID_MODEL)
        elif formal.type in _FITS and not _FITS[formal.type](value):
            kind = str(formal.type).rpartition(".")[2]
            raise ModelError(
                f"the attribute {name} of {schema.name} is not of type {kind}", hint=INVALID_MODEL
            )
    _check_axes(schema.name, attributes, inputs[0] if inputs else None)


def _check_count(op: str, what: str, given: Sequence[object], least: int, most: int) -> None:
    if not least <= len(given) <= most:
        allowed = f"{least}" if least == most else f"{least} to {most}"
        raise ModelError(f"{op} has {len(given)} {what}, its definition allows {allowed}",
                         hint=INVALID_MODEL)  # fmt: skip


def _check_axes(op: str, attributes: Mapping[str, Attribute], first: TensorSpec | None) -> None:
    if first is None or first.shape is None or op in _FREE:
        return
    for name in _AXES:
        value = attributes.get(name)
        axes = value if isinstance(value, tuple) else (value,)
        # The new axes of Unsqueeze, OneHot and the like count in the result.
        limit = len(first.shape) + len(axes)
        for axis in axes:
            if isinstance(axis, int) and not -limit <= axis <= limit:
                raise ModelError(
                    f"{op} has the {name} {axis}, its input {len(first.shape)} axes",
                    hint=INVALID_MODEL,
                )
    if isinstance(skipped := attributes.get("batch_dims", 0), int) and skipped < 0:
        raise ModelError(f"{op} has the batch_dims {shown(str(skipped))}", hint=INVALID_MODEL)
