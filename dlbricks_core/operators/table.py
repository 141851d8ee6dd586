"""The table: one row for each operator, by its type with its domain in front."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dlbricks_core.ir.model import Layer
from dlbricks_core.operators import (
    arithmetic,
    attention,
    classical,
    functions,
    movement,
    normalization,
    others,
    products,
    quantized,
    recurrent,
    reductions,
)
from dlbricks_core.operators.operator import Lacks, Operator, kept

_FAMILIES = (
    arithmetic, attention, classical, functions, movement, normalization, others, products,
    quantized, recurrent, reductions,
)  # fmt: skip

OPERATORS: Mapping[str, Operator] = {
    op: row for family in _FAMILIES for op, row in family.ROWS.items()
}
"""Row of each operator, by :attr:`Layer.qualified_op`. To add an operator is to add its row."""

_STRANGER = Lacks("nobody has defined it")
_UNKNOWN = Operator(kind=_STRANGER, flops=_STRANGER, ranges=_STRANGER, power=kept, inputs=())


def operator(qualified_op: str) -> Operator:
    """Row of an operator; for an undefined operator, a row without facts.

    Args:
        qualified_op: Type of the operator, with its domain in front unless that is ``ai.onnx``.
    """
    return OPERATORS.get(qualified_op, _UNKNOWN)


def standing_for(layer: Layer) -> Operator:
    """Row of a layer's operator, or of the one of ONNX that has its name.

    Frameworks write operators of ONNX into domains of their own, sometimes with ``Fused`` in
    front. Values and features of such layers are those of the plain operator.
    """
    return OPERATORS.get(layer.qualified_op) or operator(plain(layer.op))


def plain(op: str) -> str:
    """Operator without the marks that it has an activation, or reads and writes codes."""
    return op.removeprefix("Fused").removeprefix("QLinear")


def made_into_indices(layers: Sequence[Layer]) -> frozenset[str]:
    """Names of tensors that are indices, lengths or shifts, or from which these are computed.

    Args:
        layers: In topological order.
    """
    found: set[str] = set()
    for layer in reversed(layers):
        positions = operator(layer.qualified_op).indices
        found.update(name for at, name in enumerate(layer.inputs) if name and at in positions)
        if not found.isdisjoint(layer.outputs):
            found.update(layer.reads)
    return frozenset(found)
