"""Axes of a model's inputs that hold the batch: the first, except where that is time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dlbricks_core.ir import Layer, RawModel

_NAMED = re.compile(r"(^|_)batch(_?size)?($|_)", re.IGNORECASE)
"""Symbols that an exporter gives to the batch."""

_RECURRENT = frozenset({"GRU", "LSTM", "RNN"})

_KEEPING = frozenset({
    "Add", "Cast", "Clip", "Div", "Dropout", "Elu", "Gelu", "Identity", "LayerNormalization",
    "LeakyRelu", "MatMul", "Mul", "Relu", "Sigmoid", "Sub", "Tanh",
})  # fmt: skip
"""Operators whose result has the first two of three axes where their inputs have them."""

_Axes = Mapping[int, bool]
"""Axes of a tensor that are time (false) or the batch (true)."""


def batch_axes(model: RawModel) -> dict[str, int | None]:
    """Axis of the batch of each input; ``None`` where the first is time, and no other is known.

    The first axis is the batch, unless the names of dimensions, a recurrent layer or a scan
    contradict that.
    """
    found: dict[str, int | None] = {}
    shown = _shown(model)
    for name in model.inputs:
        named = [axis for axis, dim in enumerate(model.tensors[name].shape or ())
                 if isinstance(dim, str) and _NAMED.search(dim)]  # fmt: skip
        axes = shown.get(name, {})
        known = named or [axis for axis, is_batch in sorted(axes.items()) if is_batch]
        found[name] = known[0] if known else None if axes.get(0) is False else 0
    return found


def _shown(model: RawModel) -> dict[str, _Axes]:
    """Axes of the inputs that recurrent layers and scans show."""
    found: dict[str, _Axes] = {}
    begun = [each for layer in model.layers for each in _of_layer(layer)]
    while begun:
        name, axes = begun.pop()
        if name in found:
            continue
        found[name] = axes
        if (producer := model.producers.get(name)) is not None:
            begun += _before(model.layers[producer], axes)
    return {name: found[name] for name in model.inputs if name in found}


def _of_layer(layer: Layer) -> Iterator[tuple[str, _Axes]]:
    """Axes of a layer's inputs, where its operator defines them."""
    if layer.op in _RECURRENT:
        first = bool(layer.attributes.get("layout", 0))
        data = {0: True, 1: False} if first else {0: False, 1: True}
        states = {0: True} if first else {1: True}
        kinds = (data, None, None, None, {0: True}, states, states)
        yield from ((name, axes) for name, axes in zip(layer.inputs, kinds, strict=False)
                    if name and axes)  # fmt: skip
    elif layer.op == "Scan":
        axes = layer.attributes.get("scan_input_axes", (0,) * len(layer.inputs))
        scanned = layer.attributes.get("num_scan_inputs")
        if isinstance(axes, tuple) and isinstance(scanned, int):  # the file may be damaged
            for name, axis in zip(layer.inputs[-scanned:], axes, strict=False):
                yield name, {axis: False}


def _before(layer: Layer, axes: _Axes) -> Iterator[tuple[str, _Axes]]:
    """Axes that are the same in the inputs of the layer that writes the tensor."""
    if layer.op in _KEEPING:
        yield from ((name, axes) for name in layer.inputs if name)
    elif layer.op == "Transpose" and isinstance(order := layer.attributes.get("perm"), tuple):
        moved = {order[a]: is_batch for a, is_batch in axes.items() if 0 <= a < len(order)}
        yield from ((name, moved) for name in layer.inputs)
    elif layer.op == "Gather" and not layer.attributes.get("axis", 0):
        yield from ((name, axes) for name in layer.inputs[1:])
