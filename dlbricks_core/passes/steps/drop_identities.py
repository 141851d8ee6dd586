"""Removes an Identity by renaming, unless both names are needed outside of the layers."""

from __future__ import annotations

from dlbricks_core.ir import Layer
from dlbricks_core.passes.pipeline import Pass, Property
from dlbricks_core.passes.steps.lowering import Lowering, Step


def _place_identity(layer: Layer, lowering: Lowering) -> Layer | None:
    """Adds an Identity, whose canonical form equals its raw form for every type."""
    if not _is_identity(layer):
        return layer
    lowering.tensors[layer.outputs[0]] = lowering.tensors[layer.inputs[0]]
    lowering.place(layer)
    return None


def _drop_identity(layer: Layer, lowering: Lowering) -> Layer | None:
    return None if _is_identity(layer) and _is_dropped(layer, lowering) else layer


def _is_identity(layer: Layer) -> bool:
    return layer.op == "Identity" and not layer.domain


def _is_dropped(layer: Layer, lowering: Lowering) -> bool:
    (source,), (result,) = layer.inputs, layer.outputs
    captured, outputs = lowering.captured, lowering.model.output_names
    if result in captured or (result in outputs and source in captured):
        lowering.kept_for_captures = True
        return False
    if result in outputs:
        if source in lowering.fixed or source in lowering.renamed:
            return False
        lowering.renamed[source] = result
    lowering.aliases[result] = source
    return True


PLACE_IDENTITIES: Step = Pass.of(
    _place_identity, requires=[Property.NAMES_RESOLVED, Property.MAY_BE_TIMED]
)

DROP_IDENTITIES: Step = Pass.of(
    _drop_identity,
    requires=[Property.FORM_CANONICAL, Property.NOT_FOLDED],
    ensures=[Property.NOT_IDLE],
)
