"""Signatures: layer sequences of equal work have equal signatures."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from dlbricks_core.ir import CanonicalModel
from dlbricks_core.operators.table import operator, standing_for

if TYPE_CHECKING:
    from dlbricks_core.ir import Array, CanonicalModel, Layer, RawModel, TensorSpec


# Annotations of models: the backend that wrote the layers, and the tensors that are in the
# caches.
#
# All are part of a brick's signature: they say under which conditions it is timed.

_NATIVE_TO = "native_to"
_WEIGHTS_REREAD = "weights_reread"
_COLD_INPUTS = "cold_inputs"
_COLD_OUTPUTS = "cold_outputs"


def native(raw: RawModel, backend: str, constants: Mapping[str, Array]) -> CanonicalModel:
    """Model of a graph that a backend wrote, and that only this backend runs.

    The layers keep the backend's own form. Every tensor must have a static shape.

    Args:
        raw: The graph, as :func:`dlbricks_core.ir.read_model` gives it.
        backend: Name of the backend.
        constants: Values by tensor: of small weights, and of tensors that shapes are computed from.
    """
    return raw.as_canonical(constants=constants, annotations={_NATIVE_TO: backend})


def native_to(model: CanonicalModel) -> str:
    """Name of the backend that wrote the layers; empty for layers in canonical form."""
    return model.annotations.get(_NATIVE_TO, "")


def with_weights_reread(model: CanonicalModel) -> CanonicalModel:
    """The model, marked as one that finds its weights in the caches."""
    return replace(model, annotations={**model.annotations, _WEIGHTS_REREAD: "yes"})


def weights_are_reread(model: CanonicalModel) -> bool:
    """Whether the weights are as warm as when the model runs twice in a row.

    A brick's weights are warm if the model that it is cut from has just read them, or if that
    model is so small that the caches keep all of it.
    """
    return _WEIGHTS_REREAD in model.annotations


def with_cold(model: CanonicalModel, names: Collection[str]) -> CanonicalModel:
    """The model with a mark: some of its inputs and outputs are in no cache when it runs.

    Args:
        model: Model in canonical form.
        names: Names of these inputs and outputs; all other names are ignored.
    """
    marks = {
        _COLD_INPUTS: _places(model.inputs, names),
        _COLD_OUTPUTS: _places(model.outputs, names),
    }
    others = {key: value for key, value in model.annotations.items() if key not in marks}
    found = {**others, **{key: places for key, places in marks.items() if places}}
    # A replaced model computes its consumers and producers anew.
    return model if found == model.annotations else replace(model, annotations=found)


def cold_tensors(model: CanonicalModel) -> frozenset[str]:
    """Names of inputs and outputs that are in no cache when the model runs.

    The model that a brick is cut from has moved too many bytes since these tensors were last used.
    An example is the cache of keys and values that a decoder reads and returns.
    """
    ends = ((_COLD_INPUTS, model.inputs), (_COLD_OUTPUTS, model.outputs))
    return frozenset(
        names[int(place)] for key, names in ends for place in model.annotations.get(key, "").split()
    )


def _places(tensors: Sequence[str], names: Collection[str]) -> str:
    """Positions of the named tensors: unlike names, they outlast renaming."""
    if not names:  # of most bricks, and a model may have as many outputs as bricks
        return ""
    return " ".join(str(place) for place, name in enumerate(tensors) if name in names)


# Tensors at the ends of a layer sequence: its inputs, and its results that other layers read.


def live_outputs(model: CanonicalModel, indices: Sequence[int]) -> tuple[str, ...]:
    """Results of the sequence that are read outside of it, in the order of their production.

    If no result of a layer is read, all of its results count as read, because the layer is computed
    anyway. If only some results are read (parts of a Split), the unread results are left out: as
    outputs they would keep frameworks from merging or dropping them.
    """
    inside = set(indices)
    live = []
    for index in indices:
        names = [name for name in model.layers[index].outputs if name]
        read = [name for name in names if name in model.consumers or name in model.output_names]
        live += [
            name
            for name in read or names
            if name in model.output_names
            or not model.consumers.get(name)
            or not inside.issuperset(model.consumers[name])
        ]
    return tuple(live)


def outer_inputs(model: CanonicalModel, indices: Sequence[int]) -> tuple[str, ...]:
    """Activations that the sequence reads but does not produce, in order of first use."""
    produced: set[str] = set()
    inputs: dict[str, None] = {}
    for index in indices:
        layer = model.layers[index]
        inputs.update((n, None) for n in model.activations(layer) if n not in produced)
        produced.update(layer.outputs)
    return tuple(inputs)


# Zero points of quantized tensors: the codes of zero.


def is_zero_point(layer: Layer, position: int, value: Array) -> bool:
    """Whether a value is the zero point of a whole tensor."""
    whole = value.size == 1 and value.dtype.kind in "iu"
    return whole and standing_for(layer).input(position).coarse


def is_least(zero: Array) -> bool:
    """Whether a zero point is the least code, so that no code means a negative number.

    Frameworks leave out a rectifier before such a quantization.
    """
    return int(zero.ravel()[0]) == zero_code(zero.dtype, least=True)


def zero_code(dtype: np.dtype[Any], *, least: bool) -> int:
    """The code of zero in an integer type: the least code, or the middle code."""
    codes = np.iinfo(dtype)
    return int(codes.min) if least else (int(codes.min) + int(codes.max) + 1) // 2


def coarse(zero: Array) -> Array:
    """The zero point that represents all zero points that frameworks treat alike.

    It is the least code, or the one in the middle.
    """
    return np.full(zero.shape, zero_code(zero.dtype, least=is_least(zero)), zero.dtype)


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
    known = _forms.setdefault(model, {})
    for index in indices:
        layer = model.layers[index]
        if index not in known:
            known[index] = _form(layer)
        words.append(known[index])
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
        return f"={_spec(model.tensors[name])}{model.constants[name].ravel().tolist()}"
    if name in seen:
        return seen[name]
    seen[name] = f"#{len(seen)}"
    kind = "w" if name in model.weights else "cold:x" if name in cold else "x"
    return f"{kind}{_spec(model.tensors[name])}"


def _zero_point(model: CanonicalModel, layer: Layer, position: int) -> str:
    """Mark of a known zero point: the least code, or another code; empty if it is unknown."""
    value = model.constants.get(layer.inputs[position])
    if value is None or not is_zero_point(layer, position, value):
        return ""
    return " least" if is_least(value) else " between"


_forms: WeakKeyDictionary[CanonicalModel, dict[int, str]] = WeakKeyDictionary()
"""Forms of a model's layers by their index, for as long as the model exists. A form is used several
times, because a layer is part of several sequences: of a brick and of the whole model, for example.
"""


def _form(layer: Layer) -> str:
    """Operator and attributes of a layer."""
    # repr distinguishes 1 from 1.0 and "1"; float attributes have single precision in ONNX, so
    # that the nearest double has one spelling.
    attributes = " ".join(f"{name}={each!r}" for name, each in sorted(layer.attributes.items()))
    # The work of an opaque layer is unknown, so all opaque layers differ, and their reasons.
    inside = f" opaque {layer.name} {layer.outputs} {layer.opaque}" if layer.opaque else ""
    return f"{layer.qualified_op} {attributes}{inside}"


@lru_cache(maxsize=65536)
def _spec(spec: TensorSpec) -> str:
    return str(spec)
