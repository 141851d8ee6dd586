"""What the lowering of one layer works with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import onnx

from dlbricks_core.ir import Layer, Model, TensorSpec
from dlbricks_mxnet.layouts import comes_in_blocks
from dlbricks_mxnet.lowering.registry import ANY, unsupported
from dlbricks_mxnet.lowering.symbols import Shape, Symbol, mx, op, physical

Array = np.ndarray[Any, Any]

#: Attributes that follow from the shapes and types, or that change no result here.
_IMMATERIAL = frozenset(
    {
        "allowzero", "ceil_mode", "hidden_size", "kernel_shape", "momentum", "noop_with_empty_axes",
        "num_outputs", "output_dtype", "output_padding", "output_shape", "precision", "saturate",
        "softmax_precision", "sorted", "spatial", "stash_type", "storage_order", "to",
        "training_mode",
    }
)  # fmt: skip


@cache
def _default(op: str, attribute: str) -> Any:
    """The default that ONNX's newest definition of the operator gives an attribute."""
    known = onnx.defs.get_schema(op).attributes
    if attribute not in known:
        return None
    value = onnx.helper.get_attribute_value(known[attribute].default_value)
    return value.decode() if isinstance(value, bytes) else value


Values = Callable[[str], Array]


@dataclass(frozen=True)
class Parameter:
    """An MXNet variable that is computed from weights when the network is loaded.

    Attributes:
        build: Gives the value in MXNet's layout, from the weights' values by name.
        auxiliary: Whether MXNet counts it as state rather than as an argument.
    """

    shape: Shape
    dtype: str
    build: Callable[[Values], Array]
    auxiliary: bool = False


def check_spec(spec: TensorSpec) -> None:
    """Refuses tensors that MXNet cannot hold.

    Raises:
        UnsupportedError: If the type is unknown to MXNet, or a size is unknown or zero.
    """
    if spec.dtype not in ANY:
        raise unsupported(f"no element type {spec.dtype}")
    if not spec.is_static:
        raise unsupported(f"no tensors of unknown shape ({spec})")
    if 0 in spec.sizes:
        raise unsupported("no tensors without elements")


@dataclass
class Variables:
    """The variables of one symbol: the model's inputs, and parameters made from its weights."""

    model: Model
    symbols: dict[str, Symbol] = field(default_factory=dict)
    parameters: dict[str, Parameter] = field(default_factory=dict)

    def variable(self, name: str, spec: TensorSpec) -> Symbol:
        """A variable that holds a tensor of the model as it is."""
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
        """The variable of a parameter; the same name is the same parameter."""
        self.parameters.setdefault(name, parameter)
        return self._variable(name, parameter.shape, parameter.dtype)

    def _variable(self, name: str, shape: Shape, dtype: str) -> Symbol:
        check_spec(TensorSpec(dtype, shape))
        if name not in self.symbols:
            self.symbols[name] = mx.sym.var(name, shape=shape, dtype=dtype)
        return self.symbols[name]


class LayerContext:
    """One layer, with the symbols of its inputs.

    Args:
        model: The model that the layer is part of.
        layer: The layer.
        computed: Symbol of every tensor that is fed or computed before the layer.
        variables: Where the layer's weights become variables.
        values: Known values of weights; where the model knows a value and this
            does not, the model's counts.
    """

    def __init__(
        self,
        model: Model,
        layer: Layer,
        computed: Mapping[str, Symbol],
        variables: Variables,
        values: Mapping[str, Array],
    ) -> None:
        self._model = model
        self._computed = computed
        self._variables = variables
        self._values = values
        self._read: set[str] = set()
        self.layer = layer

    # -- what the layer is ---------------------------------------------------------

    @property
    def count(self) -> int:
        """Number of input positions."""
        return len(self.layer.inputs)

    def has(self, position: int) -> bool:
        """Whether the input is there."""
        return position < self.count and bool(self.layer.inputs[position])

    def wants(self, position: int) -> bool:
        """Whether the output is there."""
        return position < len(self.layer.outputs) and bool(self.layer.outputs[position])

    def spec(self, position: int = 0) -> TensorSpec:
        """Specification of an input."""
        return self._model.tensors[self.layer.inputs[position]]

    def shape(self, position: int = 0) -> Shape:
        """Shape of an input."""
        return self.spec(position).sizes

    def rank(self, position: int = 0) -> int:
        """Number of axes of an input."""
        return len(self.shape(position))

    def dtype(self, position: int = 0) -> str:
        """Element type of an input."""
        return self.spec(position).dtype

    def out_spec(self, position: int = 0) -> TensorSpec:
        """Specification of an output."""
        return self._model.tensors[self.layer.outputs[position]]

    def out_shape(self, position: int = 0) -> Shape:
        """Shape of an output."""
        return self.out_spec(position).sizes

    def out_dtype(self, position: int = 0) -> str:
        """Element type of an output."""
        return self.out_spec(position).dtype

    def attribute(self, name: str, default: Any = None) -> Any:
        """Value of an attribute; the default where it has none."""
        self._read.add(name)
        return self.layer.attributes.get(name, default)

    def ignore(self, *names: str) -> None:
        """Says that attributes, whatever their values, make no difference here."""
        self._read.update(names)

    def axis(self, default: int = -1, position: int = 0) -> int:
        """The attribute ``axis``, counted from the front of an input."""
        axis = int(self.attribute("axis", default))
        return axis + self.rank(position) if axis < 0 else axis

    # -- its inputs ----------------------------------------------------------------

    def is_weight(self, position: int) -> bool:
        """Whether the input is part of the model rather than computed or fed."""
        return self.has(position) and self.layer.inputs[position] in self._model.weights

    def plain(self, position: int = 0) -> Symbol:
        """Symbol of an input whose elements have to be in plain order.

        Some operators of MXNet 1.9.1 fail or crash on what oneDNN leaves in blocks of channels.
        Taking a slice of all puts them in order.
        """
        symbol = self.symbol(position)
        if comes_in_blocks(self._model, self.layer.inputs[position]):
            return op.slice_axis(symbol, axis=0, begin=0, end=None)
        return symbol

    def symbol(self, position: int = 0) -> Symbol:
        """Symbol of an input, in the tensor's own layout."""
        name = self.layer.inputs[position]
        if name in self._computed:
            return self._computed[name]
        return self._variables.weight(name)

    def symbols(self) -> list[Symbol]:
        """Symbols of all inputs."""
        return [self.symbol(i) for i in range(self.count)]

    def constant(self, position: int) -> Array | None:
        """Value of an input, where it is known before the network runs."""
        if not self.is_weight(position):
            return None
        name = self.layer.inputs[position]
        if name not in self._model.constants:
            return None
        return np.asarray(self._values.get(name, self._model.constants[name]))

    def known(self, position: int, what: str) -> Array:
        """Value of an input that MXNet takes as an attribute.

        Raises:
            UnsupportedError: If the value is computed.
        """
        value = self.constant(position)
        if value is None:
            raise unsupported(f"{self.layer.op} needs constant {what}")
        return value

    # -- variables that it adds ----------------------------------------------------

    def parameter(
        self,
        role: str,
        positions: Sequence[int],
        build: Callable[..., Array],
        shape: Shape,
        *,
        dtype: str = "",
        auxiliary: bool = False,
    ) -> Symbol:
        """A variable made from weights when the network is loaded.

        Args:
            role: What it is to the layer; one variable for the same role and weights.
            positions: Inputs that it is made from, all of them weights.
            build: Gives the value from the weights' values.
            shape: Shape of the value.
            dtype: Element type; the first weight's if empty.
            auxiliary: Whether MXNet keeps it as state.

        Raises:
            UnsupportedError: If an input is not a weight.
        """
        names = [self.layer.inputs[i] for i in positions]
        for i in positions:
            if not self.is_weight(i):
                raise unsupported(f"{self.layer.op} needs weights that are not computed")
        dtype = dtype or self.dtype(positions[0])

        def value(weights: Values) -> Array:
            built = build(*(weights(name) for name in names))
            return np.ascontiguousarray(built, dtype=np.dtype(dtype)).reshape(shape)

        name = self._unique(":".join((*names, role)))
        return self._variables.parameter(name, Parameter(shape, dtype, value, auxiliary))

    def table(self, role: str, value: Array) -> Symbol:
        """A variable with a value that follows from the layer alone, such as positions."""
        fixed = np.ascontiguousarray(value)
        fixed = fixed.reshape(physical(fixed.shape))
        name = self._unique(f"{self._output_name()}:{role}")
        parameter = Parameter(fixed.shape, fixed.dtype.name, lambda _: fixed)
        return self._variables.parameter(name, parameter)

    def _output_name(self) -> str:
        return next(name for name in self.layer.outputs if name)

    def _unique(self, name: str) -> str:
        while name in self._model.tensors:  # only if the producer used our separator
            name += ":"
        return name

    def check_attributes(self) -> None:
        """Compares the attributes that the lowering looked at with those that the layer has.

        Raises:
            UnsupportedError: If one was not looked at and is not at its default.
        """
        for name, value in self.layer.attributes.items():
            if name in self._read or name in _IMMATERIAL:
                continue
            if value != _default(self.layer.op, name):
                raise unsupported(f"{self.layer.op} with {name}={value!r}")

    def check_tensors(self, types: frozenset[str], axes: int) -> None:
        """Compares the layer's element types and ranks with what its lowering knows.

        Raises:
            UnsupportedError: If there is another type among them, or too many axes.
        """
        for name in (*self.layer.inputs, *self.layer.outputs):
            if not name:
                continue
            spec = self._model.tensors[name]
            if name not in self._model.weights:
                check_spec(spec)
            if spec.rank > axes:
                raise unsupported(f"{self.layer.op} with more than {axes} axes")
        first = next((name for name in self.layer.inputs if name), None)
        if first and self._model.tensors[first].dtype not in types:
            dtype = self._model.tensors[first].dtype
            raise unsupported(f"{self.layer.op} does not compute with {dtype}")
