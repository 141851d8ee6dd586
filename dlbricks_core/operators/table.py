"""The table: one row for each operator, by its type with its domain in front."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, lru_cache

from dlbricks_core.ir import CanonicalModel
from dlbricks_core.ir.model import Layer
from dlbricks_core.operators import arithmetic, compound, functions, movement, others
from dlbricks_core.operators.domains import operator_domains
from dlbricks_core.operators.operator import Lacks, Operator, kept

TABLES: Sequence[Mapping[str, Operator]] = (
    arithmetic.ROWS, compound.ATTENTION_ROWS, compound.NORMALIZATION_ROWS, compound.RECURRENT_ROWS,
    functions.ELEMENT_ROWS, functions.REDUCTION_ROWS, functions.QUANTIZED_ROWS, movement.ROWS,
    others.ROWS, others.CLASSICAL_ROWS, compound.PRODUCT_ROWS,
)  # fmt: skip
"""Rows by family."""

OPERATORS: Mapping[str, Operator] = {op: row for table in TABLES for op, row in table.items()}
"""Row of each operator of ONNX, by :attr:`Layer.qualified_op`. To add one is to add its row."""


@cache
def added_rows() -> Mapping[str, Operator]:
    """Rows of the operators that distributions add, by :attr:`Layer.qualified_op`."""
    return {op: row for domain in operator_domains() for op, row in domain.rows().items()}


MOST_SIZES = 8
"""Maximum length of a vector of integers that may be a shape, or from which a shape is computed."""

_STRANGER = Lacks("nobody has defined it")
_UNKNOWN = Operator(kind=_STRANGER, flops=_STRANGER, ranges=_STRANGER, power=kept, inputs=())


@lru_cache(maxsize=4096)
def operator(qualified_op: str) -> Operator:
    """Row of an operator; for an undefined operator, a row without facts.

    Args:
        qualified_op: Type of the operator, with its domain in front unless that is ``ai.onnx``.
    """
    return OPERATORS.get(qualified_op) or added_rows().get(qualified_op, _UNKNOWN)


def standing_for(layer: Layer) -> Operator:
    """Row of a layer's operator, or of the one of ONNX that has its name.

    Frameworks write operators of ONNX into domains of their own, sometimes with ``Fused`` in
    front. Values and features of such layers are those of the plain operator.
    """
    own = operator(layer.qualified_op)
    return operator(plain(layer.op)) if own is _UNKNOWN else own


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


def caches_with_room(model: CanonicalModel) -> dict[str, str]:
    """Cache before attention, by the cache after it, where both are the same memory.

    A cache has room if it is as large before attention as after it. A program then hands over one
    buffer for both, and attention writes the new tokens into it. Where the buffers differ,
    attention copies the cache.
    """
    found = {}
    for layer in model.layers:
        for before, after in operator(layer.qualified_op).caches:
            names = (layer.inputs[before : before + 1], layer.outputs[after : after + 1])
            (past,), (present,) = (each or ("",) for each in names)
            if past and present and model.tensors[past] == model.tensors[present]:
                found[present] = past
    return found
