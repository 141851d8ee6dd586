"""Activation functions of feed-forward parts, in ONNX operators."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from dlbricks_decoders.block_parts import Activation
from dlbricks_decoders.graph import Graph

_Writer = Callable[[Graph, Activation, str, str], str]
"""The activated tensor from ``(graph, activation, tensor, name)``."""


def activated(graph: Graph, activation: Activation, x: str, at: str) -> str:
    """An activation function of one tensor."""
    return _SEVERAL.get(activation.op, _single_node)(graph, activation, x, at)


def product(graph: Graph, activation: Activation, gate: str, up: str, at: str) -> str:
    """The activated gate times the other projection; both are limited where there is a limit."""
    if not activation.limit:
        y = activated(graph, activation, gate, f"{at}.act")
        return graph.add("Mul", y, up, out=f"{at}.product")
    low, high = graph.number(-activation.limit), graph.number(activation.limit)
    gate = graph.add("Min", gate, high, out=f"{at}.gate.limited")
    up = graph.add("Clip", up, low, high, out=f"{at}.up.limited")
    if activation.raised:
        up = graph.add("Add", up, graph.number(1.0), out=f"{at}.up.raised")
    return graph.add(
        "Mul", up, activated(graph, activation, gate, f"{at}.act"), out=f"{at}.product"
    )


def _single_node(graph: Graph, activation: Activation, x: str, at: str) -> str:
    if activation.approximate:
        return graph.add(activation.op, x, out=at, approximate=activation.approximate)
    return graph.add(activation.op, x, out=at)


def _squared(graph: Graph, activation: Activation, x: str, at: str) -> str:
    """The square of ReLU (So et al., Primer, 2021)."""
    y = graph.add("Relu", x, out=f"{at}.relu")
    return graph.add("Mul", y, y, out=at)


def _sharper_swish(graph: Graph, activation: Activation, x: str, at: str) -> str:
    """Swish with a factor of 1.702, an approximation of GELU (Hendrycks and Gimpel, 2016)."""
    y = graph.add("Mul", x, graph.number(1.702), out=f"{at}.scaled")
    y = graph.add("Sigmoid", y, out=f"{at}.sigmoid")
    return graph.add("Mul", x, y, out=at)


def _xielu(graph: Graph, activation: Activation, x: str, at: str) -> str:
    """XIELU with its initial coefficients (Huang and Schlag, 2024)."""
    curve, slope = graph.number(0.8), graph.number(0.5)
    line = graph.add("Mul", x, slope, out=f"{at}.line")
    square = graph.add("Mul", x, x, out=f"{at}.square")
    above = graph.add("Mul", square, curve, out=f"{at}.square.scaled")
    low = graph.add("Min", x, graph.number(-1e-6), out=f"{at}.low")
    wave = graph.add("Exp", low, out=f"{at}.exp")
    wave = graph.add("Sub", wave, graph.number(1.0), out=f"{at}.expm1")
    below = graph.add("Sub", wave, x, out=f"{at}.below")
    below = graph.add("Mul", below, curve, out=f"{at}.below.scaled")
    positive = graph.add("Greater", x, graph.number(0.0), out=f"{at}.positive")
    y = graph.add("Where", positive, above, below, out=f"{at}.curve")
    return graph.add("Add", y, line, out=at)


def _new_gelu(graph: Graph, activation: Activation, x: str, at: str) -> str:
    """GELU by tanh of a polynomial, as GPT-2's code writes it."""
    half = graph.add("Mul", x, graph.number(0.5), out=f"{at}.half")
    y = graph.add("Pow", x, graph.number(3.0), out=f"{at}.cube")
    y = graph.add("Mul", y, graph.number(_CUBIC), out=f"{at}.cube.scaled")
    y = graph.add("Add", x, y, out=f"{at}.polynomial")
    y = graph.add("Mul", y, graph.number(_LINEAR), out=f"{at}.polynomial.scaled")
    return _halved(graph, half, graph.add("Tanh", y, out=f"{at}.tanh"), at)


def _fast_gelu(graph: Graph, activation: Activation, x: str, at: str) -> str:
    """GELU by tanh of products, without a power, as Bloom's code writes it."""
    half = graph.add("Mul", x, graph.number(0.5), out=f"{at}.half")
    y = graph.add("Mul", x, graph.number(_CUBIC), out=f"{at}.curve")
    y = graph.add("Mul", y, x, out=f"{at}.square")
    y = graph.add("Add", y, graph.number(1.0), out=f"{at}.square.raised")
    slope = graph.add("Mul", x, graph.number(_LINEAR), out=f"{at}.line")
    y = graph.add("Mul", slope, y, out=f"{at}.polynomial")
    return _halved(graph, half, graph.add("Tanh", y, out=f"{at}.tanh"), at)


def _halved(graph: Graph, half: str, y: str, at: str) -> str:
    y = graph.add("Add", y, graph.number(1.0), out=f"{at}.raised")
    return graph.add("Mul", half, y, out=at)


_CUBIC, _LINEAR = 0.044715, math.sqrt(2 / math.pi)
"""Coefficients of the polynomial whose tanh approximates GELU."""

_SEVERAL: Mapping[str, _Writer] = {
    "NewGelu": _new_gelu,
    "FastGelu": _fast_gelu,
    "SquaredRelu": _squared,
    "SharperSwish": _sharper_swish,
    "XIELU": _xielu,
}
"""Functions that take several operators."""
