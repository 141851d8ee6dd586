"""Inference of the types and shapes of a layer's outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx.checker
from onnx import TypeProto, helper, shape_inference

from dlbricks_core.errors import WRONG_SIZES, DLBricksError, ModelError
from dlbricks_core.ir import Array, Layer, TensorSpec, dtype_name, numpy_dtype
from dlbricks_core.ir.attributes import tensor_proto, tensor_value
from dlbricks_core.ir.limits import MAX_RUN_ELEMENTS, check_shape
from dlbricks_core.ir.onnx_writer import NEWEST_OPSET, node_proto, required_opset
from dlbricks_core.ir.tensors import DTYPE_NAMES, DTYPE_NUMBERS
from dlbricks_core.operators.domains import added_operators
from dlbricks_core.operators.others import DOMAIN as CLASSICAL
from dlbricks_core.operators.results import CLASSICAL_RULES, LayerInputs, Rule
from dlbricks_core.operators.table import operator
from dlbricks_core.passes.evaluate import run_layer
from dlbricks_core.passes.schemas import definition

_MAX_LETTERS = 200

UNKNOWN = TensorSpec("undefined", None)


def infer(
    layer: Layer,
    specs: Mapping[str, TensorSpec],
    values: Mapping[str, Array],
    opset: int | None = None,
) -> dict[str, TensorSpec]:
    """Specification of each output, as far as it can be known.

    Args:
        layer: A layer of a domain with known operator definitions.
        specs: Specification of each input.
        values: Values of inputs, as far as they are known.
        opset: Version that the layer follows; by default the canonical version, or a later version
            if the layer needs it.

    Raises:
        ModelError: If the layer cannot work on these inputs.
    """
    found = _results(layer, specs, values, opset)
    for spec in found.values():
        check_shape(spec.shape or ())
    return found


def _results(
    layer: Layer,
    specs: Mapping[str, TensorSpec],
    values: Mapping[str, Array],
    opset: int | None,
) -> dict[str, TensorSpec]:
    rule = _own_rule(layer)
    if rule is not None:
        return _ruled(rule, layer, specs, values)
    outputs = [name for name in layer.outputs if name]
    if opset is None:
        try:
            common = _common(layer, specs, values)
        except ValueError as error:
            raise _misfit(layer, str(error)) from error
        if common is not None:
            return {outputs[0]: common}
        opset = required_opset(layer, {**dict.fromkeys(outputs, UNKNOWN), **specs})
    try:
        try:
            types = _inferred(layer, specs, values, opset)
        except onnx.checker.ValidationError:
            # The type of a result that an attribute names may ask for a later definition.
            opset = NEWEST_OPSET
            types = _inferred(layer, specs, values, opset)
    except (DLBricksError, MemoryError):
        raise
    except Exception as error:
        # Inference raises many things, and is stricter than runtimes in places: what can be run
        # is right.
        run = _stand_in(layer, specs, values, opset)
        if run is not None:
            return run
        raise _misfit(layer, _last_line(error)) from error
    found = {name: _spec(types[name]) if name in types else UNKNOWN for name in outputs}
    if layer.op == "Attention" and not layer.domain:
        found |= _first_cache(layer, specs)
    if all(spec.is_static for spec in found.values()) or not _has_fixed_shape(layer, values):
        return found
    return _stand_in(layer, specs, values, opset) or found


def _first_cache(layer: Layer, specs: Mapping[str, TensorSpec]) -> dict[str, TensorSpec]:
    """Cache that an attention without one begins, which general inference leaves open."""
    if any(layer.inputs[4:6]):
        return {}
    found = {}
    for new, cache in zip(layer.inputs[1:3], layer.outputs[1:3], strict=False):
        sizes = specs[new].sizes
        heads = layer.attributes.get("kv_num_heads")
        if len(sizes) == 3 and isinstance(heads, int) and heads > 0:
            sizes = (sizes[0], heads, sizes[1], sizes[2] // heads)
        if cache and len(sizes) == 4:
            found[cache] = TensorSpec(specs[new].dtype, sizes)
    return found


def _own_rule(layer: Layer) -> Rule | None:
    """Rule for an operator whose results ONNX's inference does not know."""
    if layer.domain == CLASSICAL:
        return CLASSICAL_RULES.get(layer.op)
    own = added_operators().get((layer.domain, layer.op))
    return own.shapes if own else None


def _ruled(
    rule: Rule, layer: Layer, specs: Mapping[str, TensorSpec], values: Mapping[str, Array]
) -> dict[str, TensorSpec]:
    """Results by a rule of ours."""
    asked = LayerInputs(
        layer,
        tuple(specs[name] if name else None for name in layer.inputs),
        tuple(values.get(name) for name in layer.inputs),
    )
    try:
        found = _sized(rule(asked))
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise _misfit(layer, str(error)) from error
    return {name: spec for name, spec in zip(layer.outputs, found, strict=False) if name}


def _misfit(layer: Layer, why: str) -> ModelError:
    return ModelError(f"{layer.op} does not fit its inputs: {why}", hint=WRONG_SIZES)


def _sized(found: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    if any(isinstance(size, int) and size < 0 for spec in found for size in spec.shape or ()):
        raise ValueError("a result would have a negative size")
    return found


def _common(
    layer: Layer, specs: Mapping[str, TensorSpec], values: Mapping[str, Array]
) -> TensorSpec | None:
    """Specification of the only result by a quick rule; ``None`` if ONNX must find it.

    Raises:
        ValueError: If the layer does not fit its inputs.
    """
    row = operator(layer.qualified_op)
    if row.shape is None or len(layer.outputs) != 1 or "" in layer.inputs or not layer.inputs:
        return None
    read = [specs[name] for name in layer.inputs]
    dtype = read[0].dtype
    if any(spec.dtype != dtype for at, spec in enumerate(read) if at not in row.parameters):
        return None
    known = [values.get(name) for name in layer.inputs]
    shape = row.shape(layer, [spec.sizes for spec in read], known)
    return None if shape is None else TensorSpec(dtype, shape)


def _inferred(
    layer: Layer, specs: Mapping[str, TensorSpec], values: Mapping[str, Array], opset: int
) -> dict[str, TypeProto]:
    schema = definition(layer.op, layer.domain, opset)
    assert schema is not None
    reads = layer.reads
    return shape_inference.infer_node_outputs(
        schema,
        node_proto(layer),
        {
            name: helper.make_tensor_type_proto(DTYPE_NUMBERS[spec.dtype], spec.shape)
            for name, spec in ((name, specs[name]) for name in reads)
        },
        {name: tensor_proto(tensor_value(values[name])) for name in reads if name in values},
        opset_imports=[helper.make_opsetid(layer.domain, opset)],
    )


def _has_fixed_shape(layer: Layer, values: Mapping[str, Array]) -> bool:
    """Whether the layer's output shapes follow from known shapes and values."""
    row = operator(layer.op)
    if layer.domain or row.sized_by_data:
        return False
    return all(
        not name or name in values or position not in row.parameters
        for position, name in enumerate(layer.inputs)
    )


def _stand_in(
    layer: Layer, specs: Mapping[str, TensorSpec], values: Mapping[str, Array], opset: int
) -> dict[str, TensorSpec] | None:
    """Specifications of the results for inputs of ones; ``None`` if the layer cannot run."""
    if sum(specs[name].elements for name in layer.reads) > MAX_RUN_ELEMENTS:
        return None
    inputs = {
        name: values[name]
        if name in values
        else np.ones(specs[name].sizes, dtype=numpy_dtype(specs[name].dtype))
        for name in layer.reads
    }
    results = run_layer(layer, inputs, opset)
    if results is None:
        return None
    return {
        name: TensorSpec(dtype_name(value.dtype), value.shape) for name, value in results.items()
    }


def _spec(proto: TypeProto) -> TensorSpec:
    if proto.WhichOneof("value") != "tensor_type":
        return UNKNOWN
    tensor = proto.tensor_type
    dtype = DTYPE_NAMES.get(tensor.elem_type, "undefined")
    if not tensor.HasField("shape"):
        return TensorSpec(dtype, None)
    dims = [dim.dim_value if dim.HasField("dim_value") else None for dim in tensor.shape.dim]
    return TensorSpec(dtype, tuple(dims))


def _last_line(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[-1].strip()[:_MAX_LETTERS] if lines else "shape inference failed"
