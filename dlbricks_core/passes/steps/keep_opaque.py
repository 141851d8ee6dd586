"""Keeps a layer as it is if it is opaque from the start."""

from __future__ import annotations

from dlbricks_core.ir import Layer
from dlbricks_core.passes.pipeline import Pass, Property
from dlbricks_core.passes.steps.lowering import Lowering, Step


def _keep_opaque(layer: Layer, lowering: Lowering) -> Layer | None:
    if not layer.opaque:
        return layer
    lowering.add_opaque(layer, layer.opaque)
    return None


KEEP_OPAQUE: Step = Pass.of(
    _keep_opaque, requires=[Property.NAMES_RESOLVED], ensures=[Property.MAY_BE_TIMED]
)
