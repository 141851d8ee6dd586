"""Turns the results of a layer that reads only weights into weights."""

from __future__ import annotations

from dlbricks_core.ir import Array, Layer, TensorSpec
from dlbricks_core.ir.limits import MAX_CONSTANT_ELEMENTS
from dlbricks_core.operators.table import operator
from dlbricks_core.passes.evaluate import evaluate
from dlbricks_core.passes.pipeline import Pass, Property
from dlbricks_core.passes.steps.lowering import Lowering, Step


def _fold_constants(layer: Layer, lowering: Lowering) -> Layer | None:
    weights = lowering.weights
    reads_weights = layer.inputs and all(name in weights for name in layer.reads)
    return None if reads_weights and _is_folded(layer, lowering) else layer


def _is_folded(layer: Layer, lowering: Lowering) -> bool:
    if layer.domain or not operator(layer.op).folded:
        return False
    outputs = [name for name in layer.outputs if name]
    inputs = [lowering.values.get(name) if name else None for name in layer.inputs]
    known = all(value is not None or not name
                for name, value in zip(layer.inputs, inputs, strict=True))  # fmt: skip
    specs = [lowering.tensors[name] for name in outputs]
    static = all(spec.is_static for spec in specs)
    if known and not (static and any(s.elements > MAX_CONSTANT_ELEMENTS for s in specs)):
        results = _results(layer, inputs, lowering)
        if results is not None:
            for name, value in zip(outputs, results, strict=True):
                lowering.tensors[name] = TensorSpec(lowering.tensors[name].dtype, value.shape)
                lowering.add_weight(name, value)
            return True
    if static:
        lowering.weights.update(outputs)
        if not known:
            _keep(layer, lowering)
    return static


_ARRANGING = frozenset({"copy", "gather", "transpose", "view"})
"""Classes of layers that arrange elements anew."""


def _keep(layer: Layer, lowering: Lowering) -> None:
    """Keeps a folded layer for frameworks that compute it in each run.

    Rearranging a weight costs nothing in each run: frameworks read it through strides, and
    exporters write such layers although the program has none. A layer that reads only known values
    represents a weight that the file lacks.
    """
    kind = operator(layer.op).kind
    arranges = isinstance(kind, str) and kind.partition(":")[0] in _ARRANGING and layer.op != "Cast"
    if not arranges or not lowering.computed.isdisjoint(layer.reads):
        lowering.folded.append(layer)
        lowering.computed.update(filter(None, layer.outputs))


def _results(
    layer: Layer, inputs: list[Array | None], lowering: Lowering
) -> tuple[Array, ...] | None:
    if layer.op == "Identity":
        value = inputs[0]
        return None if value is None else (value,)
    return evaluate(layer, inputs, lowering.tensors)


FOLD_CONSTANTS: Step = Pass.of(
    _fold_constants, requires=[Property.FORM_CANONICAL], ensures=[Property.NOT_FOLDED]
)
