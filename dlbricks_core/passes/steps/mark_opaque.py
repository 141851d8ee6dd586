"""Makes a layer opaque if it works on text, or if its results have no static shape."""

from __future__ import annotations

from dlbricks_core.ir import Layer
from dlbricks_core.passes.forms.form import missing_reason
from dlbricks_core.passes.pipeline import Pass, Property
from dlbricks_core.passes.steps.deciding import decided_by
from dlbricks_core.passes.steps.lowering import Lowering, Step

_TEXT = "works on text, which is not timed"


def _mark_opaque(layer: Layer, lowering: Lowering) -> Layer | None:
    tensors = lowering.tensors
    results = [tensors[name] for name in layer.outputs if name]
    if any(tensors[n].dtype == "string" for n in (*layer.reads, *layer.outputs) if n):
        lowering.add_opaque(layer, _TEXT)
        return None
    if not all(spec.is_static for spec in results):
        reason = missing_reason(layer, results)
        lowering.add_opaque(layer, f"{reason}{decided_by(layer, lowering)}")
        return None
    return layer


MARK_OPAQUE: Step = Pass.of(
    _mark_opaque,
    requires=[Property.NOT_FOLDED, Property.NOT_IDLE],
    ensures=[Property.MAY_BE_TIMED],
)
