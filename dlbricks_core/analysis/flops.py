"""Floating-point operations of layers, by the rules of the table of operators.

A rule counts the arithmetic operations of the operator's plain definition. An addition, a
multiplication, a comparison and an evaluation of a function (``exp``, ``tanh``) of one element
each count as one operation, so a multiply-add counts as two. The way in which a framework
computes a layer (Winograd, fused, in blocks) does not matter. Moving data counts as none. The
count of an operator without a rule is unknown, which is not zero.
"""

from __future__ import annotations

from dlbricks_core.ir import CanonicalModel, Layer
from dlbricks_core.operators.operator import Lacks
from dlbricks_core.operators.table import operator


def layer_flops(model: CanonicalModel, layer: Layer) -> int | None:
    """Floating-point operations of one layer; ``None`` if its operator has no rule.

    Args:
        model: Model in canonical form.
        layer: One of its layers; opaque layers have no count.
    """
    rule = operator(layer.qualified_op).flops
    inputs, outputs = model.specs(layer.inputs), model.specs(layer.outputs)
    known = all(spec is None or spec.is_static for spec in (*inputs, *outputs))
    if isinstance(rule, Lacks) or not known or layer.opaque:
        return None
    try:
        return rule(layer, inputs, outputs)
    except (ArithmeticError, LookupError, TypeError, ValueError):
        return None  # a layer that no runtime would run; it is listed among layers without a rule
