"""Recurrent cells that MXNet's fused operator lacks, unrolled as Gluon unrolls its own cells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dlbricks_core.errors import UnsupportedError
from dlbricks_mxnet.lowering.context import Array, LayerContext
from dlbricks_mxnet.lowering.symbols import Symbol, op, reshape, slice_axis

Activation = Callable[[Symbol], Symbol]
#: (projected input, states, direction) to the next states, the hidden one first.
Step = Callable[[Symbol, Sequence[Symbol], int], Sequence[Symbol]]

_ACTIVATIONS = {"sigmoid": "sigmoid", "tanh": "tanh", "relu": "relu", "softsign": "softsign"}


@dataclass(frozen=True)
class Sizes:
    """Sizes of a recurrent layer."""

    steps: int
    batch: int
    directions: int
    hidden: int


def unroll(
    ctx: LayerContext,
    x: Symbol,
    states: Sequence[Symbol],
    sizes: Sizes,
    step: Step,
    gates: int,
    *,
    backwards: bool,
) -> tuple[Symbol, list[Symbol]]:
    """Runs a cell over all steps.

    Args:
        ctx: The layer.
        x: Input as (steps, batch, size).
        states: Initial states as (directions, batch, hidden).
        sizes: Sizes of the layer.
        step: The cell.
        gates: Number of gates of the cell.
        backwards: Whether the only direction is backwards.

    Returns:
        The hidden states as (steps, directions, batch, hidden), and the last states.
    """
    columns: list[list[Symbol]] = []
    lasts: list[list[Symbol]] = []
    for d in range(sizes.directions):
        projected = op.FullyConnected(
            x, _weight(ctx, 1, d), _input_bias(ctx, d, gates * sizes.hidden),
            num_hidden=gates * sizes.hidden, flatten=False,
        )  # fmt: skip
        now = [reshape(slice_axis(s, 0, d, d + 1), (sizes.batch, sizes.hidden)) for s in states]
        order = range(sizes.steps)
        column: dict[int, Symbol] = {}
        for t in reversed(order) if backwards or d == 1 else order:
            at = slice_axis(projected, 0, t, t + 1)
            at = reshape(at, (sizes.batch, gates * sizes.hidden))
            now = list(step(at, now, d))
            column[t] = now[0]
        columns.append([column[t] for t in order])
        lasts.append(now)
    outputs = [op.stack(*together, axis=0) for together in zip(*columns, strict=True)]
    final = [op.stack(*together, axis=0) for together in zip(*lasts, strict=True)]
    return op.stack(*outputs, axis=0), final


def gru_reset_first(ctx: LayerContext, size: int, names: Sequence[str]) -> Step:
    """A GRU that resets the hidden state before the product with its weights."""
    functions = [activation(name) for name in names]

    def step(at: Symbol, states: Sequence[Symbol], d: int) -> Sequence[Symbol]:
        (h,) = states
        f, g = functions[2 * d : 2 * d + 2]
        z_x, r_x, h_x = op.SliceChannel(at, num_outputs=3, axis=1)
        gates = _recurrent(ctx, h, d, 0, 2 * size, "zr")
        z_h, r_h = op.SliceChannel(gates, num_outputs=2, axis=1)
        z, r = f(z_x + z_h), f(r_x + r_h)
        candidate = g(h_x + _recurrent(ctx, r * h, d, 2 * size, 3 * size, "h"))
        return [(1 - z) * candidate + z * h]

    return step


def lstm(ctx: LayerContext, size: int, names: Sequence[str]) -> Step:
    """An LSTM with any of ONNX's extras: peepholes, coupled gates, other activations."""
    functions = [activation(name) for name in names]
    coupled = bool(ctx.attribute("input_forget"))

    def peephole(d: int, gate: int, c: Symbol, total: Symbol) -> Symbol:
        if not ctx.has(7):
            return total
        row = ctx.prepared(
            f"peephole{d}.{gate}", [7], lambda p: p[d, gate * size : (gate + 1) * size], (1, size)
        )
        return total + op.broadcast_mul(c, row)

    def step(at: Symbol, states: Sequence[Symbol], d: int) -> Sequence[Symbol]:
        h, c = states
        f, g, out = functions[3 * d : 3 * d + 3]
        total = at + _recurrent(ctx, h, d, 0, 4 * size, "iofc")
        i_t, o_t, f_t, c_t = op.SliceChannel(total, num_outputs=4, axis=1)
        i = f(peephole(d, 0, c, i_t))
        forget = 1 - i if coupled else f(peephole(d, 2, c, f_t))
        following = forget * c + i * g(c_t)
        o = f(peephole(d, 1, following, o_t))
        return [o * out(following), following]

    return step


def rnn(ctx: LayerContext, size: int, names: Sequence[str]) -> Step:
    """A simple recurrent cell."""
    functions = [activation(name) for name in names]

    def step(at: Symbol, states: Sequence[Symbol], d: int) -> Sequence[Symbol]:
        (h,) = states
        return [functions[d](at + _recurrent(ctx, h, d, 0, size, "h"))]

    return step


def activation(name: str) -> Activation:
    """An activation of ONNX's recurrent layers.

    Raises:
        UnsupportedError: If its parameters are not fixed, or MXNet lacks it.
    """
    kind = _ACTIVATIONS.get(name)
    if kind is None:
        raise UnsupportedError(f"MXNet has no activation {name} of recurrent layers")
    return lambda x: op.Activation(x, act_type=kind)


def _weight(ctx: LayerContext, position: int, d: int) -> Symbol:
    return ctx.prepared(f"direction{d}", [position], lambda w: w[d], ctx.shape(position)[1:])


def _recurrent(ctx: LayerContext, h: Symbol, d: int, first: int, last: int, role: str) -> Symbol:
    """The hidden state times the weights of some gates."""
    rows = ctx.prepared(
        f"{role}{d}", [2], lambda r: r[d, first:last], (last - first, ctx.shape(2)[2])
    )
    return op.FullyConnected(h, rows, num_hidden=last - first, no_bias=True, flatten=False)


def _input_bias(ctx: LayerContext, d: int, rows: int) -> Symbol:
    """Sum of both biases, which the projection of the input adds."""
    if not ctx.has(3):
        return ctx.fixed("bias", np.zeros(rows, ctx.dtype()))

    def build(b: Array) -> Array:
        return b[d, :rows] + b[d, rows:]

    return ctx.prepared(f"bias{d}", [3], build, (rows,))
