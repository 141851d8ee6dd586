"""Makes a layer opaque if it reads a tensor without a known shape."""

from __future__ import annotations

from dlbricks_core.ir import Layer
from dlbricks_core.passes.pipeline import Pass, Property
from dlbricks_core.passes.steps.deciding import decided_by
from dlbricks_core.passes.steps.lowering import Lowering, Step


def _require_shapes(layer: Layer, lowering: Lowering) -> Layer | None:
    for name in layer.inputs:
        if name and not lowering.spec(name).is_static:
            origin = lowering.unshaped.get(name, name)
            reason = f"input without a known shape ({origin})"
            lowering.add_opaque(layer, f"{reason}{decided_by(layer, lowering)}", origin)
            return None
    return layer


REQUIRE_SHAPES: Step = Pass.of(
    _require_shapes,
    requires=[Property.NAMES_RESOLVED, Property.TENSORS_ONLY],
    ensures=[Property.INPUTS_STATIC],
)
