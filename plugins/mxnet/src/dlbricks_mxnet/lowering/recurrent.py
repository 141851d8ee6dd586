"""Recurrent layers, on MXNet's fused RNN operator where it has the cell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dlbricks_core.errors import UnsupportedError
from dlbricks_core.operators.compound import GATE_ACTIVATIONS
from dlbricks_mxnet.lowering import cells
from dlbricks_mxnet.lowering.context import Array, LayerContext
from dlbricks_mxnet.lowering.limits import REAL
from dlbricks_mxnet.lowering.symbols import Shape, Symbol, op, reshape, transpose
from dlbricks_mxnet.lowering.table import lowers


@dataclass(frozen=True)
class _Cell:
    """A kind of recurrent cell.

    Attributes:
        mode: MXNet's name of the cell.
        gates: Position among ONNX's gates of each of MXNet's gates.
        activations: The only activations that MXNet supports for it, in one direction.
    """

    mode: str
    gates: tuple[int, ...]
    activations: tuple[str, ...]


def usual(operator: str) -> tuple[str, ...]:
    """Default activations of one direction."""
    return tuple(name.lower() for name in GATE_ACTIVATIONS[operator])


_LSTM = _Cell("lstm", (0, 2, 3, 1), usual("LSTM"))  # iofc to ifco
_GRU = _Cell("gru", (1, 0, 2), usual("GRU"))  # zrh to rzh
_RNN = {
    "tanh": _Cell("rnn_tanh", (0,), ("tanh",)),
    "relu": _Cell("rnn_relu", (0,), ("relu",)),
}


@lowers("LSTM", types=REAL)
def _lstm(ctx: LayerContext) -> list[Symbol]:
    plain = not ctx.has(7) and not ctx.attribute("input_forget")
    return _recurrent(ctx, _LSTM if plain else None, cells.lstm)


@lowers("GRU", types=REAL)
def _gru(ctx: LayerContext) -> list[Symbol]:
    reset_last = ctx.attribute("linear_before_reset")
    return _recurrent(ctx, _GRU if reset_last else None, cells.gru_reset_first)


@lowers("RNN", types=REAL)
def _rnn(ctx: LayerContext) -> list[Symbol]:
    kinds = set(ctx.activations())
    fused = _RNN.get(kinds.pop()) if len(kinds) == 1 else None
    return _recurrent(ctx, fused, cells.rnn)


def _recurrent(
    ctx: LayerContext,
    fused: _Cell | None,
    cell: Callable[[LayerContext, int, Sequence[str]], cells.Step],
) -> list[Symbol]:
    """Lowers to the fused operator where it has the cell, else to the unrolled cell."""
    directions, rows, _ = ctx.shape(1)
    size = ctx.shape(2)[2]
    batch_first = bool(ctx.attribute("layout"))
    backwards = ctx.attribute("direction") == "reverse"
    x = transpose(ctx.input(0), (1, 0, 2)) if batch_first else ctx.input(0)
    steps, batch = (ctx.shape()[1], ctx.shape()[0]) if batch_first else ctx.shape()[:2]
    sizes = cells.Sizes(steps, batch, directions, size)
    _check(ctx)
    states = [
        _state(ctx, position, role, (directions, batch, size), batch_first=batch_first)
        for position, role in ((5, "hidden"), (6, "cell"))
        if position == 5 or ctx.op == "LSTM"
    ]
    named = ctx.activations()
    if fused and named == fused.activations * directions:
        y, last = _fused(ctx, fused, x, states, sizes, backwards=backwards)
    elif ctx.op == "GRU" and fused:
        raise UnsupportedError(f"MXNet has none with activations {', '.join(named)}")
    else:
        step = cell(ctx, size, named)
        y, last = cells.unroll(
            ctx, x, states, sizes, step, rows // size, backwards=backwards
        )  # fmt: skip
    if batch_first:
        y = transpose(y, (2, 0, 1, 3))
        last = [transpose(state, (1, 0, 2)) for state in last]
    return [y, *last]


def _check(ctx: LayerContext) -> None:
    if ctx.attribute("clip"):
        raise UnsupportedError("MXNet does not clip the cells' inputs")
    if ctx.attribute("activation_alpha") or ctx.attribute("activation_beta"):
        raise UnsupportedError("MXNet has no parameters of activations")
    if not ctx.has_full_lengths():
        raise UnsupportedError("MXNet has no sequences of different lengths")


def _fused(
    ctx: LayerContext,
    cell: _Cell,
    x: Symbol,
    states: Sequence[Symbol],
    sizes: cells.Sizes,
    *,
    backwards: bool,
) -> tuple[Symbol, list[Symbol]]:
    """MXNet's own operator, with the result as (steps, directions, batch, hidden)."""
    y, *last = op.RNN(
        op.reverse(x, axis=0) if backwards else x,
        _parameters(ctx, cell, sizes.directions, len(cell.gates) * sizes.hidden),
        *states,
        state_size=sizes.hidden,
        num_layers=1,
        mode=cell.mode,
        bidirectional=sizes.directions == 2,
        state_outputs=True,
    )
    if backwards:
        y = op.reverse(y, axis=0)
    # MXNet has the directions side by side in the last axis, ONNX in one of their own.
    y = reshape(y, (sizes.steps, sizes.batch, sizes.directions, sizes.hidden))
    return transpose(y, (0, 2, 1, 3)), last


def _state(
    ctx: LayerContext, position: int, role: str, shape: Shape, *, batch_first: bool
) -> Symbol:
    if not ctx.has(position):
        return ctx.fixed(role, np.zeros(shape, ctx.dtype()))
    x = ctx.input(position)
    return transpose(x, (1, 0, 2)) if batch_first else x


def _parameters(ctx: LayerContext, cell: _Cell, directions: int, rows: int) -> Symbol:
    """All weights and then all biases in one vector, each direction after the other."""
    size, inputs = ctx.shape(2)[2], ctx.shape(1)[2]
    length = directions * rows * (inputs + size + 2)
    positions = [1, 2] + ([3] if ctx.has(3) else [])

    def build(w: Array, r: Array, b: Array | None = None) -> Array:
        biases = np.zeros((directions, 2 * rows), w.dtype) if b is None else b
        weights = [_reordered(m[d], cell.gates) for d in range(directions) for m in (w, r)]
        halves = [
            _reordered(half, cell.gates)
            for d in range(directions)
            for half in (biases[d, :rows], biases[d, rows:])
        ]
        return np.concatenate([part.ravel() for part in (*weights, *halves)])

    return ctx.prepared(f"parameters:{cell.mode}", positions, build, (length,))


def _reordered(matrix: Array, gates: Sequence[int]) -> Array:
    """Rows of the gates in another order."""
    blocks = np.split(matrix, len(gates))
    return np.concatenate([blocks[gate] for gate in gates])
