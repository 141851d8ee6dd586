"""Refuses a lookup beyond the end of a table, such as one of learned positions."""

from __future__ import annotations

from dlbricks_core.errors import ModelError, shown
from dlbricks_core.ir import Layer
from dlbricks_core.passes.pipeline import Pass, Property
from dlbricks_core.passes.steps.lowering import Lowering, Step


def _check_rows(layer: Layer, lowering: Lowering) -> Layer:
    if layer.op != "Gather" or layer.domain:
        return layer
    table, rows = layer.inputs
    wanted, axis = lowering.values.get(rows), layer.attributes["axis"]
    assert isinstance(axis, int)
    size = lowering.tensors[table].sizes[axis]
    beyond = [] if wanted is None else wanted[(wanted < -size) | (wanted >= size)].tolist()
    if beyond:
        raise ModelError(
            f"it reads row {beyond[-1]} of {shown(table)}, which has {size}",
            hint="Choose smaller sizes: of learned positions, a text cannot have more.",
        )
    return layer


CHECK_ROWS: Step = Pass.of(_check_rows, requires=[Property.FORM_CANONICAL])
