"""The table of lowerings: one small function an operator."""

from __future__ import annotations

from collections.abc import Callable

from torch.fx import Node

from dlbricks_pytorch.lowering.context import LayerContext

Result = Node | tuple[Node | None, ...]
Lowering = Callable[[LayerContext], Result]

#: Operator type, with its domain where that is not ``ai.onnx``, to its lowering.
LOWERINGS: dict[str, Lowering] = {}

#: Operators that torch has no exact counterpart for, with the reason.
UNSUPPORTED: dict[str, str] = {}


def lowering(*operators: str) -> Callable[[Lowering], Lowering]:
    """Enters a function into the table under the names of its operators."""

    def enter(function: Lowering) -> Lowering:
        for operator in operators:
            if operator in LOWERINGS:
                raise ValueError(f"two lowerings for {operator}")
            LOWERINGS[operator] = function
        return function

    return enter
