"""Recurrent layers, as their operators are defined."""

from __future__ import annotations

from collections.abc import Mapping

#: Activation functions of one direction that count where a layer names none, by operator.
GATE_ACTIVATIONS: Mapping[str, tuple[str, ...]] = {
    "GRU": ("Sigmoid", "Tanh"),
    "LSTM": ("Sigmoid", "Tanh", "Tanh"),
    "RNN": ("Tanh",),
}
