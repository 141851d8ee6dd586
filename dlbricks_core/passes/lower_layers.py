"""Lowers every layer of a raw model, in one sweep from the inputs to the outputs."""

from __future__ import annotations

from dataclasses import replace

from dlbricks_core.ir import CanonicalModel, RawModel
from dlbricks_core.passes.drop_unread import drop_unread
from dlbricks_core.passes.options import NormalizeOptions
from dlbricks_core.passes.pipeline import Pass, Property, check_order
from dlbricks_core.passes.steps.canonical_forms import CANONICAL_FORMS
from dlbricks_core.passes.steps.check_rows import CHECK_ROWS
from dlbricks_core.passes.steps.drop_identities import DROP_IDENTITIES, PLACE_IDENTITIES
from dlbricks_core.passes.steps.fold_constants import FOLD_CONSTANTS
from dlbricks_core.passes.steps.inline_branches import INLINE_BRANCHES
from dlbricks_core.passes.steps.keep_opaque import KEEP_OPAQUE
from dlbricks_core.passes.steps.lower_sequences import LOWER_SEQUENCES
from dlbricks_core.passes.steps.lowering import Lowering
from dlbricks_core.passes.steps.mark_opaque import MARK_OPAQUE
from dlbricks_core.passes.steps.require_definitions import REQUIRE_DEFINITIONS
from dlbricks_core.passes.steps.require_shapes import REQUIRE_SHAPES
from dlbricks_core.passes.steps.resolve_names import RESOLVE_NAMES

TO_FORM = (
    RESOLVE_NAMES,
    KEEP_OPAQUE,
    PLACE_IDENTITIES,
    INLINE_BRANCHES,
    LOWER_SEQUENCES,
    REQUIRE_SHAPES,
    REQUIRE_DEFINITIONS,
    CANONICAL_FORMS,
)
"""Steps that every layer of a raw model goes through."""

FROM_FORM = (CHECK_ROWS, FOLD_CONSTANTS, DROP_IDENTITIES, MARK_OPAQUE)
"""Steps that every layer in canonical form goes through."""

check_order((*TO_FORM, *FROM_FORM))


def lower_layers(model: RawModel, options: NormalizeOptions) -> CanonicalModel:
    """The model with every layer in canonical form, or opaque with the reason."""
    lowering = Lowering(model, TO_FORM, FROM_FORM)
    for layer in model.layers:
        lowering.take(layer)
    lowered = lowering.finish()
    if lowering.inlined and lowering.kept_for_captures:
        # Names that only the inlined subgraphs captured are free now.
        again = lower_layers(drop_unread(lowered, options).as_raw(), options)
        return replace(
            again,
            folded=lowered.folded.before(again.folded) if lowered.folded else again.folded,
            loop_steps=lowered.loop_steps + again.loop_steps,
        )
    return lowered


LOWER_LAYERS = Pass.of(
    lower_layers,
    requires=[Property.INPUTS_SIZED, Property.INPUTS_LIMITED, Property.LAYERS_LIVE],
    ensures=[
        Property.LAYERS_CANONICAL,
        Property.SHAPES_STATIC,
        Property.CONSTANTS_FOLDED,
        Property.IDENTITIES_NEEDED,
    ],
)
