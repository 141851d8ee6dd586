"""Arithmetic, comparison, logic, rounding, trigonometry and type conversion."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch.fx import Node

from dlbricks_core.errors import UnsupportedError
from dlbricks_pytorch.lowering.context import LayerContext
from dlbricks_pytorch.lowering.table import lowers

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


@lowers(*_UNARY)
def _unary(ctx: LayerContext) -> Node:
    return ctx.call(_UNARY[ctx.op], ctx.input(0))


@lowers(*_BINARY)
def _binary(ctx: LayerContext) -> Node:
    if ctx.op == "Add" and _is_bias(ctx):
        return _with_bias(ctx, ctx.input(0))
    return ctx.call(_BINARY[ctx.op], ctx.input(0), second_operand(ctx))


def _is_bias(ctx: LayerContext) -> bool:
    """Whether the sum adds a bias to a product with a weight that nothing else reads."""
    product = ctx.layer.inputs[0]
    return (
        ctx.is_weight(1)
        and not ctx.is_weight(0)
        and ctx.shape(1) == ctx.shape(0)[-1:]
        and ctx.torch_dtype(1).is_floating_point
        and ctx.input(0).target is F.linear
        and len(ctx.input(0).args) == 2
        and len(ctx.model.consumers[product]) == 1
        and product not in ctx.model.outputs
    )


def _with_bias(ctx: LayerContext, product: Node) -> Node:
    """The product and the sum in one call, as torch's modules compute them.

    Its time is that of the product's layer, as in the profile of a module.
    """
    node = ctx.call(F.linear, *product.args, ctx.input(1))
    node.meta.update(product.meta)
    product.graph.erase_node(product)
    return node


def second_operand(ctx: LayerContext) -> Any:
    """The second operand; a Python number where torch programs would use one.

    It is a number if the model has a single known number there that does not determine the result's
    shape.
    """
    if (
        ctx.op in _SCALAR_OPERANDS | {"Div", "Pow"}
        and ctx.is_scalar_weight(1)
        and not ctx.is_weight(0)
        and ctx.shape(0) == ctx.out_shape()
        and ctx.torch_dtype(1) != torch.bool
    ):
        return ctx.number(1)
    return ctx.input(1)


@lowers("Div")
def _div(ctx: LayerContext) -> Node:
    # ONNX truncates the quotient of integers; torch.div would give a float.
    rounding = None if ctx.torch_dtype(0).is_floating_point else "trunc"
    extra = {} if rounding is None else {"rounding_mode": rounding}
    return ctx.call(torch.div, ctx.input(0), second_operand(ctx), **extra)


@lowers("Mod")
def _mod(ctx: LayerContext) -> Node:
    # The sign follows the divisor without fmod, the dividend with it; torch is the same.
    function = torch.fmod if ctx.attribute("fmod") else torch.remainder
    return ctx.call(function, ctx.input(0), ctx.input(1))


@lowers("Pow")
def _pow(ctx: LayerContext) -> Node:
    node = ctx.call(torch.pow, ctx.input(0), second_operand(ctx))
    base, exponent = ctx.torch_dtype(0), ctx.torch_dtype(1)
    if torch.promote_types(base, exponent) != base and not base.is_floating_point:
        node = ctx.call(torch.Tensor.to, node, base)  # ONNX keeps the type of the base
    elif base.is_floating_point and exponent.is_floating_point and base != exponent:
        node = ctx.call(torch.Tensor.to, node, base)
    return node


@lowers("Max", "Min", "Sum")
def _variadic(ctx: LayerContext) -> Node:
    function = _VARIADIC[ctx.op]
    return reduce(lambda left, right: ctx.call(function, left, right), ctx.inputs())


@lowers("Mean")
def _mean(ctx: LayerContext) -> Node:
    nodes = ctx.inputs()
    total = reduce(lambda left, right: ctx.call(torch.add, left, right), nodes)
    return ctx.call(torch.div, total, len(nodes))


@lowers("Where")
def _where(ctx: LayerContext) -> Node:
    return ctx.call(torch.where, *ctx.inputs())


@lowers("Clip")
def _clip(ctx: LayerContext) -> Node:
    given = [position for position in (1, 2) if ctx.has(position)]
    if not given:
        return ctx.call(torch.clone, ctx.input(0))
    # torch.clamp accepts two numbers or two tensors, not a number and a tensor.
    numbers = all(ctx.is_scalar_weight(position) for position in given)
    bounds = {
        ("min", "max")[position - 1]: ctx.number(position) if numbers else ctx.input(position)
        for position in given
    }
    return ctx.call(torch.clamp, ctx.input(0), **bounds)


@lowers("BitShift")
def _bit_shift(ctx: LayerContext) -> Node:
    left = ctx.attribute("direction") == "LEFT"
    function = torch.bitwise_left_shift if left else torch.bitwise_right_shift
    return ctx.call(function, ctx.input(0), ctx.input(1))


@lowers("IsInf")
def _is_inf(ctx: LayerContext) -> Node:
    signs = (ctx.attribute("detect_negative"), ctx.attribute("detect_positive"))
    functions = {(1, 1): torch.isinf, (1, 0): torch.isneginf, (0, 1): torch.isposinf}
    if signs == (0, 0):
        return ctx.call(torch.zeros_like, ctx.input(0), dtype=torch.bool)
    return ctx.call(functions[signs], ctx.input(0))


LARGEST_FLOAT8 = {torch.float8_e4m3fn: 448.0, torch.float8_e4m3fnuz: 240.0,
                   torch.float8_e5m2: 57344.0, torch.float8_e5m2fnuz: 57344.0}  # fmt: skip


@lowers("Cast")
def _cast(ctx: LayerContext) -> Node:
    source, target = ctx.torch_dtype(0), ctx.out_torch_dtype()
    node = ctx.input(0)
    if target == getattr(torch, "float8_e8m0fnu", None) and source != target:
        raise UnsupportedError("torch does not round to float8e8m0 as ONNX does")
    if target in LARGEST_FLOAT8:
        if ctx.attribute("saturate"):
            if source in LARGEST_FLOAT8:
                node = ctx.call(torch.Tensor.to, node, torch.float32)
            largest = LARGEST_FLOAT8[target]
            node = ctx.call(torch.clamp, node, -largest, largest)
        elif target == torch.float8_e4m3fn:
            raise UnsupportedError("torch always saturates in this conversion")
    return ctx.call(torch.Tensor.to, node, target)


@lowers("BitCast")
def _bit_cast(ctx: LayerContext) -> Node:
    return ctx.call(torch.Tensor.view, ctx.input(0), ctx.out_torch_dtype())


@lowers("Identity")
def _identity(ctx: LayerContext) -> Node:
    return ctx.call(torch.clone, ctx.input(0))
