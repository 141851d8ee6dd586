"""Options of the user for normalizing a model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dlbricks_core.passes import expressions
from dlbricks_core.passes.batch_axes import batch_axes

if TYPE_CHECKING:
    from dlbricks_core.ir import RawModel


InputValue = float | tuple[float, ...] | None
"""Constant value of an input: one number for all elements, or one for each; ``None`` for no
input."""


def input_value(data: float | list[float] | None) -> InputValue:
    """Constant value of an input from JSON."""
    return tuple(data) if isinstance(data, list) else data


def input_data(value: InputValue) -> float | list[float] | None:
    """Constant value of an input as JSON has it."""
    return list(value) if isinstance(value, tuple) else value


@dataclass(frozen=True)
class NormalizeOptions:
    """Sizes and values of inputs, and what to fold.

    Attributes:
        batch: Size of the batch of every input where that is dynamic, and of every other dimension
            that has the same symbol. The batch is the first axis, unless the names of dimensions
            or recurrent layers show another.
        dims: Size by symbol, or by ``input.axis`` (``data.2``); takes precedence over ``batch``.
            A symbol that is an expression (``past + 1``) follows from the symbols in it.
        shapes: Whole shape by input; the only way for inputs of which not even the rank is known.
        values: Constant value of an input, by its name: one number for all elements, or one for
            each element; ``None`` for an optional input that is left out.
        fold_batchnorm: Whether to fold each BatchNormalization into the layer before it.
    """

    batch: int | None = None
    dims: Mapping[str, int] = field(default_factory=dict)
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    values: Mapping[str, InputValue] = field(default_factory=dict)
    fold_batchnorm: bool = False


# Dimensions of a raw model's inputs, and their names.


def dimension_names(model: RawModel) -> set[str]:
    """Names of everything that a size may be given for.

    Inputs, places in them (``data.2``), symbols, and the symbols that expressions are made of.
    """
    return names_of_sizes(model).union(places_of(model), model.inputs)


def symbols_of(model: RawModel, tensors: Iterable[str]) -> set[str]:
    """Names of dynamic dimensions of some tensors."""
    dims = (dim for name in tensors for dim in model.tensors[name].shape or ())
    return {dim for dim in dims if isinstance(dim, str)}


def names_of_sizes(model: RawModel) -> set[str]:
    """Symbols, and the symbols that expressions among them are made of."""
    symbols = symbols_of(model, model.tensors)
    return symbols.union(*map(expressions.parts, symbols))


def places_of(model: RawModel) -> dict[str, tuple[str, int]]:
    """Input and axis, by the name of that place (``data.2``)."""
    return {
        f"{name}.{axis}": (name, axis)
        for name in model.inputs
        for axis in range(len(model.tensors[name].shape or ()))
    }


@dataclass(frozen=True, slots=True)
class OpenDimension:
    """A dimension of an input that a model leaves open.

    Attributes:
        input: Name of the input.
        axis: Its axis.
        name: The name that ``dims`` knows it by: a symbol, an expression over symbols, or the place
            (``data.2``).
        is_batch: Whether it is the batch.
    """

    input: str
    axis: int
    name: str
    is_batch: bool = False

    @property
    def place(self) -> str:
        """Its place, as ``dims`` names it (``data.2``)."""
        return f"{self.input}.{self.axis}"

    @property
    def symbols(self) -> frozenset[str]:
        """Names that sizes are given for: the parts of an expression, or the name itself."""
        return expressions.parts(self.name) or frozenset({self.name})


def open_dimensions(model: RawModel) -> tuple[OpenDimension, ...]:
    """Each dimension that a model's inputs leave open."""
    axes = batch_axes(model)
    return tuple(
        OpenDimension(
            name, axis, dim if isinstance(dim, str) else f"{name}.{axis}", axes[name] == axis
        )
        for name in model.inputs
        for axis, dim in enumerate(model.tensors[name].shape or ())
        if not isinstance(dim, int)
    )
