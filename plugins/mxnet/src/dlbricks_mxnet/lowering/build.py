"""Lowering of whole networks: layers in order, with the table of operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext, redirect_stdout
from dataclasses import dataclass
from io import StringIO

import numpy as np
from dlbricks_contrib.expand import expanded

from dlbricks_core.backends import Array, Network
from dlbricks_core.errors import UnsupportedError
from dlbricks_core.ir import CanonicalModel, TensorSpec
from dlbricks_mxnet.framework import in_words
from dlbricks_mxnet.lowering import families as families  # fills the table
from dlbricks_mxnet.lowering.context import Variables
from dlbricks_mxnet.lowering.symbols import Symbol, mx, physical
from dlbricks_mxnet.lowering.table import LOWERINGS, lower_layer


@dataclass(frozen=True)
class Lowered:
    """A network in the form that MXNet runs.

    MXNet represents a tensor without axes as a vector of one element: :meth:`feed` and
    :meth:`fetch` convert it.

    Attributes:
        symbol: The outputs, grouped, in the order of ``model.outputs``.
        inputs: MXNet variable of each model input, in order.
        arrays: Value of each MXNet variable that holds weights, in MXNet's layout.
        auxiliary: Names of auxiliary states among ``arrays``.
    """

    symbol: Symbol
    inputs: tuple[str, ...]
    arrays: Mapping[str, Array]
    auxiliary: frozenset[str]

    def feed(self, values: Mapping[str, Array], model: CanonicalModel) -> dict[str, Array]:
        """The model's inputs by MXNet variable, in MXNet's shapes."""
        return {
            variable: np.ascontiguousarray(values[name]).reshape(
                physical(model.tensors[name].sizes)
            )
            for variable, name in zip(self.inputs, model.inputs, strict=True)
        }

    def fetch(self, results: list[Array], model: CanonicalModel) -> dict[str, Array]:
        """MXNet's results by the model's tensor names, in the model's shapes."""
        return {
            name: np.reshape(result, model.tensors[name].sizes)
            for name, result in zip(model.outputs, results, strict=True)
        }


LAYER = "__layer__"
"""Name of the attribute with the index of the layer that an operator belongs to."""


def lower(network: Network, *, marked: bool = False) -> Lowered:
    """Lowers a network to an MXNet symbol with its parameters.

    Args:
        network: Network in canonical form. Operators without a counterpart in MXNet are composed
            from their definitions.
        marked: Whether every operator gets the attribute ``LAYER``.

    Raises:
        UnsupportedError: If MXNet has no counterpart for a layer.
    """
    whole = expanded(network.model, LOWERINGS)
    network = whole.network(network)
    model = whole.model
    variables = Variables(model)
    computed = {name: variables.variable(name, model.tensors[name]) for name in model.inputs}
    for index, layer in zip(whole.origins, model.layers, strict=True):
        with mx.AttrScope(**{LAYER: str(index)}) if marked else nullcontext():
            computed |= lower_layer(variables, layer, computed)
    outputs = [
        computed[name] if name in computed else variables.weight(name) for name in model.outputs
    ]
    symbol = mx.sym.Group(_distinct(outputs))
    verify(symbol, model.outputs, model)
    used = set(symbol.list_inputs())
    parameters = {k: p for k, p in variables.parameters.items() if k in used}
    return Lowered(
        symbol=symbol,
        inputs=model.inputs,
        arrays={name: p.build(network.weights.__getitem__) for name, p in parameters.items()},
        auxiliary=frozenset(name for name, p in parameters.items() if p.auxiliary),
    )


def verify(symbol: Symbol, names: Sequence[str], model: CanonicalModel) -> None:
    """Compares the shapes and element types that MXNet derives with those of the model.

    Raises:
        UnsupportedError: If MXNet rejects the symbol, or derives another shape or type.
    """
    try:
        with redirect_stdout(StringIO()):  # MXNet prints its arguments to stderr before it raises
            shapes = symbol.infer_shape()[1]
            types = symbol.infer_type()[1]
    except mx.base.MXNetError as error:
        lines = [line for line in str(error).splitlines() if "Check failed" in line]
        reason = (lines or str(error).splitlines())[-1]
        words = in_words(reason[max(reason.find("Check failed: "), 0) :])
        raise UnsupportedError(f"MXNet: {words}") from error
    for name, shape, dtype in zip(names, shapes, types, strict=True):
        spec = model.tensors[name]
        if tuple(shape) != physical(spec.sizes) or np.dtype(dtype).name != spec.dtype:
            found = TensorSpec(np.dtype(dtype).name, tuple(shape))
            raise UnsupportedError(f"MXNet computes {found} instead of {spec}")


def _distinct(outputs: list[Symbol]) -> list[Symbol]:
    """The outputs; each output that is a variable or appears twice gets its own node."""
    seen: set[str] = set()
    distinct = []
    for symbol in outputs:
        name = symbol.list_outputs()[0]
        alone = name not in seen and symbol.get_children() is not None
        seen.add(name)
        distinct.append(symbol if alone else mx.sym.identity(symbol))
    return distinct
