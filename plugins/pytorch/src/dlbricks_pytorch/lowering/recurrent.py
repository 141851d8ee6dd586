"""LSTM, GRU and RNN: torch's own layers where they are equivalent, otherwise step by step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple
from typing import Any

import torch
from torch.fx import Node

from dlbricks_core.errors import UnsupportedError
from dlbricks_core.operators.compound import GATE_ACTIVATIONS
from dlbricks_pytorch.lowering.cells import Cell, recur
from dlbricks_pytorch.lowering.context import LayerContext
from dlbricks_pytorch.lowering.table import lowers

#: Function that nn.LSTM, nn.GRU or nn.RNN calls, by kind and first activation.
_TORCH: dict[tuple[str, str], Callable[..., Any]] = {
    ("LSTM", "sigmoid"): torch.lstm,
    ("GRU", "sigmoid"): torch.gru,
    ("RNN", "tanh"): torch.rnn_tanh,
    ("RNN", "relu"): torch.rnn_relu,
}

#: Blocks of ONNX's stacked gates in torch's order: iofc to ifgo, zrh to rzn.
_GATES = {"LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2), "RNN": (0,)}

_REVERSED = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}


@lowers("LSTM", "GRU", "RNN")
def _recurrent(ctx: LayerContext) -> tuple[Node, ...]:
    kind = ctx.op
    reverse = _REVERSED[ctx.attribute("direction")]
    cell = _cell(ctx)
    if not cell.supported():
        raise UnsupportedError(f"unknown activations {', '.join(cell.activations)}")
    x = ctx.input(0)
    if ctx.attribute("layout"):
        x = ctx.call(torch.transpose, x, 0, 1)
    initial = _initial(ctx, len(reverse))
    if _is_native(ctx, cell, len(reverse)):
        results = _native(ctx, x, initial, cell, reverse)
    else:
        peepholes = ctx.optional(7) if kind == "LSTM" else None
        lengths = None if ctx.has_full_lengths() else ctx.input(4)
        arguments = (x, ctx.input(1), ctx.input(2), ctx.optional(3), peepholes, initial)
        call = ctx.call(recur, *arguments, lengths, astuple(cell), reverse)
        results = tuple(ctx.item(call, i) for i in range(3 if kind == "LSTM" else 2))
    if ctx.attribute("layout"):
        every, *finals = results
        every = ctx.call(torch.permute, every, (2, 0, 1, 3))
        results = (every, *(ctx.call(torch.transpose, final, 0, 1) for final in finals))
    return results


def _cell(ctx: LayerContext) -> Cell:
    return Cell(
        kind=ctx.op,
        activations=ctx.activations(),
        alphas=tuple(ctx.attribute("activation_alpha") or ()),
        betas=tuple(ctx.attribute("activation_beta") or ()),
        clip=ctx.attribute("clip"),
        reset_after=bool(ctx.attribute("linear_before_reset")),
        coupled=bool(ctx.attribute("input_forget")),
    )


def _initial(ctx: LayerContext, directions: int) -> list[Node]:
    """Initial hidden (and cell) state, ``[directions, batch, hidden]``."""
    batch_first = ctx.attribute("layout")
    batch = ctx.shape(0)[0 if batch_first else 1]
    states = []
    for position in (5, 6)[: 2 if ctx.op == "LSTM" else 1]:
        if not ctx.has(position):
            zeros = torch.zeros(directions, batch, ctx.shape(2)[2], dtype=ctx.torch_dtype(0))
            states.append(ctx.fixed(zeros))
        elif batch_first:
            states.append(ctx.call(torch.transpose, ctx.input(position), 0, 1))
        else:
            states.append(ctx.input(position))
    return states


def _is_native(ctx: LayerContext, cell: Cell, directions: int) -> bool:
    usual = tuple(name.lower() for name in GATE_ACTIVATIONS[cell.kind])
    known = [usual, ("relu",)] if cell.kind == "RNN" else [usual]
    return (
        ctx.has_full_lengths()
        and cell.activations in [names * directions for names in known]
        and not cell.clip
        and not cell.coupled
        and not (cell.kind == "LSTM" and ctx.has(7))
        and (cell.kind != "GRU" or cell.reset_after)
    )


def _native(
    ctx: LayerContext, x: Node, initial: list[Node], cell: Cell, reverse: tuple[bool, ...]
) -> tuple[Node, ...]:
    """All steps in one call; reversed sequences are flipped before and after it."""
    function = _TORCH[cell.kind, cell.activations[0]]
    only_reverse = reverse == (True,)
    if only_reverse:
        x = ctx.call(torch.flip, x, (0,))
    directions = len(reverse)
    weights = [
        weight
        for direction in range(directions)
        for weight in _direction_weights(ctx, cell.kind, direction)
    ]
    state = tuple(initial) if cell.kind == "LSTM" else initial[0]
    call = ctx.call(function, x, state, weights, ctx.has(3), 1, 0.0, False, directions == 2, False)
    y, *finals = (ctx.item(call, i) for i in range(3 if cell.kind == "LSTM" else 2))
    if only_reverse:
        y = ctx.call(torch.flip, y, (0,))
    if directions == 1:
        return ctx.call(torch.unsqueeze, y, 1), *finals
    steps, batch = ctx.shape(0)[:2]
    if ctx.attribute("layout"):
        steps, batch = batch, steps
    y = ctx.call(torch.reshape, y, (steps, batch, 2, ctx.shape(2)[2]))
    return ctx.call(torch.transpose, y, 1, 2), *finals


def _direction_weights(ctx: LayerContext, kind: str, direction: int) -> list[Node]:
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

    nodes = [ctx.prepared(p, ordered, ("gates", kind, direction)) for p in (1, 2)]
    if ctx.has(3):
        nodes += [ctx.prepared(3, bias(h), ("bias", kind, direction, h)) for h in (0, 1)]
    return nodes
