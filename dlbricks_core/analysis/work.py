"""Work of models: operations and bytes, as far as they follow without running a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from dlbricks_core.ir import CanonicalModel, Layer
from dlbricks_core.operators import Traffic, operator
from dlbricks_core.operators.operator import Lacks

# Floating-point operations of layers, by the rules of the table of operators.
#
# A rule counts the arithmetic operations of the operator's plain definition. An addition, a
# multiplication, a comparison and an evaluation of a function (``exp``, ``tanh``) of one element
# each count as one operation, so a multiply-add counts as two. The way in which a framework
# computes a layer (Winograd, fused, in blocks) does not matter. Moving data counts as none. The
# count of an operator without a rule is unknown, which is not zero.


def layer_flops(model: CanonicalModel, layer: Layer) -> int | None:
    """Floating-point operations of one layer; ``None`` if it is opaque or has no rule."""
    rule = operator(layer.qualified_op).flops
    inputs, outputs = model.specs(layer.inputs), model.specs(layer.outputs)
    known = all(spec is None or spec.is_static for spec in (*inputs, *outputs))
    if isinstance(rule, Lacks) or not known or layer.opaque:
        return None
    try:
        return rule(layer, inputs, outputs)
    except (ArithmeticError, LookupError, TypeError, ValueError):
        return None  # a layer that no runtime would run; it is listed among layers without a rule


@dataclass(frozen=True)
class Work:
    """Work of all layers of a model together.

    Attributes:
        flops: Floating-point operations of the layers whose operator has a rule.
        moved_bytes: Bytes that the layers read and write, each layer on its own: the
            tensors of every layer whose sizes are known.
        weight_bytes: Size of all weights, each once.
        without_flops: Layers that ``flops`` lacks, by operator.
        without_bytes: Layers that ``moved_bytes`` lacks, by operator.
    """

    flops: int
    moved_bytes: int
    weight_bytes: int
    without_flops: Mapping[str, int]
    without_bytes: Mapping[str, int]

    @classmethod
    def of(cls, model: CanonicalModel) -> Work:
        """Work of a model in canonical form."""
        flops, moved = 0, 0
        without_flops: Counter[str] = Counter()
        without_bytes: Counter[str] = Counter()
        for layer in model.layers:
            operations, traffic = layer_flops(model, layer), layer_bytes(model, layer)
            flops += operations or 0
            moved += traffic or 0
            without_flops[layer.qualified_op] += operations is None
            without_bytes[layer.qualified_op] += traffic is None
        weights = model.weight_bytes
        return cls(flops, moved, weights, +without_flops, +without_bytes)


def layer_bytes(model: CanonicalModel, layer: Layer) -> int | None:
    """Bytes of the tensors that a layer reads and writes, weights included, each once.

    ``None`` if a size is unknown or the layer is opaque.
    """
    reads, writes = layer.reads, [name for name in layer.outputs if name]
    known = all(model.tensors[name].is_static for name in (*reads, *writes))
    if layer.opaque or not known:
        return None
    row = operator(layer.qualified_op)
    if row.traffic is Traffic.VIEW:
        return 0
    written = sum(model.tensors[name].nbytes for name in writes)
    if row.traffic is Traffic.PICKED:
        reads = reads[1:]
        written *= 2
    picked = {name for at, name in enumerate(layer.inputs) if name and row.input(at).table}
    written += len(picked) * model.tensors[layer.outputs[0]].nbytes if picked else 0
    return written + sum(model.tensors[name].nbytes for name in reads if name not in picked)
