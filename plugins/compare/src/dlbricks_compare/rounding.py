"""Operators that round their inputs to fewer bits than types have, draw numbers, or break ties."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from enum import StrEnum

from dlbricks_core.ir import CanonicalModel, Layer
from dlbricks_core.operators import operator
from dlbricks_core.operators.others import RANDOM

_LEVELS: Mapping[object, float] = {2: 2**-10, 3: 2**-7, 4: 2**-7}
"""Unit of precision by accuracy level, the least precise type that a kernel may compute in:
float16, bfloat16, and integers of eight bits. These have 127 steps from zero to the greatest number
of a block of activations.
"""

_CODING = ("QuantizeLinear", "DynamicQuantizeLinear", "QLinear")
"""Beginnings of the names of operators that write codes."""

_PRODUCTS = frozenset({"Conv", "Gemm", "MatMul"})
"""Operators that runtimes fuse with the layer that dequantizes their weights."""

_BITS = re.compile(r"u?int(\d+)$")


_SHORT: Mapping[str, float] = {"float16": 2**-10, "bfloat16": 2**-7}
"""Rounding unit of floats below 32 bits."""


_RANKING = "TopK"
"""Operator that tells places of values in their order. ONNX says which of equal values comes first;
frameworks of their own operators do not follow.
"""


class Rounding(StrEnum):
    """Why results of a layer are less precise than their type."""

    ALLOWED = "may round its inputs to few bits (accuracy_level)"
    CODES = "rounds to codes, which may differ by one unit in the last place"
    SHORT = "has fewer bits than the type of an output"
    FUSED = "may be fused with the DequantizeLinear before it, and round its inputs to eight bits"


def rounding_of(model: CanonicalModel, layer: Layer) -> tuple[Rounding, float] | None:
    """Way in which a layer rounds, and the rounding unit relative to the rounded values.

    Returns:
        ``None`` if results are as precise as their type.
    """
    unit = _LEVELS.get(layer.attributes.get("accuracy_level"))
    if unit:
        return Rounding.ALLOWED, unit
    if layer.op.startswith(_CODING):
        bits = _BITS.match(model.tensors[layer.outputs[0]].dtype)
        return Rounding.CODES, 2.0 ** -(int(bits[1]) - 1 if bits else 3)
    makers = (model.layers[model.producers[n]] for n in layer.inputs if n in model.producers)
    if layer.op in _PRODUCTS and any(each.op == "DequantizeLinear" for each in makers):
        return Rounding.FUSED, 2.0**-7
    short = _short_type(model, layer)
    return (Rounding.SHORT, _SHORT[short]) if short else None


def _short_type(model: CanonicalModel, layer: Layer) -> str:
    """Least precise type of a layer's results that is a short float; empty without one."""
    types = (model.tensors[name].dtype for name in layer.outputs if name)
    return max((each for each in types if each in _SHORT), key=_SHORT.__getitem__, default="")


def rounding_layers(model: CanonicalModel) -> Mapping[tuple[str, Rounding], int]:
    """Number of layers that round, by operator and by the way in which they do.

    Layers whose results have a short type count by this type.
    """
    return Counter(
        (_short_type(model, layer) if how is Rounding.SHORT else layer.op, how)
        for layer in model.layers
        for how, _ in filter(None, [rounding_of(model, layer)])
    )


def precisions(model: CanonicalModel) -> Mapping[str, float]:
    """Coarsest unit that any layer on the way to an output rounds to, for outputs with such layers.

    Outputs whose own type is as coarse are left out.

    Args:
        model: Model in canonical form.
    """
    coarsest: dict[str, float] = {}
    for layer in model.layers:
        reached = (coarsest.get(name, 0.0) for name in layer.reads)
        rounding = rounding_of(model, layer)
        unit = max((rounding[1] if rounding else 0.0, *reached))
        if unit:
            coarsest.update(dict.fromkeys(filter(None, layer.outputs), unit))
    return {
        name: unit
        for name in model.outputs
        if (unit := coarsest.get(name, 0.0)) > _SHORT.get(model.tensors[name].dtype, 0.0)
    }


def random_outputs(model: CanonicalModel) -> Mapping[str, str]:
    """Operator that draws the random numbers behind an output, for outputs with one."""
    drawn: dict[str, str] = {}
    for layer in model.layers:
        behind = next((drawn[name] for name in layer.reads if name in drawn), "")
        source = layer.op if operator(layer.qualified_op).kind == RANDOM else behind
        if source:
            drawn.update(dict.fromkeys(filter(None, layer.outputs), source))
    return {name: drawn[name] for name in model.outputs if name in drawn}


def ranked_outputs(model: CanonicalModel) -> frozenset[str]:
    """Outputs that follow from places of values in their order, which ties leave open."""
    ranked: set[str] = set()
    for layer in model.layers:
        places = [*layer.outputs[1:]] if layer.op == _RANKING else []
        reached = not ranked.isdisjoint(layer.reads)
        ranked.update(filter(None, layer.outputs if reached else places))
    return frozenset(ranked.intersection(model.outputs))
