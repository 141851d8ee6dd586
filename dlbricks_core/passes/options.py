"""Options of the user for normalizing a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class NormalizeOptions:
    """Sizes and values of inputs, and what to fold.

    Attributes:
        batch: Size of the first dimension of every input where that is dynamic, and of
            every other dimension that has the same symbol.
        dims: Size by symbol, or by ``input.axis`` (``data.2``); takes precedence over ``batch``.
            A symbol that is an expression (``past + 1``) follows from the symbols in it.
        shapes: Whole shape by input; the only way for inputs of which not even the rank is known.
        values: Number that all elements of an input always have, by its name.
        fold_batchnorm: Whether to fold each BatchNormalization into the layer before it.
    """

    batch: int | None = None
    dims: Mapping[str, int] = field(default_factory=dict)
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    values: Mapping[str, float] = field(default_factory=dict)
    fold_batchnorm: bool = False
