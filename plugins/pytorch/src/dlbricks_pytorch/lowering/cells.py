"""Recurrent cells step by step, for features that torch's own recurrent layers lack."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812

from dlbricks_core.operators.compound import GATE_ACTIVATIONS

Function = Callable[[torch.Tensor], torch.Tensor]
State = tuple[torch.Tensor, ...]

_FUNCTIONS: dict[str, Callable[[float, float], Function]] = {
    "affine": lambda a, b: lambda x: a * x + b,
    "elu": lambda a, b: lambda x: F.elu(x, a),
    "hardsigmoid": lambda a, b: lambda x: torch.clamp(a * x + b, 0, 1),
    "leakyrelu": lambda a, b: lambda x: F.leaky_relu(x, a),
    "relu": lambda a, b: torch.relu,
    "scaledtanh": lambda a, b: lambda x: a * torch.tanh(b * x),
    "sigmoid": lambda a, b: torch.sigmoid,
    "softplus": lambda a, b: F.softplus,
    "softsign": lambda a, b: F.softsign,
    "tanh": lambda a, b: torch.tanh,
    "thresholdedrelu": lambda a, b: lambda x: F.threshold(x, a, 0.0),
}
_DEFAULTS = {"affine": (1.0, 0.0), "elu": (1.0, 0.0), "hardsigmoid": (0.2, 0.5),
             "leakyrelu": (0.01, 0.0), "scaledtanh": (1.0, 1.0),
             "thresholdedrelu": (1.0, 0.0)}  # fmt: skip
_TAKES = {"affine": 2, "elu": 1, "hardsigmoid": 2, "leakyrelu": 1, "scaledtanh": 2,
          "thresholdedrelu": 1}  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """Definition of one step of a recurrent layer.

    Attributes:
        kind: ``LSTM``, ``GRU`` or ``RNN``.
        activations: Names in lower case, for all directions.
        alphas: Parameters of activations with a parameter, in their order.
        betas: Second parameters, likewise.
        clip: Bound on the inputs of activations; ``None`` for no bound.
        reset_after: Whether a GRU applies the reset gate after the product.
        coupled: Whether the forget gate of an LSTM is 1 minus the input gate.
    """

    kind: str
    activations: tuple[str, ...]
    alphas: tuple[float, ...] = ()
    betas: tuple[float, ...] = ()
    clip: float | None = None
    reset_after: bool = False
    coupled: bool = False

    def functions(self, direction: int) -> list[Function]:
        """The activation functions of one direction."""
        alphas, betas = list(self.alphas), list(self.betas)
        made = []
        for name in self.activations:
            alpha, beta = _DEFAULTS.get(name, (0.0, 0.0))
            takes = _TAKES.get(name, 0)
            if takes >= 1 and alphas:
                alpha = alphas.pop(0)
            if takes == 2 and betas:
                beta = betas.pop(0)
            made.append(_FUNCTIONS[name](alpha, beta))
        each = len(GATE_ACTIVATIONS[self.kind])
        return made[direction * each : (direction + 1) * each]

    def supported(self) -> bool:
        """Whether all activations are known."""
        return all(name in _FUNCTIONS for name in self.activations)


@dataclass(frozen=True)
class _Direction:
    """One direction of a layer: its cell, functions and weights in ONNX's order of gates."""

    cell: Cell
    functions: list[Function]
    weight: torch.Tensor
    recurrence: torch.Tensor
    bias: torch.Tensor | None
    peepholes: torch.Tensor | None

    def biases(self) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        """Biases of the input and of the hidden state."""
        if self.bias is None:
            return None, None
        half = self.bias.shape[0] // 2
        return self.bias[:half], self.bias[half:]

    def bound(self, x: torch.Tensor) -> torch.Tensor:
        """Input of an activation, clipped to the bound."""
        clip = self.cell.clip
        return x if clip is None else torch.clamp(x, -clip, clip)


def recur(
    x: torch.Tensor,
    weight: torch.Tensor,
    recurrence: torch.Tensor,
    bias: torch.Tensor | None,
    peepholes: torch.Tensor | None,
    initial: Sequence[torch.Tensor],
    lengths: torch.Tensor | None,
    settings: tuple[Any, ...],
    reverse: tuple[bool, ...],
) -> tuple[torch.Tensor, ...]:
    """Runs a cell over time, in ONNX's own layout and order of gates.

    Beyond the length of a sequence, its hidden states are zero and its state stays unchanged.
    ``settings`` are the fields of the :class:`Cell`: a torch graph holds plain values only.

    Returns:
        All hidden states ``[time, directions, batch, hidden]``, the last hidden states and,
        for LSTM, the last cell states.
    """
    cell = Cell(*settings)
    step = {"LSTM": _lstm_step, "GRU": _gru_step, "RNN": _rnn_step}[cell.kind]
    every, last = [], []
    for d, backwards in enumerate(reverse):
        direction = _Direction(
            cell,
            cell.functions(d),
            weight[d],
            recurrence[d],
            None if bias is None else bias[d],
            None if peepholes is None else peepholes[d],
        )
        state: State = tuple(s[d] for s in initial)
        hidden = []
        for t in reversed(range(x.shape[0])) if backwards else range(x.shape[0]):
            new = step(x[t], state, direction)
            if lengths is None:
                state = new
                hidden.append(state[0])
            else:
                alive = (t < lengths)[:, None]
                state = tuple(torch.where(alive, n, o) for n, o in zip(new, state, strict=True))
                hidden.append(new[0] * alive)
        every.append(torch.stack(hidden[::-1] if backwards else hidden))
        last.append(state)
    finals = (torch.stack([state[i] for state in last]) for i in range(len(last[0])))
    return torch.stack(every, 1), *finals


def _lstm_step(x: torch.Tensor, state: State, d: _Direction) -> State:
    h, c = state
    from_input, from_hidden = d.biases()
    gates = F.linear(x, d.weight, from_input) + F.linear(h, d.recurrence, from_hidden)
    i, o, f, g = torch.chunk(gates, 4, -1)
    if d.peepholes is not None:
        to_input, to_output, to_forget = torch.chunk(d.peepholes, 3)
        i, f = i + to_input * c, f + to_forget * c
    sigma, tanh, squash = d.functions
    i = sigma(d.bound(i))
    f = 1 - i if d.cell.coupled else sigma(d.bound(f))
    c = f * c + i * tanh(d.bound(g))
    if d.peepholes is not None:
        o = o + to_output * c
    return sigma(d.bound(o)) * squash(c), c


def _gru_step(x: torch.Tensor, state: State, d: _Direction) -> State:
    (h,) = state
    from_input, from_hidden = d.biases()
    xz, xr, xh = torch.chunk(F.linear(x, d.weight, from_input), 3, -1)
    wz, wr, wh = torch.chunk(d.recurrence, 3)
    bz, br, bh = (None,) * 3 if from_hidden is None else torch.chunk(from_hidden, 3)
    sigma, tanh = d.functions
    z = sigma(d.bound(xz + F.linear(h, wz, bz)))
    reset = sigma(d.bound(xr + F.linear(h, wr, br)))
    inner = reset * F.linear(h, wh, bh) if d.cell.reset_after else F.linear(reset * h, wh, bh)
    candidate = tanh(d.bound(xh + inner))
    return ((1 - z) * candidate + z * h,)


def _rnn_step(x: torch.Tensor, state: State, d: _Direction) -> State:
    (h,) = state
    from_input, from_hidden = d.biases()
    total = F.linear(x, d.weight, from_input) + F.linear(h, d.recurrence, from_hidden)
    return (d.functions[0](d.bound(total)),)
