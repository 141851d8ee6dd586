"""Options of the user for normalizing a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

InputValue = float | tuple[float, ...] | None
"""Constant value of an input: one number for all elements, or one for each; ``None`` for no
input."""


def input_value(data: float | list[float] | None) -> InputValue:
    """Constant value of an input from JSON."""
    return tuple(data) if isinstance(data, list) else data


def input_data(value: InputValue) -> float | list[float] | None:
    """Constant value of an input as JSON has it."""
    return list(value) if isinstance(value, tuple) else value


@dataclass(frozen=True)
class NormalizeOptions:
    """Sizes and values of inputs, and what to fold.

    Attributes:
        batch: Size of the first dimension of every input where that is dynamic, and of
            every other dimension that has the same symbol.
        dims: Size by symbol, or by ``input.axis`` (``data.2``); takes precedence over ``batch``.
            A symbol that is an expression (``past + 1``) follows from the symbols in it.
        shapes: Whole shape by input; the only way for inputs of which not even the rank is known.
        values: Constant value of an input, by its name: one number for all elements, or one for
            each element; ``None`` for an optional input that is left out.
        fold_batchnorm: Whether to fold each BatchNormalization into the layer before it.
    """

    batch: int | None = None
    dims: Mapping[str, int] = field(default_factory=dict)
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    values: Mapping[str, InputValue] = field(default_factory=dict)
    fold_batchnorm: bool = False
