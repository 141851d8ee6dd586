"""Table of lowerings: one small function for each operator, with the tensors that it supports."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dlbricks_contrib.layer_view import naming

from dlbricks_core.errors import UnsupportedError
from dlbricks_core.ir import Layer
from dlbricks_mxnet.framework import one_line
from dlbricks_mxnet.lowering.context import LayerContext, Variables
from dlbricks_mxnet.lowering.limits import FLOAT, MOST_AXES
from dlbricks_mxnet.lowering.symbols import Symbol, mx

Function = Callable[[LayerContext], Symbol | Sequence[Symbol]]


@dataclass(frozen=True)
class Lowering:
    """Lowering of one operator.

    Attributes:
        function: Function that returns the symbol of each output.
        types: Supported element types of the first input.
        axes: Maximum number of axes of inputs and outputs.
    """

    function: Function
    types: frozenset[str]
    axes: int


#: Lowering of each operator, by its type with its domain in front where that is not ``ai.onnx``.
LOWERINGS: dict[str, Lowering] = {}


def lowers(
    *operators: str, types: frozenset[str] = FLOAT, axes: int = MOST_AXES
) -> Callable[[Function], Function]:
    """Registers a function as the lowering of operators."""

    def register(function: Function) -> Function:
        for operator in operators:
            if operator in LOWERINGS:
                raise ValueError(f"{operator} is registered twice")
            LOWERINGS[operator] = Lowering(function, types, axes)
        return function

    return register


def lower_layer(
    variables: Variables, layer: Layer, computed: Mapping[str, Symbol]
) -> dict[str, Symbol]:
    """Symbols of a layer's outputs, by tensor name.

    Args:
        variables: Variables of the symbol that the layer becomes part of.
        layer: The layer.
        computed: Symbol of every tensor that is an input of the model or computed before the layer.

    Raises:
        UnsupportedError: If MXNet has no exact counterpart for the layer.
    """
    with naming(layer):
        lowering = _lowering_of(layer)
        ctx = LayerContext(variables, layer, computed)
        ctx.check_tensors(lowering.types, lowering.axes)
        try:
            result = lowering.function(ctx)
        except mx.base.MXNetError as error:
            raise UnsupportedError(f"MXNet: {one_line(error)}") from error
        ctx.check_attributes()
        results = [result] if isinstance(result, mx.sym.Symbol) else result
        named = dict(zip(layer.outputs, results, strict=False))
        for position, name in enumerate(layer.outputs):
            if name and name not in named:
                raise UnsupportedError(f"MXNet does not give output {position}")
        return {name: symbol for name, symbol in named.items() if name}


def _lowering_of(layer: Layer) -> Lowering:
    operator = layer.qualified_op
    if layer.opaque:
        raise UnsupportedError(layer.opaque)
    if operator not in LOWERINGS:
        raise UnsupportedError("MXNet has no counterpart of the operator")
    return LOWERINGS[operator]
