"""Canonical form of a layer, found once for all layers that differ only in names.

Layers repeat within a network and across the networks of a benchmark. So everything
about a layer that does not depend on names is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import onnx.defs

from dlbricks_core.errors import (
    INVALID_MODEL,
    DLBricksError,
    ModelError,
    UnsupportedError,
    reason,
    shown,
)
from dlbricks_core.ir import Array, Attribute, Layer, Subgraph, TensorSpec, TensorValue
from dlbricks_core.ir.attributes import tensor_array
from dlbricks_core.ir.onnx_writer import NEWEST_OPSET
from dlbricks_core.passes.forms.canonicalize import CANONICALIZE
from dlbricks_core.passes.forms.draft import LayerDraft
from dlbricks_core.passes.forms.upgrade import UPGRADE
from dlbricks_core.passes.pipeline import Property, check_order
from dlbricks_core.passes.schemas import definition
from dlbricks_core.passes.shapes import infer

# Checks that a raw layer fits its operator's definition, before anything relies on that.
#
# ONNX shape inference uses some attributes unchecked, and ends the process if they do not fit.

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


_PASSES = (UPGRADE, CANONICALIZE)
"""Passes over a draft, in order."""

check_order(_PASSES, given=[Property.INPUTS_STATIC, Property.DEFINED, Property.VALID])


@dataclass(frozen=True)
class Form:
    """Canonical form of a raw layer, with local tensor names.

    ``<0`` is the raw layer's first input, ``>0`` its first output.

    Attributes:
        layers: In topological order; empty where the results are known without any.
        specs: Specification of every result and every new constant, as far as known.
        constants: New constants.
        results: Outputs that no layer computes; ``None`` where the value is not kept.
        unsupported: Reason why there is no canonical form; ``layers`` then holds the raw layer.
    """

    layers: tuple[Layer, ...]
    specs: Mapping[str, TensorSpec]
    constants: Mapping[str, Array] = field(default_factory=dict)
    results: Mapping[str, Array | None] = field(default_factory=dict)
    unsupported: str = ""


@dataclass(frozen=True, slots=True)
class RawLayer:
    """A raw layer without names: everything that its form depends on; hashable.

    Attributes:
        op: Operator type.
        domain: A domain that operator definitions exist for.
        opset: Version of that domain's operator set.
        attributes: Sorted.
        inputs: Static specification of each input, ``None`` where one is left out.
        values: Position and value of those inputs whose values matter and are known.
        outputs: Whether each output is wanted.
    """

    op: str
    domain: str
    opset: int
    attributes: tuple[tuple[str, Attribute], ...]
    inputs: tuple[TensorSpec | None, ...]
    values: tuple[tuple[int, TensorValue], ...]
    outputs: tuple[bool, ...]


@lru_cache(maxsize=1 << 14)
def form_of(raw: RawLayer) -> Form:
    """The canonical form of a layer.

    Raises:
        ModelError: If the layer cannot work on its inputs.
    """
    schema = definition(raw.op, raw.domain, raw.opset)
    assert schema is not None
    check_definition(schema, dict(raw.attributes), raw.inputs, raw.outputs)
    specs = {f"<{i}": spec for i, spec in enumerate(raw.inputs) if spec is not None}
    values = {f"<{i}": tensor_array(value) for i, value in raw.values}
    layer = Layer(
        op=raw.op,
        inputs=tuple(f"<{i}" if spec is not None else "" for i, spec in enumerate(raw.inputs)),
        outputs=tuple(f">{i}" if wanted else "" for i, wanted in enumerate(raw.outputs)),
        attributes=dict(raw.attributes),
        domain=raw.domain,
    )
    if raw.domain:
        return Form((layer,), infer(layer, specs, values, raw.opset))
    draft = LayerDraft(layer.op, schema.since_version, dict(layer.attributes), list(layer.inputs),
                  list(layer.outputs), dict(specs), dict(values))  # fmt: skip
    try:
        for each in _PASSES:
            each.run(draft)
        return _finished(draft)
    except UnsupportedError as error:
        found = infer(layer, specs, values, raw.opset)
        return Form((layer,), found, unsupported=error.message)
    except (DLBricksError, MemoryError):
        raise
    except Exception as error:
        # The passes rely on the definition. A layer that breaks it may raise anything in them.
        raise ModelError(
            f"{raw.op} has attributes or inputs that do not fit its definition: {reason(error)}",
            hint="The file may not be a valid ONNX model; try onnx.checker on it.",
        ) from error


def _finished(draft: LayerDraft) -> Form:
    layers = list(draft.before)
    if any(name not in draft.results for name in draft.outputs):
        layers.append(Layer(draft.op, tuple(draft.inputs), tuple(draft.outputs), draft.attributes))
    layers += draft.after
    for layer in layers:
        if layer.op == "Identity":
            draft.specs[layer.outputs[0]] = draft.specs[layer.inputs[0]]
        else:
            draft.specs.update(infer(layer, draft.specs, draft.values))
    read = {name for layer in layers for name in layer.inputs if name[:1] != "<"}
    return Form(
        layers=tuple(layers),
        specs={name: spec for name, spec in draft.specs.items() if name[:1] != "<"},
        constants={name: value for name, value in draft.values.items()
                   if name in read and name not in draft.results},
        results=draft.results,
    )  # fmt: skip


def missing_reason(layer: Layer, outputs: Iterable[TensorSpec]) -> str:
    """Reason why a layer with static inputs has outputs without a static shape."""
    if any(spec.dtype == "undefined" for spec in outputs):
        return f"result that is no tensor ({layer.op}){_ADVICE.get(layer.op, '')}"
    return f"data-dependent shape ({layer.op})"


_ADVICE = {"ZipMap": "; exporters leave it out with the option zipmap=False"}
"""Advice on results that are no tensors by operator."""
