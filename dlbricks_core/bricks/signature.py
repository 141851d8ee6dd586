"""Signatures: layer sequences of equal work have equal signatures."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from dlbricks_core.bricks.annotations import cold_tensors, native_to, weights_are_reread
from dlbricks_core.bricks.boundary import live_outputs
from dlbricks_core.bricks.zero_points import is_least, is_zero_point
from dlbricks_core.operators.table import operator

if TYPE_CHECKING:
    from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec

_HEX_DIGITS = 24
_VERSION = "2"
"""Part of every signature. Raise it when the work of a signature changes: with the canonical form,
this module, or the values with which bricks are timed."""


def signature(model: CanonicalModel, sequence: Iterable[int], numbers: Sequence[float] = ()) -> str:
    """Identity of a layer sequence.

    It covers topology, operators, attributes, shapes, element types, which results are used
    outside, the values of small constants that change the work (axes, pads, target shapes), and
    the annotations of the model. It never covers names or the values of weights.

    Args:
        model: Model in canonical form.
        sequence: Layer indices, in the order in which they run.
        numbers: Values of constants that distinguish the sequence from others.

    Returns:
        24 hexadecimal digits.
    """
    indices = tuple(sequence)
    live, cold = live_outputs(model, indices), cold_tensors(model)
    seen: dict[str, str] = {}
    words = [_VERSION, *filter(None, [native_to(model)])]
    words += [repr(number) for number in numbers]
    words += ["reread"] if weights_are_reread(model) else []
    for index in indices:
        layer = model.layers[index]
        words.append(_form(model, index))
        values = operator(layer.qualified_op).parameters
        for position, name in enumerate(layer.inputs):
            operand = _operand(model, name, position in values, seen, cold)
            words.append(f"{operand}{_zero_point(model, layer, position)}")
        words.append(">")
        for name in layer.outputs:
            seen[name] = f"#{len(seen)}"
            words.append(f"{_spec(model.tensors[name])}{_mark(name, live, cold)}" if name else "-")
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:_HEX_DIGITS]


def _mark(name: str, live: Sequence[str], cold: AbstractSet[str]) -> str:
    """Mark of a result: whether it is read outside of the sequence, and whether it is cold."""
    return "" if name not in live else "!~" if name in cold else "!"


def _operand(
    model: CanonicalModel, name: str, by_value: bool, seen: dict[str, str], cold: AbstractSet[str]
) -> str:
    if not name:
        return "-"
    if by_value and name in model.constants:
        return _value(model.constants[name], model.tensors[name])
    if name in seen:
        return seen[name]
    seen[name] = f"#{len(seen)}"
    kind = "w" if name in model.weights else "cold:x" if name in cold else "x"
    return f"{kind}{_spec(model.tensors[name])}"


def _zero_point(model: CanonicalModel, layer: Layer, position: int) -> str:
    """Mark of a zero point that is known to be the least code, or another code."""
    value = model.constants.get(layer.inputs[position])
    if value is None or not is_zero_point(layer, position, value):
        return ""
    return " least" if is_least(value) else " between"


_forms: WeakKeyDictionary[CanonicalModel, dict[int, str]] = WeakKeyDictionary()
"""Forms of a model's layers by their index, for as long as the model exists: a layer is part of a
brick, of the whole model, and a sequence of its own."""


def _form(model: CanonicalModel, index: int) -> str:
    """Operator and attributes of a layer."""
    known = _forms.setdefault(model, {})
    if index not in known:
        layer = model.layers[index]
        attributes = " ".join(
            f"{name}={_attribute(value)}" for name, value in sorted(layer.attributes.items())
        )
        # The work of an opaque layer is unknown, so all opaque layers differ, and their reasons.
        inside = f" opaque {layer.name} {layer.outputs} {layer.opaque}" if layer.opaque else ""
        known[index] = f"{layer.qualified_op} {attributes}{inside}"
    return known[index]


def _attribute(value: Any) -> str:
    # repr distinguishes 1 from 1.0 and "1"; float attributes have single precision in ONNX, so
    # that the nearest double has one spelling.
    return repr(value)


def _value(array: np.ndarray[Any, Any], spec: TensorSpec) -> str:
    return f"={_spec(spec)}{array.ravel().tolist()}"


@lru_cache(maxsize=65536)
def _spec(spec: TensorSpec) -> str:
    return str(spec)
