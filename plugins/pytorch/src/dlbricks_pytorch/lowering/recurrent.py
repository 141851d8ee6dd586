"""LSTM, GRU and RNN: torch's own layers where they compute the same, else step by step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple
from typing import Any

import torch
from torch.fx import Node

from dlbricks_pytorch.lowering.cells import Cell, recur
from dlbricks_pytorch.lowering.context import LayerContext
from dlbricks_pytorch.lowering.table import lowering

_DEFAULTS = {"LSTM": ("sigmoid", "tanh", "tanh"), "GRU": ("sigmoid", "tanh"), "RNN": ("tanh",)}

#: By kind and first activation: the function that nn.LSTM, nn.GRU and nn.RNN call.
_TORCH: dict[tuple[str, str], Callable[..., Any]] = {
    ("LSTM", "sigmoid"): torch.lstm,
    ("GRU", "sigmoid"): torch.gru,
    ("RNN", "tanh"): torch.rnn_tanh,
    ("RNN", "relu"): torch.rnn_relu,
}

#: Blocks of ONNX's stacked gates in torch's order: iofc to ifgo, zrh to rzn.
_GATES = {"LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2), "RNN": (0,)}

_REVERSED = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}


@lowering("LSTM", "GRU", "RNN")
def _recurrent(layer: LayerContext) -> tuple[Node, ...]:
    kind = layer.layer.op
    reverse = _REVERSED[layer.attribute("direction", "forward")]
    cell = _cell(layer, len(reverse))
    if not cell.supported():
        raise layer.unsupported(f"unknown activations {', '.join(cell.activations)}")
    x = layer.input(0)
    if layer.attribute("layout", 0):
        x = layer.call(torch.transpose, x, 0, 1)
    initial = _initial(layer, len(reverse))
    if _is_native(layer, cell, len(reverse)):
        results = _native(layer, x, initial, cell, reverse)
    else:
        peepholes = layer.optional(7) if kind == "LSTM" else None
        lengths = None if _full_length(layer) else layer.input(4)
        arguments = (x, layer.input(1), layer.input(2), layer.optional(3), peepholes, initial)
        call = layer.call(recur, *arguments, lengths, astuple(cell), reverse)
        results = tuple(layer.item(call, i) for i in range(3 if kind == "LSTM" else 2))
    if layer.attribute("layout", 0):
        every, *finals = results
        every = layer.call(torch.permute, every, (2, 0, 1, 3))
        results = (every, *(layer.call(torch.transpose, final, 0, 1) for final in finals))
    return results


def _full_length(layer: LayerContext) -> bool:
    """Whether no sequence of the batch ends early."""
    if not layer.has(4):
        return True
    steps = layer.shape(0)[1 if layer.attribute("layout", 0) else 0]
    return layer.is_parameter(4) and set(layer.integers(4)) == {steps}


def _cell(layer: LayerContext, directions: int) -> Cell:
    kind = layer.layer.op
    names = layer.attribute("activations") or _DEFAULTS[kind] * directions
    return Cell(
        kind=kind,
        activations=tuple(name.lower() for name in names),
        alphas=tuple(layer.attribute("activation_alpha") or ()),
        betas=tuple(layer.attribute("activation_beta") or ()),
        clip=layer.attribute("clip"),
        reset_after=bool(layer.attribute("linear_before_reset", 0)),
        coupled=bool(layer.attribute("input_forget", 0)),
    )


def _initial(layer: LayerContext, directions: int) -> list[Node]:
    """Initial hidden (and cell) state, ``[directions, batch, hidden]``."""
    batch_first = layer.attribute("layout", 0)
    batch = layer.shape(0)[0 if batch_first else 1]
    states = []
    for position in (5, 6)[: 2 if layer.layer.op == "LSTM" else 1]:
        if not layer.has(position):
            zeros = torch.zeros(directions, batch, layer.shape(2)[2], dtype=layer.dtype(0))
            states.append(layer.constant(zeros))
        elif batch_first:
            states.append(layer.call(torch.transpose, layer.input(position), 0, 1))
        else:
            states.append(layer.input(position))
    return states


def _is_native(layer: LayerContext, cell: Cell, directions: int) -> bool:
    defaults = [_DEFAULTS[cell.kind] * directions]
    if cell.kind == "RNN":
        defaults.append(("relu",) * directions)
    return (
        _full_length(layer)
        and cell.activations in defaults
        and not cell.clip
        and not cell.coupled
        and not (cell.kind == "LSTM" and layer.has(7))
        and (cell.kind != "GRU" or cell.reset_after)
    )


def _native(
    layer: LayerContext, x: Node, initial: list[Node], cell: Cell, reverse: tuple[bool, ...]
) -> tuple[Node, ...]:
    """All steps in one call, reversed sequences turned round before and after."""
    function = _TORCH[cell.kind, cell.activations[0]]
    only_reverse = reverse == (True,)
    if only_reverse:
        x = layer.call(torch.flip, x, (0,))
    directions = len(reverse)
    weights = [
        weight
        for direction in range(directions)
        for weight in _direction_weights(layer, cell.kind, direction)
    ]
    state = tuple(initial) if cell.kind == "LSTM" else initial[0]
    call = layer.call(
        function, x, state, weights, layer.has(3), 1, 0.0, False, directions == 2, False
    )
    y, *finals = (layer.item(call, i) for i in range(3 if cell.kind == "LSTM" else 2))
    if only_reverse:
        y = layer.call(torch.flip, y, (0,))
    if directions == 1:
        return layer.call(torch.unsqueeze, y, 1), *finals
    steps, batch = layer.shape(0)[:2]
    if layer.attribute("layout", 0):
        steps, batch = batch, steps
    y = layer.call(torch.reshape, y, (steps, batch, 2, layer.shape(2)[2]))
    return layer.call(torch.transpose, y, 1, 2), *finals


def _direction_weights(layer: LayerContext, kind: str, direction: int) -> list[Node]:
    """Weights of one direction in torch's order: input, hidden, and both biases."""
    gates = _GATES[kind]

    def ordered(value: torch.Tensor) -> torch.Tensor:
        blocks = value[direction].chunk(len(gates))
        return torch.cat([blocks[gate] for gate in gates])

    def bias(half: int) -> Callable[[torch.Tensor], torch.Tensor]:
        def select(value: torch.Tensor) -> torch.Tensor:
            blocks = value[direction].chunk(2)[half].chunk(len(gates))
            return torch.cat([blocks[gate] for gate in gates])

        return select

    nodes = [layer.prepared(p, ordered, ("gates", kind, direction)) for p in (1, 2)]
    if layer.has(3):
        nodes += [layer.prepared(3, bias(h), ("bias", kind, direction, h)) for h in (0, 1)]
    return nodes
