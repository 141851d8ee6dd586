"""Refuses inputs that are larger than a tensor may be."""

from __future__ import annotations

from dlbricks_core.errors import Border
from dlbricks_core.ir import RawModel
from dlbricks_core.ir.limits import check_shape
from dlbricks_core.passes.options import NormalizeOptions
from dlbricks_core.passes.pipeline import Pass, Property


def limit_inputs(model: RawModel, options: NormalizeOptions) -> RawModel:
    """The model itself, if its inputs are within the limits.

    Raises:
        ModelError: If an input has too many axes or elements.
    """
    for name in model.inputs:
        with Border("input", name):
            check_shape(model.tensors[name].shape or ())
    return model


LIMIT_INPUTS = Pass.of(
    limit_inputs, requires=[Property.INPUTS_SIZED], ensures=[Property.INPUTS_LIMITED]
)
