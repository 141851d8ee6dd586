"""Definitions of recurrent operators."""

from __future__ import annotations

from collections.abc import Mapping

#: Default activation functions of one direction, by operator.
GATE_ACTIVATIONS: Mapping[str, tuple[str, ...]] = {
    "GRU": ("Sigmoid", "Tanh"),
    "LSTM": ("Sigmoid", "Tanh", "Tanh"),
    "RNN": ("Tanh",),
}
