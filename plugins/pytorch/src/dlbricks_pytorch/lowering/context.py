"""Context of the lowering of a layer: the layer, and the torch graph that it extends."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from dlbricks_contrib.layer_view import LayerView
from torch import fx

from dlbricks_core.backends import Array
from dlbricks_core.ir import CanonicalModel, Layer
from dlbricks_pytorch.tensors import borrowed, torch_dtype

Weights = Mapping[str, Array]


class GraphBuilder:
    """Builder of the torch graph of a model.

    Args:
        model: Model in canonical form.
        weights: Values of its weights by name. With ``None`` the graph has placeholders instead,
            which suffice to show whether it can be built.

    Attributes:
        origin: Layer of the user's model to which the next calls belong; ``None`` for the lowered
            layer itself.
    """

    def __init__(self, model: CanonicalModel, weights: Weights | None) -> None:
        self.model = model
        self.weights = weights
        self.origin: Layer | None = None
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
        """The node that holds a tensor. A weight is placed at its first use."""
        if name not in self._nodes:
            self._nodes[name] = self.weight((name,))
        return self._nodes[name]

    def weight(
        self,
        names: tuple[str, ...],
        transform: Callable[..., torch.Tensor] | None = None,
        key: Any = None,
    ) -> fx.Node:
        """A buffer that is computed from weights once, outside of the timing.

        Args:
            names: Names of the weights.
            transform: Function from the weights' values to the buffer; identity by default.
            key: Name of the transform among all transforms of the same weights. Equal keys share a
                buffer.
        """
        identity = (names, key) if transform is None or key is not None else object()
        if identity not in self._buffers:
            for name in names:
                torch_dtype(self.model.tensors[name].dtype)
            if self.weights is None:
                value = torch.empty(0)
            else:
                value = self._placed_weight(names, transform)
            self._buffers[identity] = self._register(value)
        return self._buffers[identity]

    def constant(self, value: torch.Tensor) -> fx.Node:
        """A buffer with a known value."""
        return self._register(value)

    def value(self, name: str) -> torch.Tensor:
        """Value of a weight, in its shape in the model; to be read alone."""
        assert self.weights is not None
        return borrowed(self.weights[name]).reshape(self.model.tensors[name].sizes)

    def _placed_weight(
        self, names: tuple[str, ...], transform: Callable[..., torch.Tensor] | None
    ) -> torch.Tensor:
        """A buffer in torch's own memory, after one copy: a weight may have gigabytes."""
        values = [self.value(name) for name in names]
        made = (transform(*values) if transform else values[0]).contiguous()
        shared = made.untyped_storage().data_ptr()
        is_borrowed = any(value.untyped_storage().data_ptr() == shared for value in values)
        return made.clone() if is_borrowed else made

    def _register(self, value: torch.Tensor) -> fx.Node:
        name = f"w{self._placed}"
        self._placed += 1
        self.root.register_buffer(name, value)
        return self.graph.get_attr(name)


class LayerContext(LayerView):
    """One layer, with short ways to ask about it and to emit torch calls."""

    def __init__(self, builder: GraphBuilder, layer: Layer) -> None:
        super().__init__(builder.model, layer)
        self._builder = builder

    def torch_dtype(self, position: int = 0) -> torch.dtype:
        """Torch's element type of an input."""
        return torch_dtype(self.dtype(position))

    def out_torch_dtype(self, position: int = 0) -> torch.dtype:
        """Torch's element type of an output."""
        return torch_dtype(self.out_dtype(position))

    def number(self, position: int) -> Any:
        """Value of an input for which :meth:`is_scalar_weight` holds, as a Python number.

        Without weights it is a placeholder.
        """
        if self._builder.weights is None:
            return 1
        return self._builder.value(self.layer.inputs[position]).reshape(()).item()

    # -- building

    def input(self, position: int = 0) -> fx.Node:
        """Node of an input."""
        return self._builder.node(self.layer.inputs[position])

    def optional(self, position: int) -> fx.Node | None:
        """Node of an input; ``None`` for an omitted one."""
        return self.input(position) if self.has(position) else None

    def inputs(self) -> list[fx.Node]:
        """Nodes of all inputs, for operators that take any number."""
        return [self._builder.node(name) for name in self.layer.inputs]

    def prepared(
        self, positions: int | tuple[int, ...], transform: Callable[..., Any], key: Any = None
    ) -> fx.Node:
        """Node of inputs in the form that torch requires.

        Weights are transformed once, before any timing. If one of the inputs is computed, the
        transform becomes part of the graph.
        """
        positions = (positions,) if isinstance(positions, int) else positions
        if all(self.is_weight(p) for p in positions):
            names = tuple(self.layer.inputs[p] for p in positions)
            return self._builder.weight(names, transform, key)
        return self.call(transform, *(self.input(p) for p in positions))

    def fixed(self, value: torch.Tensor | Array) -> fx.Node:
        """Node of a tensor that follows from the layer alone."""
        tensor = torch.from_numpy(value) if isinstance(value, np.ndarray) else value
        return self._builder.constant(tensor.contiguous())

    def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> fx.Node:
        """Call of a torch function, marked with its layer."""
        node = self._builder.graph.call_function(function, args, kwargs)
        node.meta["layer"] = self._builder.origin or self.layer
        return node

    def item(self, node: fx.Node, index: int) -> fx.Node:
        """One of the results of a call that returns several."""
        return self.call(operator.getitem, node, index)
