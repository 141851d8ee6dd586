"""Definitions of quantized operators: floats are computed with, and quantized again."""

from __future__ import annotations

from collections.abc import Callable

from dlbricks_core.errors import UnsupportedError
from dlbricks_core.passes.contrib.body import Body


def _floats(body: Body, *positions: int) -> str:
    """A quantized input as floats, from its codes, its scale and its zero point."""
    return body.op("DequantizeLinear", *filter(None, (body.input(at) for at in positions)))


def _codes(body: Body, name: str, scale: int, zero: int) -> None:
    """Gives a result as codes."""
    if not body.has(zero):
        raise UnsupportedError("a quantized result without a zero point has no definition")
    body.give(0, body.op("QuantizeLinear", name, body.input(scale), body.input(zero)))


def of_one(op: str, *attributes: str) -> Callable[[Body], None]:
    """Definition of a function of one quantized input."""

    def define(body: Body) -> None:
        if body.attribute("channels_last", 0):
            raise UnsupportedError("maps with their channels last have no definition")
        given = {name: body.attribute(name) for name in attributes if name in body.layer.attributes}
        _codes(body, body.op(op, _floats(body, 0, 1, 2), **given), 3, 4)

    return define


def of_two(op: str) -> Callable[[Body], None]:
    """Definition of a function of two quantized inputs."""
    return lambda body: _codes(
        body, body.op(op, _floats(body, 0, 1, 2), _floats(body, 3, 4, 5)), 6, 7
    )


def concat(body: Body) -> None:
    """QLinearConcat."""
    parts = [_floats(body, at, at + 1, at + 2) for at in range(2, len(body.inputs), 3)]
    _codes(body, body.op("Concat", *parts, axis=body.attribute("axis")), 0, 1)


def where(body: Body) -> None:
    """QLinearWhere."""
    chosen = body.op("Where", body.input(0), _floats(body, 1, 2, 3), _floats(body, 4, 5, 6))
    _codes(body, chosen, 7, 8)


def softmax(body: Body) -> None:
    """QLinearSoftmax, of one axis."""
    if body.attribute("opset") < 13 and body.attribute("axis", -1) not in (-1, len(body.sizes())):
        raise UnsupportedError("a softmax over several axes has no definition")
    axis = body.attribute("axis", -1)
    _codes(body, body.op("Softmax", _floats(body, 0, 1, 2), axis=axis), 3, 4)


def gemm(body: Body) -> None:
    """QGemm: the bias has the scale of the product."""
    names = ("alpha", "transA", "transB")
    given = {name: body.attribute(name) for name in names if name in body.layer.attributes}
    if given.get("alpha", 1.0) != 1.0 or len(body.sizes(4)) or body.sizes(1):
        raise UnsupportedError("scales of columns and of the product have no definition")
    inputs = [_floats(body, 0, 1, 2), _floats(body, 3, 4, 5)]
    if body.has(6):
        scale = body.op("Mul", body.input(1), body.input(4))
        inputs.append(body.op("Mul", body.cast(body.input(6), body.dtype(1)), scale))
    y = body.op("Gemm", *inputs, **given)
    if body.has(7):
        _codes(body, y, 7, 8)
    else:
        body.give(0, y)
