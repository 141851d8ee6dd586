"""Layers whose time depends on the values that they read, and not on shapes alone."""

from __future__ import annotations

from dataclasses import dataclass

from dlbricks_core.analysis.work import layer_flops
from dlbricks_core.ir import CanonicalModel, Layer
from dlbricks_core.operators import operator

_BRANCH, _MISS = 50, 500
"""Operations in the time of a branch that was predicted wrongly, 5 ns, and of a row of a table that
no cache holds, 50 ns (research/2026-11-29-values.md)."""

_CACHED = 1 << 20
"""Bytes of a table that the caches of a core hold, whichever rows are read."""

_LEAST = 0.05
"""Least share of a model's operations that such layers stand for where they matter."""


@dataclass(frozen=True)
class ByValues:
    """Layers of a model whose time depends on values so much that the model's does.

    Attributes:
        operators: Operators that branch on each value, each once.
        tables: Number of tables whose rows inputs of the model choose.
        table_bytes: Bytes of these tables.
    """

    operators: tuple[str, ...] = ()
    tables: int = 0
    table_bytes: int = 0

    @classmethod
    def of(cls, model: CanonicalModel) -> ByValues:
        """Layers of a model in canonical form."""
        branching = [each for each in model.layers if operator(each.qualified_op).branches]
        reading = [each for each in model.layers if _reads_large_table(model, each)]
        found = cls()
        if branching and _matters(model, sum(_BRANCH * _read(model, e, 0) for e in branching)):
            found = cls(tuple(dict.fromkeys(each.op for each in branching)))
        if reading and _matters(model, sum(_MISS * _read(model, each, 1) for each in reading)):
            tables = {each.inputs[0] for each in reading}
            size = sum(model.tensors[name].nbytes for name in tables)
            found = cls(found.operators, len(tables), size)
        return found


def _reads_large_table(model: CanonicalModel, layer: Layer) -> bool:
    """Whether inputs of the model choose the rows of a large weight that a layer reads."""
    if layer.opaque or not operator(layer.qualified_op).looks_up or len(layer.inputs) < 2:
        return False
    table, places = layer.inputs[:2]
    is_chosen = table in model.weights and places not in model.weights
    return is_chosen and model.tensors[table].nbytes >= _CACHED


def _read(model: CanonicalModel, layer: Layer, position: int) -> int:
    """Number of elements of an input."""
    spec = model.tensors[layer.inputs[position]]
    return 0 if layer.opaque or not spec.is_static else spec.elements


def _matters(model: CanonicalModel, operations: int) -> bool:
    """Whether some operations are a notable share of those of a model."""
    left = operations / _LEAST - operations
    for layer in model.layers:
        left -= layer_flops(model, layer) or 0
        if left < 0:  # a large model need not be counted to its end
            return False
    return operations > 0
