"""Context of the lowering of a layer: the layer, and the variables that it adds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from dlbricks_contrib.layer_view import LayerView

from dlbricks_core.backends import Array
from dlbricks_core.errors import UnsupportedError
from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec
from dlbricks_mxnet.layouts import comes_in_blocks
from dlbricks_mxnet.lowering.limits import ANY
from dlbricks_mxnet.lowering.symbols import Shape, Symbol, mx, op, physical

Values = Callable[[str], Array]


@dataclass(frozen=True)
class Parameter:
    """An MXNet variable that is computed from weights when the network is loaded.

    Attributes:
        build: Function that computes the value in MXNet's layout, from the weights' values by name.
        auxiliary: Whether MXNet treats it as an auxiliary state rather than an argument.
    """

    shape: Shape
    dtype: str
    build: Callable[[Values], Array]
    auxiliary: bool = False


def check_spec(spec: TensorSpec) -> None:
    """Raises an error for tensors that MXNet cannot represent.

    Raises:
        UnsupportedError: If the type is unknown to MXNet, or a size is unknown or zero.
    """
    if spec.dtype not in ANY:
        raise UnsupportedError(f"MXNet has no element type {spec.dtype}")
    if not spec.is_static:
        raise UnsupportedError(f"MXNet has no tensors of unknown shape ({spec})")
    if 0 in spec.sizes:
        raise UnsupportedError("MXNet has no tensors without elements")


@dataclass
class Variables:
    """The variables of one symbol: the model's inputs, and parameters made from its weights."""

    model: CanonicalModel
    symbols: dict[str, Symbol] = field(default_factory=dict)
    parameters: dict[str, Parameter] = field(default_factory=dict)

    def variable(self, name: str, spec: TensorSpec) -> Symbol:
        """A variable that holds a tensor of the model unchanged."""
        check_spec(spec)
        return self._variable(name, physical(spec.sizes), spec.dtype)

    def weight(self, name: str) -> Symbol:
        """The variable of a weight in its own layout."""
        spec = self.model.tensors[name]
        shape = physical(spec.sizes)
        return self.parameter(
            name, Parameter(shape, spec.dtype, lambda value: value(name).reshape(shape))
        )

    def parameter(self, name: str, parameter: Parameter) -> Symbol:
        """The variable of a parameter; equal names share one parameter."""
        self.parameters.setdefault(name, parameter)
        return self._variable(name, parameter.shape, parameter.dtype)

    def _variable(self, name: str, shape: Shape, dtype: str) -> Symbol:
        check_spec(TensorSpec(dtype, shape))
        if name not in self.symbols:
            self.symbols[name] = mx.sym.var(name, shape=shape, dtype=dtype)
        return self.symbols[name]


class LayerContext(LayerView):
    """One layer, with the symbols of its inputs.

    Args:
        variables: Variables of the symbol that the layer becomes part of.
        layer: The layer.
        computed: Symbol of every tensor that is an input of the model or computed before the layer.
    """

    def __init__(self, variables: Variables, layer: Layer, computed: Mapping[str, Symbol]) -> None:
        super().__init__(variables.model, layer)
        self._computed = computed
        self._variables = variables

    # -- building

    def input(self, position: int = 0) -> Symbol:
        """Symbol of an input, in the tensor's own layout."""
        name = self.layer.inputs[position]
        if name in self._computed:
            return self._computed[name]
        return self._variables.weight(name)

    def inputs(self) -> list[Symbol]:
        """Symbols of all inputs, for operators that take any number."""
        return [self.input(i) for i in range(self.count)]

    def plain(self, position: int = 0) -> Symbol:
        """Symbol of an input whose elements must be in plain order.

        Some operators of MXNet 1.9.1 fail or crash on tensors in blocks of channels. A slice of all
        elements restores plain order.
        """
        symbol = self.input(position)
        if comes_in_blocks(self.model, self.layer.inputs[position]):
            return op.slice_axis(symbol, axis=0, begin=0, end=None)
        return symbol

    def prepared(
        self,
        role: str,
        positions: Sequence[int],
        build: Callable[..., Array],
        shape: Shape,
        *,
        dtype: str = "",
        auxiliary: bool = False,
    ) -> Symbol:
        """Symbol of weights in the form that MXNet requires, computed when the network is loaded.

        Args:
            role: Role of the value in the layer. Equal roles and weights share one variable.
            positions: Inputs that the value is computed from, all of them weights.
            build: Function that computes the value from the weights' values.
            shape: Shape of the value.
            dtype: Element type; that of the first weight if empty.
            auxiliary: Whether MXNet treats it as an auxiliary state.

        Raises:
            UnsupportedError: If an input is not a weight.
        """
        names = [self.layer.inputs[i] for i in positions]
        if not all(self.is_weight(i) for i in positions):
            raise UnsupportedError("MXNet needs weights that are not computed")
        dtype = dtype or self.dtype(positions[0])

        def value(weights: Values) -> Array:
            built = build(*(weights(name) for name in names))
            return np.asarray(built, dtype=np.dtype(dtype)).reshape(shape)

        name = self._unique(":".join((*names, role)))
        return self._variables.parameter(name, Parameter(shape, dtype, value, auxiliary))

    def fixed(self, role: str, value: Array) -> Symbol:
        """Symbol of a value that follows from the layer alone, such as positions."""
        held = np.ascontiguousarray(value)
        held = held.reshape(physical(held.shape))
        name = self._unique(f"{self._output_name()}:{role}")
        parameter = Parameter(held.shape, held.dtype.name, lambda _: held)
        return self._variables.parameter(name, parameter)

    def _output_name(self) -> str:
        return next(name for name in self.layer.outputs if name)

    def _unique(self, name: str) -> str:
        while name in self.model.tensors:  # only if the producer used our separator
            name += ":"
        return name

    # -- refusing

    def check_attributes(self) -> None:
        """Checks that the lowering has read all attributes that matter.

        Raises:
            UnsupportedError: If there is one.
        """
        for name, value in self.unread().items():
            raise UnsupportedError(f"MXNet has no {name}={value!r}")

    def check_tensors(self, types: frozenset[str], axes: int) -> None:
        """Checks that the lowering supports the layer's element types and ranks.

        Raises:
            UnsupportedError: If a type is unsupported, or a tensor has too many axes.
        """
        for name in filter(None, (*self.layer.inputs, *self.layer.outputs)):
            spec = self.model.tensors[name]
            if name not in self.model.weights:
                check_spec(spec)
            if spec.rank > axes:
                raise UnsupportedError(f"MXNet does not take more than {axes} axes")
        first = next(filter(None, self.layer.inputs), None)
        if first and self.model.tensors[first].dtype not in types:
            raise UnsupportedError(f"MXNet does not compute with {self.model.tensors[first].dtype}")
