"""Arithmetic, comparison, logic, rounding, trigonometry and type conversion."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import torch
from torch.fx import Node

from dlbricks_pytorch.lowering.context import LayerContext
from dlbricks_pytorch.lowering.table import lowering

_UNARY: dict[str, Callable[..., torch.Tensor]] = {
    "Abs": torch.abs, "Acos": torch.acos, "Acosh": torch.acosh, "Asin": torch.asin,
    "Asinh": torch.asinh, "Atan": torch.atan, "Atanh": torch.atanh,
    "BitwiseNot": torch.bitwise_not, "Ceil": torch.ceil, "Cos": torch.cos, "Cosh": torch.cosh,
    "Erf": torch.erf, "Exp": torch.exp, "Floor": torch.floor, "IsNaN": torch.isnan,
    "Log": torch.log, "Neg": torch.neg, "Not": torch.logical_not,
    "Reciprocal": torch.reciprocal, "Round": torch.round, "Sign": torch.sign, "Sin": torch.sin,
    "Sinh": torch.sinh, "Sqrt": torch.sqrt, "Tan": torch.tan, "Tanh": torch.tanh,
}  # fmt: skip

_BINARY: dict[str, Callable[..., torch.Tensor]] = {
    "Add": torch.add, "And": torch.logical_and, "BitwiseAnd": torch.bitwise_and,
    "BitwiseOr": torch.bitwise_or, "BitwiseXor": torch.bitwise_xor, "Equal": torch.eq,
    "Greater": torch.gt, "GreaterOrEqual": torch.ge, "Less": torch.lt,
    "LessOrEqual": torch.le, "Mul": torch.mul, "Or": torch.logical_or, "Sub": torch.sub,
    "Xor": torch.logical_xor,
}  # fmt: skip

_SCALAR_OPERANDS = {"Add", "Sub", "Mul", "Equal", "Greater", "GreaterOrEqual", "Less",
                    "LessOrEqual"}  # fmt: skip

_VARIADIC: dict[str, Callable[..., torch.Tensor]] = {
    "Max": torch.maximum,
    "Min": torch.minimum,
    "Sum": torch.add,
}


@lowering(*_UNARY)
def _unary(layer: LayerContext) -> Node:
    return layer.call(_UNARY[layer.layer.op], layer.input(0))


@lowering(*_BINARY)
def _binary(layer: LayerContext) -> Node:
    return layer.call(_BINARY[layer.layer.op], layer.input(0), second_operand(layer))


def second_operand(layer: LayerContext) -> Any:
    """The second operand, as the Python number that a torch program would write.

    Only where it is one number of the model and does not give the result its shape.
    """
    if (
        layer.layer.op in _SCALAR_OPERANDS | {"Div", "Pow"}
        and layer.is_scalar_weight(1)
        and not layer.is_weight(0)
        and layer.shape(0) == layer.result_shape()
        and layer.dtype(1) != torch.bool
    ):
        return layer.number(1)
    return layer.input(1)


@lowering("Div")
def _div(layer: LayerContext) -> Node:
    # ONNX truncates the quotient of integers; torch.div would give a float.
    rounding = None if layer.dtype(0).is_floating_point else "trunc"
    extra = {} if rounding is None else {"rounding_mode": rounding}
    return layer.call(torch.div, layer.input(0), second_operand(layer), **extra)


@lowering("Mod")
def _mod(layer: LayerContext) -> Node:
    # The sign follows the divisor without fmod, the dividend with it; torch is the same.
    function = torch.fmod if layer.attribute("fmod", 0) else torch.remainder
    return layer.call(function, layer.input(0), layer.input(1))


@lowering("Pow")
def _pow(layer: LayerContext) -> Node:
    node = layer.call(torch.pow, layer.input(0), second_operand(layer))
    base, exponent = layer.dtype(0), layer.dtype(1)
    if torch.promote_types(base, exponent) != base and not base.is_floating_point:
        node = layer.call(torch.Tensor.to, node, base)  # ONNX keeps the type of the base
    elif base.is_floating_point and exponent.is_floating_point and base != exponent:
        node = layer.call(torch.Tensor.to, node, base)
    return node


@lowering("Max", "Min", "Sum")
def _variadic(layer: LayerContext) -> Node:
    function = _VARIADIC[layer.layer.op]
    return reduce(lambda left, right: layer.call(function, left, right), layer.inputs())


@lowering("Mean")
def _mean(layer: LayerContext) -> Node:
    nodes = layer.inputs()
    total = reduce(lambda left, right: layer.call(torch.add, left, right), nodes)
    return layer.call(torch.div, total, len(nodes))


@lowering("Where")
def _where(layer: LayerContext) -> Node:
    return layer.call(torch.where, *layer.inputs())


@lowering("Clip")
def _clip(layer: LayerContext) -> Node:
    given = [position for position in (1, 2) if layer.has(position)]
    if not given:
        return layer.call(torch.clone, layer.input(0))
    # torch.clamp takes two numbers or two tensors, not one of each.
    numbers = all(layer.is_scalar_weight(position) for position in given)
    bounds = {
        ("min", "max")[position - 1]: layer.number(position) if numbers else layer.input(position)
        for position in given
    }
    return layer.call(torch.clamp, layer.input(0), **bounds)


@lowering("BitShift")
def _bit_shift(layer: LayerContext) -> Node:
    left = layer.attribute("direction") == "LEFT"
    function = torch.bitwise_left_shift if left else torch.bitwise_right_shift
    return layer.call(function, layer.input(0), layer.input(1))


@lowering("IsInf")
def _is_inf(layer: LayerContext) -> Node:
    signs = (layer.attribute("detect_negative", 1), layer.attribute("detect_positive", 1))
    functions = {(1, 1): torch.isinf, (1, 0): torch.isneginf, (0, 1): torch.isposinf}
    if signs == (0, 0):
        return layer.call(torch.zeros_like, layer.input(0), dtype=torch.bool)
    return layer.call(functions[signs], layer.input(0))


LARGEST_FLOAT8 = {torch.float8_e4m3fn: 448.0, torch.float8_e4m3fnuz: 240.0,
                   torch.float8_e5m2: 57344.0, torch.float8_e5m2fnuz: 57344.0}  # fmt: skip


@lowering("Cast")
def _cast(layer: LayerContext) -> Node:
    source, target = layer.dtype(0), layer.result_dtype()
    node = layer.input(0)
    if target == getattr(torch, "float8_e8m0fnu", None) and source != target:
        raise layer.unsupported("torch does not round to float8e8m0 as ONNX does")
    if target in LARGEST_FLOAT8:
        if layer.attribute("saturate", 1):
            if source in LARGEST_FLOAT8:
                node = layer.call(torch.Tensor.to, node, torch.float32)
            largest = LARGEST_FLOAT8[target]
            node = layer.call(torch.clamp, node, -largest, largest)
        elif target == torch.float8_e4m3fn:
            raise layer.unsupported("torch saturates in this conversion, whatever is asked")
    return layer.call(torch.Tensor.to, node, target)


@lowering("BitCast")
def _bit_cast(layer: LayerContext) -> Node:
    return layer.call(torch.Tensor.view, layer.input(0), layer.result_dtype())


@lowering("Identity")
def _identity(layer: LayerContext) -> Node:
    return layer.call(torch.clone, layer.input(0))
