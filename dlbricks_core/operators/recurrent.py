"""Recurrent layers."""

from __future__ import annotations

import math
from collections.abc import Mapping

from dlbricks_core.ir import Layer
from dlbricks_core.operators.operator import (
    DATA,
    LATE,
    FlopsRule,
    Input,
    Operator,
    Specs,
    has,
    row,
    size,
    sizes,
    unit,
    whole,
)
from dlbricks_core.operators.weights import CODES, MIDDLE, RECURRENT, SMALL, WEIGHT_SCALE


def _steps(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    """Lengths of sequences: at most the number of steps."""
    return sizes(inputs, 0)[1 if whole(layer, "layout") else 0] + 1


def _cells(gates: int, states: int) -> FlopsRule:
    """Rule of recurrent layers: matrix products, both biases, activations, updates of the state.

    Args:
        gates: Number of vectors that are computed from input and state.
        states: Number of further operations for each element of the state.
    """

    def rule(layer: Layer, inputs: Specs, outputs: Specs) -> int:
        directions, rows, width = sizes(inputs, 1)
        hidden = rows // gates
        biases = 2 if len(inputs) > 3 and inputs[3] is not None else 0
        step = gates * hidden * (2 * (width + hidden) + biases + 1) + states * hidden
        return directions * math.prod(sizes(inputs, 0)[:2]) * step

    return rule


def _coded_cells(layer: Layer, inputs: Specs, outputs: Specs) -> int:
    """Four gates from input and state, with both biases, and five updates of the state."""
    steps, batch, _ = sizes(inputs, 0)
    directions, hidden, _ = sizes(inputs, 2)
    biases = 2 if has(inputs, 3) else 0
    products = 2 * (size(inputs, 1) + size(inputs, 2))
    return steps * batch * (products + directions * hidden * (4 * (biases + 1) + 5))


_LENGTHS = Input(parameter=True, below=_steps)


def _row(flops: FlopsRule, states: int) -> Operator:
    """A recurrent layer with so many inputs of initial states and peepholes."""
    return row("recurrent", flops, DATA, RECURRENT, RECURRENT, SMALL, _LENGTHS, *(DATA,) * states,
               power=unit)  # fmt: skip


ROWS: Mapping[str, Operator] = {
    # Cell, output: c = f c + i g (3), h = o tanh(c) (2).
    "LSTM": _row(_cells(4, 5), states=3),
    # h = (1 - z) n + z h (4), and the reset of the state or of its product.
    "GRU": _row(_cells(3, 5), states=1),
    "RNN": _row(_cells(1, 0), states=1),
    "LinearAttention": row(LATE, LATE, *(DATA,) * 6),
    "com.microsoft.DynamicQuantizeLSTM": row(
        "recurrent:8-bit", _coded_cells, DATA, CODES, CODES, DATA, Input(below=_steps), DATA, DATA,
        DATA, WEIGHT_SCALE, MIDDLE, WEIGHT_SCALE, MIDDLE,
    ),
}  # fmt: skip
