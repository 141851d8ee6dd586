"""Table of lowerings: one small function for each operator."""

from __future__ import annotations

from collections.abc import Callable

from dlbricks_contrib.layer_view import naming
from torch.fx import Node

from dlbricks_core.errors import UnsupportedError
from dlbricks_core.ir import Layer
from dlbricks_pytorch.lowering.context import GraphBuilder, LayerContext

Result = Node | tuple[Node | None, ...]
Lowering = Callable[[LayerContext], Result]

#: Lowering of each operator, by its type with its domain in front where that is not ``ai.onnx``.
LOWERINGS: dict[str, Lowering] = {}

#: Reason why torch has no exact counterpart of an operator, by the same name.
UNSUPPORTED: dict[str, str] = {}


def lowers(*operators: str) -> Callable[[Lowering], Lowering]:
    """Registers a function as the lowering of operators."""

    def register(function: Lowering) -> Lowering:
        for operator in operators:
            if operator in LOWERINGS:
                raise ValueError(f"{operator} is registered twice")
            LOWERINGS[operator] = function
        return function

    return register


def lower_layer(builder: GraphBuilder, layer: Layer) -> None:
    """Adds a layer to the graph.

    Raises:
        UnsupportedError: If torch has no exact counterpart for the layer.
    """
    with naming(layer):
        result = _lowering_of(layer)(LayerContext(builder, layer))
        results = result if isinstance(result, tuple) else (result,)
        for position, name in enumerate(layer.outputs):
            if not name:
                continue
            node = results[position] if position < len(results) else None
            if node is None:
                raise UnsupportedError(f"torch does not compute output {position}")
            builder.bind(name, node)


def _lowering_of(layer: Layer) -> Lowering:
    operator = layer.qualified_op
    if layer.opaque:
        raise UnsupportedError(layer.opaque)
    if operator not in LOWERINGS:
        known = UNSUPPORTED.get(operator, "no torch operator is known that computes it")
        raise UnsupportedError(known)
    return LOWERINGS[operator]
