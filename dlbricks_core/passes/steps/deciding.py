"""Inputs of a model that decide shapes or branches, and so have to have a value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dlbricks_core.ir import Layer, TensorSpec
from dlbricks_core.operators.table import operator
from dlbricks_core.passes.steps.lowering import Lowering
from dlbricks_core.wording import settings

_MOST_NUMBERS = 16
"""Maximum elements of an input for which users are asked to write values."""

_POSITIONS: Mapping[str, tuple[int, ...]] = {
    "If": (0,),
    "Loop": (0, 1),
    "SequenceAt": (1,),
    "SequenceErase": (1,),
    "SequenceInsert": (2,),
    "SplitToSequence": (1,),
}
"""Positions of the inputs that decide how operators work that are gone in canonical form."""


def decided_by(layer: Layer, lowering: Lowering) -> str:
    """End of a reason that names the inputs whose values decide how a layer works.

    Returns:
        An empty text if no input decides, or if a deciding input is too large to be written.
    """
    positions = _POSITIONS.get(layer.op, ()) or operator(layer.qualified_op).parameters
    asked = {name for at, name in enumerate(layer.inputs) if at in positions}
    deciding = _sources(asked, lowering)
    specs = {name: lowering.tensors[name] for name in deciding}
    if not specs or not all(_is_short(spec, name in asked) for name, spec in specs.items()):
        return ""
    numbers = {
        name: ["N"] * spec.elements if spec.elements > 1 else "N" for name, spec in specs.items()
    }
    return f", decided by the input {' and '.join(deciding)}: give {settings(values=numbers)}"


def _is_short(spec: TensorSpec, is_read: bool) -> bool:
    """Whether users can write an input's value.

    Several floats are data, unless a layer reads them as its parameters.
    """
    if not spec.is_static or spec.elements > _MOST_NUMBERS:
        return False
    return spec.elements == 1 or is_read or not spec.dtype.startswith(("float", "bfloat"))


def _sources(asked: Iterable[str], lowering: Lowering) -> list[str]:
    """Inputs of the model that tensors without a known value follow from."""
    made = {name: each for each in lowering.layers for name in each.outputs}
    seen: set[str] = set()
    left = [name for name in asked if name]
    while left:
        name = left.pop()
        if name not in seen and name not in lowering.values:
            seen.add(name)
            left += made[name].reads if name in made else ()
    return [name for name in lowering.model.inputs if name in seen]
