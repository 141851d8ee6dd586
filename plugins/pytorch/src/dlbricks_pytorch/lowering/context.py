"""What a lowering sees of its layer, and what it builds the torch graph with."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import fx

from dlbricks_core.errors import UnsupportedError
from dlbricks_core.ir import Layer, Model
from dlbricks_pytorch.tensors import from_numpy, torch_dtype

Weights = Mapping[str, np.ndarray[Any, Any]]


class GraphBuilder:
    """The torch graph of a model as far as it is built.

    Args:
        model: In canonical form.
        weights: Values of its weights; ``None`` builds a graph only to see that it can
            be built, with placeholders instead of values.
    """

    def __init__(self, model: Model, weights: Weights | None) -> None:
        self.model = model
        self.weights = weights
        self.graph = fx.Graph()
        self.root = torch.nn.Module()
        self._nodes: dict[str, fx.Node] = {}
        self._buffers: dict[Any, fx.Node] = {}
        self._placed = 0

    def add_input(self, name: str) -> None:
        """Makes a tensor an argument of the graph."""
        torch_dtype(self.model.tensors[name].dtype)
        self._nodes[name] = self.graph.placeholder(f"input_{len(self._nodes)}")

    def bind(self, name: str, node: fx.Node) -> None:
        """Names the node that computes a tensor."""
        self._nodes[name] = node

    def node(self, name: str) -> fx.Node:
        """The node that holds a tensor; a weight is placed when it is first used."""
        if name not in self._nodes:
            self._nodes[name] = self.weight((name,))
        return self._nodes[name]

    def weight(
        self,
        names: tuple[str, ...],
        transform: Callable[..., torch.Tensor] | None = None,
        key: Any = None,
    ) -> fx.Node:
        """A buffer made of weights, once and outside of what is timed.

        Args:
            names: The weights that the transform takes.
            transform: From their values to the buffer; identity where left out.
            key: Tells transforms of the same weights apart; equal ones share a buffer.
        """
        identity = (names, key) if transform is None or key is not None else object()
        if identity not in self._buffers:
            for name in names:
                torch_dtype(self.model.tensors[name].dtype)
            if self.weights is None:
                value = torch.empty(0)
            else:
                values = [self.value(name) for name in names]
                value = (transform(*values) if transform else values[0]).contiguous()
            self._buffers[identity] = self._register(value)
        return self._buffers[identity]

    def constant(self, value: torch.Tensor) -> fx.Node:
        """A buffer with a value that the lowering itself knows."""
        return self._register(value)

    def value(self, name: str) -> torch.Tensor:
        """Value of a weight, in the shape that the model gives it."""
        assert self.weights is not None
        return from_numpy(self.weights[name]).reshape(self.model.tensors[name].sizes)

    def _register(self, value: torch.Tensor) -> fx.Node:
        name = f"w{self._placed}"
        self._placed += 1
        self.root.register_buffer(name, value)
        return self.graph.get_attr(name)


class LayerContext:
    """One layer, with short ways to ask about it and to emit torch calls."""

    def __init__(self, builder: GraphBuilder, layer: Layer) -> None:
        self._builder = builder
        self.layer = layer

    # What the layer is ---------------------------------------------------------------

    def attribute(self, name: str, default: Any = None) -> Any:
        """An attribute; the canonical form writes all that have a default."""
        return self.layer.attributes.get(name, default)

    def has(self, position: int) -> bool:
        """Whether the input is given."""
        return position < len(self.layer.inputs) and bool(self.layer.inputs[position])

    def wants(self, position: int) -> bool:
        """Whether the output is wanted."""
        return position < len(self.layer.outputs) and bool(self.layer.outputs[position])

    def shape(self, position: int) -> tuple[int, ...]:
        """Shape of an input."""
        return self._builder.model.tensors[self.layer.inputs[position]].sizes

    def rank(self, position: int) -> int:
        """Number of axes of an input."""
        return len(self.shape(position))

    def dtype(self, position: int) -> torch.dtype:
        """Torch type of an input."""
        return torch_dtype(self._builder.model.tensors[self.layer.inputs[position]].dtype)

    def result_shape(self, position: int = 0) -> tuple[int, ...]:
        """Shape of an output."""
        return self._builder.model.tensors[self.layer.outputs[position]].sizes

    def result_dtype(self, position: int = 0) -> torch.dtype:
        """Torch type of an output."""
        return torch_dtype(self._builder.model.tensors[self.layer.outputs[position]].dtype)

    def axis(self, name: str = "axis", default: int = 0, rank: int | None = None) -> int:
        """An axis attribute, not negative."""
        value = self.attribute(name, default)
        return int(value % max(self.rank(0) if rank is None else rank, 1))

    def is_weight(self, position: int) -> bool:
        """Whether the input is part of the model."""
        return self.has(position) and self.layer.inputs[position] in self._builder.model.weights

    def is_scalar_weight(self, position: int) -> bool:
        """Whether the input is one number that is part of the model."""
        return self.is_weight(position) and int(np.prod(self.shape(position))) == 1

    # Values that are known when the graph is built -----------------------------------

    def is_parameter(self, position: int) -> bool:
        """Whether the value of the input is known when the graph is built."""
        return self.has(position) and self.layer.inputs[position] in self._builder.model.constants

    def parameter(self, position: int) -> np.ndarray[Any, Any]:
        """Value of an input that is a parameter of the work, such as axes or pads.

        Raises:
            UnsupportedError: If it is not known before the model runs.
        """
        value = self._builder.model.constants.get(self.layer.inputs[position])
        if value is None:
            raise self.unsupported(f"input {position} is not a constant")
        return value

    def integers(self, position: int) -> tuple[int, ...]:
        """Value of an integer parameter."""
        return tuple(int(v) for v in self.parameter(position).ravel())

    def number(self, position: int) -> Any:
        """Value of an input for which :meth:`is_scalar_weight` holds, as a Python number.

        Without weights it is a placeholder.
        """
        if self._builder.weights is None:
            return 1
        return self._builder.value(self.layer.inputs[position]).reshape(()).item()

    def unsupported(self, reason: str) -> UnsupportedError:
        """The error that says why torch cannot express the layer."""
        return UnsupportedError(f"{self.layer.qualified_op}: {reason}")

    # Building ------------------------------------------------------------------------

    def input(self, position: int) -> fx.Node:
        """The node of an input."""
        return self._builder.node(self.layer.inputs[position])

    def optional(self, position: int) -> fx.Node | None:
        """The node of an input, or ``None`` where it is left out."""
        return self.input(position) if self.has(position) else None

    def inputs(self) -> list[fx.Node]:
        """Nodes of all inputs, for operators that take any number."""
        return [self._builder.node(name) for name in self.layer.inputs]

    def prepared(
        self, positions: int | tuple[int, ...], transform: Callable[..., Any], key: Any = None
    ) -> fx.Node:
        """Inputs brought into the form that torch wants.

        Weights are brought there once, before anything is timed; where one of the inputs
        is computed, the transform becomes part of the graph.
        """
        positions = (positions,) if isinstance(positions, int) else positions
        if all(self.is_weight(p) for p in positions):
            names = tuple(self.layer.inputs[p] for p in positions)
            return self._builder.weight(names, transform, key)
        return self.call(transform, *(self.input(p) for p in positions))

    def constant(self, value: torch.Tensor | np.ndarray[Any, Any]) -> fx.Node:
        """A tensor that the lowering itself made."""
        tensor = torch.from_numpy(value) if isinstance(value, np.ndarray) else value
        return self._builder.constant(tensor.contiguous())

    def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> fx.Node:
        """A call of a torch function, which knows the layer that it is part of."""
        node = self._builder.graph.call_function(function, args, kwargs)
        node.meta["layer"] = self.layer
        return node

    def item(self, node: fx.Node, index: int) -> fx.Node:
        """One of the results of a call that returns several."""
        return self.call(operator.getitem, node, index)
