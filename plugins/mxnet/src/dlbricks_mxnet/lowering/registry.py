"""The table of operators: each is lowered by one function, registered with its element types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dlbricks_core.errors import UnsupportedError

if TYPE_CHECKING:
    from dlbricks_mxnet.lowering.context import LayerContext
    from dlbricks_mxnet.lowering.symbols import Symbol

Lowering = Callable[["LayerContext"], "Symbol | Sequence[Symbol]"]

#: Types that MXNet's matrix kernels compute with on CPUs.
REAL = frozenset({"float32", "float64"})
FLOAT = REAL | {"float16"}
INTEGER = frozenset({"int8", "uint8", "int32", "int64"})
NUMBER = FLOAT | INTEGER
#: Every element type that MXNet knows.
ANY = NUMBER | {"bool"}


@dataclass(frozen=True)
class Operator:
    """How one operator is lowered.

    Attributes:
        lower: Gives the symbol of each output.
        types: Element types that its first input may have.
        axes: Most axes that its inputs and outputs may have.
    """

    lower: Lowering
    types: frozenset[str]
    axes: int


#: What MXNet's selection by a condition can do; most operators join axes where they can.
SELECTION_AXES = 5
#: Of the oneDNN arrays that any tensor may become; what has more is one row of numbers.
MOST_AXES = 6
#: For operators that only move elements: as many as numpy knows.
ANY_AXES = 32

OPERATORS: dict[str, Operator] = {}


def lowers(
    *names: str, types: frozenset[str] = FLOAT, axes: int = MOST_AXES
) -> Callable[[Lowering], Lowering]:
    """Registers a function as the lowering of operators of the domain ``ai.onnx``."""

    def register(function: Lowering) -> Lowering:
        for name in names:
            if name in OPERATORS:
                raise ValueError(f"{name} is registered twice")
            OPERATORS[name] = Operator(function, types, axes)
        return function

    return register


def unsupported(reason: str) -> UnsupportedError:
    """The error to raise, with the reason that MXNet cannot do something."""
    return UnsupportedError(f"MXNet: {reason}")
