"""Einstein sums, as transpositions and one batched product for each pair of operands."""

from __future__ import annotations

from dlbricks_core.errors import UnsupportedError
from dlbricks_core.operators.ranges.weighted import spelled_out
from dlbricks_mxnet.lowering.context import LayerContext
from dlbricks_mxnet.lowering.limits import REAL
from dlbricks_mxnet.lowering.symbols import Shape, Symbol, op, product, reshape, transpose
from dlbricks_mxnet.lowering.table import lowers


@lowers("Einsum", types=REAL)
def _einsum(ctx: LayerContext) -> Symbol:
    ranks = [ctx.rank(i) for i in range(len(ctx.layer.inputs))]
    terms, result = spelled_out(str(ctx.attribute("equation")), ranks)
    if any(len(set(term)) < len(term) for term in terms):
        raise UnsupportedError("MXNet has none along a diagonal")
    sizes: dict[str, int] = {}
    for i, term in enumerate(terms):
        for label, size in zip(term, ctx.shape(i), strict=True):
            sizes[label] = max(sizes.get(label, 1), size)
    for i, term in enumerate(terms):
        if any(sizes[label] != n for label, n in zip(term, ctx.shape(i), strict=True)):
            raise UnsupportedError("MXNet has none with broadcasting")
    left, labels = _summed(ctx.input(0), terms[0], "".join([*terms[1:], result]))
    for i in range(1, len(terms)):
        needed = "".join([*terms[i + 1 :], result])
        right, others = _summed(ctx.input(i), terms[i], labels + needed)
        left, labels = _contracted((left, labels), (right, others), needed, sizes)
    left = transpose(left, [labels.index(label) for label in result]) if result else left
    return reshape(left, ctx.out_shape())


def _summed(x: Symbol, term: str, needed: str) -> tuple[Symbol, str]:
    """Sums over the labels that occur in no other operand and not in the result."""
    gone = tuple(i for i, label in enumerate(term) if label not in needed)
    if not gone:
        return x, term
    kept = "".join(label for label in term if label in needed)
    return op.sum(x, axis=gone, keepdims=False), kept


def _contracted(
    left: tuple[Symbol, str], right: tuple[Symbol, str], needed: str, sizes: dict[str, int]
) -> tuple[Symbol, str]:
    """Contracts two operands: (batch, rows, inner) times (batch, inner, columns)."""
    a, b = left[1], right[1]
    batch = "".join(c for c in a if c in b and c in needed)
    inner = "".join(c for c in a if c in b and c not in needed)
    rows = "".join(c for c in a if c not in b)
    columns = "".join(c for c in b if c not in a)

    def shape(*groups: str) -> Shape:
        return tuple(product([sizes[c] for c in group]) for group in groups)

    def arranged(x: Symbol, labels: str, *groups: str) -> Symbol:
        order = [labels.index(c) for group in groups for c in group]
        return reshape(transpose(x, order) if labels else x, shape(*groups))

    y = op.batch_dot(arranged(*left, batch, rows, inner), arranged(*right, batch, inner, columns))
    labels = batch + rows + columns
    return reshape(y, [sizes[c] for c in labels]), labels
