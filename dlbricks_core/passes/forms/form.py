"""Canonical form of a layer, found once for all layers that differ only in names.

Layers repeat within a network and across the networks of a benchmark. So everything
about a layer that does not depend on names is kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

import numpy as np
import onnx.defs

from dlbricks_core.errors import (
    INVALID_MODEL,
    DLBricksError,
    ModelError,
    UnsupportedError,
    reason,
    shown,
)
from dlbricks_core.ir import Array, Attribute, Layer, Subgraph, TensorSpec, TensorValue, numpy_dtype
from dlbricks_core.ir.attributes import tensor_array
from dlbricks_core.ir.onnx_writer import NEWEST_OPSET
from dlbricks_core.passes.forms.canonicalize import canonicalize
from dlbricks_core.passes.forms.draft import LayerDraft
from dlbricks_core.passes.pipeline import Property, check_order, properties
from dlbricks_core.passes.schemas import definition
from dlbricks_core.passes.shapes import infer

# Brings layers that follow older operator definitions up to the canonical opset.
#
# ``UPGRADES`` holds functions by operator. Each carries a layer over an opset in which the form
# of the operator changed. Changes that only added element types, broadcasting, or attributes
# whose default is the old behaviour need no function.

Upgrade = Callable[[LayerDraft], None]

#: Version later than any opset, for operators that the canonical opset does not have by this name.
_ALWAYS = 1 << 30


@properties(
    requires=[Property.INPUTS_STATIC, Property.DEFINED, Property.VALID],
    ensures=[Property.OPSET_CANONICAL],
)
def upgrade(draft: LayerDraft) -> None:
    """Brings a draft that follows an older definition up to the canonical one.

    Raises:
        UnsupportedError: If the canonical definition cannot express the same.
    """
    for first, step in UPGRADES.get(draft.op, ()):
        if draft.since < first:
            step(draft)


def _integers_to_input(draft: LayerDraft, attribute: str, position: int) -> None:
    values = draft.take(attribute)
    if values is not None:
        draft.put_integers(position, [values] if isinstance(values, int) else values)


def _clip(draft: LayerDraft) -> None:
    dtype = numpy_dtype(draft.spec(0).dtype)
    for position, bound in enumerate(("min", "max"), start=1):
        value = draft.take(bound)
        # Old definitions wrote "no bound" as the largest float32.
        if value is not None and abs(value) < np.finfo(np.float32).max:
            draft.put(position, np.array(value, dtype=dtype))


def _pad(draft: LayerDraft) -> None:
    _integers_to_input(draft, "pads", 1)
    value = draft.take("value")
    if value is not None:
        draft.put(2, np.array(value, dtype=numpy_dtype(draft.spec(0).dtype)))


def _slice(draft: LayerDraft) -> None:
    for position, name in enumerate(("starts", "ends", "axes"), start=1):
        _integers_to_input(draft, name, position)


def _dropout(draft: LayerDraft) -> None:
    draft.take("ratio")


def _two_axes(draft: LayerDraft) -> None:
    """Softmax and its kin over all axes from ``axis`` on, as if they were one."""
    axis = draft.attributes.get("axis", 1)
    assert isinstance(axis, int)
    sizes = draft.sizes()
    axis %= max(len(sizes), 1)
    if math.prod(sizes[axis + 1 :]) == 1:
        draft.attributes["axis"] = axis
        return
    matrix = (math.prod(sizes[:axis]), math.prod(sizes[axis:]))
    data, result = draft.inputs[0], draft.outputs[0]
    flat = draft.constant("matrix", np.array(matrix, dtype=np.int64))
    full = draft.constant("shape", np.array(sizes, dtype=np.int64))
    draft.before.append(Layer("Reshape", (data, flat), ("flat",)))
    draft.inputs, draft.outputs, draft.attributes["axis"] = ["flat"], ["flat_result"], 1
    draft.after.append(Layer("Reshape", ("flat_result", full), (result,)))


def _batch_normalization(draft: LayerDraft) -> None:
    if draft.take("spatial") == 0 and math.prod(draft.sizes()[2:]) != 1:
        raise UnsupportedError("BatchNormalization with statistics for each position (spatial=0)")
    if any(draft.outputs[1:]):
        raise UnsupportedError("BatchNormalization in training mode")


def _upsample_scales(draft: LayerDraft) -> None:
    scales = draft.take("scales")
    draft.put(1, np.array(scales, dtype=np.float32))


def _upsample(draft: LayerDraft) -> None:
    """Upsample: a Resize of the first definition, except for the position of its sample points."""
    data, scales = draft.inputs
    mode = draft.attributes.get("mode", "nearest")
    draft.become("Resize", data, scales, mode="linear" if mode == "bilinear" else mode)
    _resize_10(draft)


def _resize_10(draft: LayerDraft) -> None:
    draft.inputs.insert(1, "")
    draft.attributes["coordinate_transformation_mode"] = "asymmetric"
    draft.attributes["nearest_mode"] = "floor"


def _resize_11(draft: LayerDraft) -> None:
    mode = draft.attributes.get("coordinate_transformation_mode")
    if mode == "tf_half_pixel_for_nn":
        raise UnsupportedError(f"Resize with coordinate_transformation_mode {mode!r}")


def _roi_align(draft: LayerDraft) -> None:
    draft.attributes["coordinate_transformation_mode"] = "output_half_pixel"


def _grid_sample(draft: LayerDraft) -> None:
    mode = draft.attributes.get("mode", "bilinear")
    names = {"bilinear": "linear", "bicubic": "cubic"}
    draft.attributes["mode"] = names.get(str(mode), mode)


def _group_normalization(draft: LayerDraft) -> None:
    """Scale and bias for each group become scale and bias for each channel."""
    groups, channels = draft.sizes(1)[0], draft.sizes()[1]
    if groups == channels:
        return
    column = draft.constant("column", np.array([groups, 1], dtype=np.int64))
    table = draft.constant("table", np.array([groups, channels // groups], dtype=np.int64))
    flat = draft.constant("channels", np.array([channels], dtype=np.int64))
    for position, name in enumerate(("scale", "bias"), start=1):
        given = draft.inputs[position]
        draft.before += [
            Layer("Reshape", (given, column), (f"{name}_column",)),
            Layer("Expand", (f"{name}_column", table), (f"{name}_table",)),
            Layer("Reshape", (f"{name}_table", flat), (name,)),
        ]
        draft.inputs[position] = name


def _dft(draft: LayerDraft) -> None:
    axis = draft.take("axis")
    draft.put(2, np.array(1 if axis is None else axis, dtype=np.int64))


def _scatter(draft: LayerDraft) -> None:
    draft.op = "ScatterElements"


_REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare")

#: Operator -> (first opset with a new form, function that turns the old form into it), ascending.
UPGRADES: Mapping[str, Sequence[tuple[int, Upgrade]]] = {
    "BatchNormalization": [(14, _batch_normalization)],
    "Clip": [(11, _clip)],
    "DFT": [(20, _dft)],
    "Dropout": [(12, _dropout)],
    "GridSample": [(20, _grid_sample)],
    "GroupNormalization": [(21, _group_normalization)],
    "Hardmax": [(13, _two_axes)],
    "LogSoftmax": [(13, _two_axes)],
    "Pad": [(11, _pad)],
    **{
        f"Reduce{kind}": [(18, partial(_integers_to_input, attribute="axes", position=1))]
        for kind in _REDUCTIONS
    },
    "ReduceSum": [(13, partial(_integers_to_input, attribute="axes", position=1))],
    "Resize": [(11, _resize_10), (13, _resize_11)],
    "RoiAlign": [(16, _roi_align)],
    "Scatter": [(_ALWAYS, _scatter)],
    "Slice": [(10, _slice)],
    "Softmax": [(13, _two_axes)],
    "Split": [(13, partial(_integers_to_input, attribute="split", position=1))],
    "Squeeze": [(13, partial(_integers_to_input, attribute="axes", position=1))],
    "TopK": [(10, partial(_integers_to_input, attribute="k", position=1))],
    "Unsqueeze": [(13, partial(_integers_to_input, attribute="axes", position=1))],
    "Upsample": [(9, _upsample_scales), (_ALWAYS, _upsample)],
}


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


_PASSES = (upgrade, canonicalize)
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
