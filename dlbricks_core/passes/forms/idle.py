"""Canonical form of layers that do less outside of training, and of casts to the same type."""

from __future__ import annotations

import numpy as np

from dlbricks_core.errors import UnsupportedError
from dlbricks_core.ir import TensorSpec
from dlbricks_core.ir.tensors import DTYPE_NUMBERS
from dlbricks_core.passes.forms.draft import LayerDraft
from dlbricks_core.passes.forms.results import filled


def batch_normalization(draft: LayerDraft) -> None:
    """BatchNormalization: with the statistics that it is given."""
    if not draft.attributes.pop("training_mode"):
        draft.outputs[1:] = []
        return
    raise UnsupportedError("BatchNormalization in training mode")


def dropout(draft: LayerDraft) -> None:
    """Dropout: an Identity; its mask is true everywhere."""
    if draft.is_open(2) or draft.value(2):
        raise UnsupportedError("Dropout in training mode")
    if len(draft.outputs) > 1 and draft.outputs[1]:
        filled(draft, draft.outputs[1], TensorSpec("bool", draft.sizes()), np.ones)
    draft.outputs[1:] = []
    draft.become("Identity", draft.inputs[0])


def cast(draft: LayerDraft) -> None:
    """Cast: an Identity where the type is the same."""
    if draft.attributes["to"] == DTYPE_NUMBERS[draft.spec(0).dtype]:
        draft.become("Identity", draft.inputs[0])


def cast_like(draft: LayerDraft) -> None:
    """CastLike: a Cast to the type of its second input."""
    draft.become(
        "Cast",
        draft.inputs[0],
        **{**draft.attributes, "to": DTYPE_NUMBERS[draft.spec(1).dtype]},
    )
    cast(draft)
