"""Lowers layers on sequences and optionals to layers on tensors, where constants decide these."""

from __future__ import annotations

from dataclasses import replace

from dlbricks_core.ir import CANONICAL_OPSET, Layer, TensorSpec, dtype_name
from dlbricks_core.passes.forms.form import missing_reason
from dlbricks_core.passes.pipeline import Pass, Property
from dlbricks_core.passes.shapes import UNKNOWN
from dlbricks_core.passes.steps.lowering import Lowering, Step


def _lower_sequences(layer: Layer, lowering: Lowering) -> Layer | None:
    lowered = lowering.sequences.lowered(layer)
    if lowered is None:
        return layer
    for name, value in lowered.constants.items():
        lowering.tensors[name] = TensorSpec(dtype_name(value.dtype), value.shape)
        lowering.add_weight(name, value)
    for part in lowered.layers:
        is_idle = part.op == "Identity"
        lowering.proceed(part if is_idle else replace(part, opset=CANONICAL_OPSET))
    if layer.outputs[0] not in lowering.tensors:
        # Others may read the sequence itself; if nobody does, the layer is dropped.
        lowering.add_opaque(layer, missing_reason(layer, [UNKNOWN]))
    return None


LOWER_SEQUENCES: Step = Pass.of(
    _lower_sequences,
    requires=[Property.NAMES_RESOLVED, Property.MAY_BE_TIMED],
    ensures=[Property.TENSORS_ONLY],
)
