"""Keeps a layer whose operator has no known definition, if the producer describes its results."""

from __future__ import annotations

from dlbricks_core.ir import Layer
from dlbricks_core.passes.pipeline import Pass, Property
from dlbricks_core.passes.schemas import definition
from dlbricks_core.passes.steps.lowering import Lowering, Step
from dlbricks_core.passes.steps.mark_opaque import MARK_OPAQUE


def _require_definitions(layer: Layer, lowering: Lowering) -> Layer | None:
    opset = lowering.opset_of(layer)
    schema = definition(layer.op, layer.domain, opset)
    if schema is None:
        _add_described(layer, lowering)
        return None
    own = lowering.model.opsets.get(layer.domain, opset)
    other = definition(layer.op, layer.domain, own)
    if layer.domain and (other is None or other.since_version != schema.since_version):
        reason = f"function of opset {opset} of {layer.domain} in a model of opset {own}"
        lowering.add_opaque(layer, reason)
        return None
    return layer


def _add_described(layer: Layer, lowering: Lowering) -> None:
    """Adds a layer whose results have the shapes that the producer wrote."""
    outputs = [name for name in layer.outputs if name]
    if not all(lowering.declared[name].is_static for name in outputs):
        advice = _ADVICE.get(layer.domain, "")
        lowering.add_opaque(layer, f"unknown operator {layer.qualified_op}{advice}")
        return
    lowering.tensors.update({name: lowering.declared[name] for name in outputs})
    described = MARK_OPAQUE.run(layer, lowering)
    if described is not None:
        lowering.layers.append(described)


REQUIRE_DEFINITIONS: Step = Pass.of(
    _require_definitions,
    requires=[Property.INPUTS_STATIC, Property.NO_SUBGRAPH],
    ensures=[Property.DEFINED],
)

_ADVICE = {
    "com.microsoft.nchwc": "; ONNX Runtime wrote it for one processor: name the file from "
    "before its optimizations",
}
"""Advice on operators without a definition by domain."""
