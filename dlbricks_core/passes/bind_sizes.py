"""Gives every dynamic dimension of a raw model's inputs a size."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from dlbricks_core.errors import ModelError, UnboundDimensionsError
from dlbricks_core.ir import Dim, Layer, RawModel, TensorSpec, numpy_dtype
from dlbricks_core.ir.limits import MAX_CONSTANT_ELEMENTS
from dlbricks_core.passes import expressions
from dlbricks_core.passes.batch_axes import batch_axes
from dlbricks_core.passes.options import (
    NormalizeOptions,
    names_of_sizes,
    open_dimensions,
    places_of,
    symbols_of,
)
from dlbricks_core.passes.pipeline import Property, properties
from dlbricks_core.wording import settings

_MOST_PLACES = 8
"""Dimensions that an error names."""

CACHED = re.compile(r"past.*(key|value).*")
"""Inputs with the keys or values of earlier tokens, as exporters of language models name them."""


@properties(ensures=[Property.INPUTS_SIZED])
def bind_sizes(model: RawModel, options: NormalizeOptions) -> RawModel:
    """The model with a size for every dynamic dimension of its inputs.

    Raises:
        UnboundDimensionsError: If an input's dimension is left without a size; lists them all.
        ModelError: If a size is negative, contradicts another or a condition of the model, or a
            name in ``options.dims`` matches no dimension.
    """
    batch = options.batch
    for name, size in {"batch": 1 if batch is None else batch, **options.dims}.items():
        if size < 0:  # zero has its use: the length of an empty cache
            raise ModelError(f"{model.name}: dimension {name!r} cannot have size {size}")
    sizes = _Sizes(model)
    sizes.take(options.dims, options.shapes)
    sizes.work_out()
    if batch is not None:
        sizes.take_batch(batch)
    tensors = dict(model.tensors)
    if sizes.symbols:
        tensors = {name: _substitute(spec, sizes.symbols) for name, spec in tensors.items()}
    for name, whole in sizes.shapes.items():
        tensors[name] = replace(tensors[name], shape=whole)
    for (name, axis), size in sizes.places.items():
        shape = tensors[name].shape or ()
        tensors[name] = replace(tensors[name], shape=(*shape[:axis], size, *shape[axis + 1 :]))
    sized = replace(model, tensors=tensors)
    _check(sized, sizes.symbols)
    if isinstance(model, RawModel):
        _check_conditions(model, sizes.symbols)
    return sized


@dataclass
class _Sizes:
    """Given sizes of the dimensions of a model's inputs.

    Attributes:
        model: The model.
        symbols: Sizes by symbol.
        places: Sizes of dimensions without a symbol, by input and axis.
        shapes: Whole shapes of inputs without a rank.
        said: Option that set the size of each symbol.
    """

    model: RawModel
    symbols: dict[str, int] = field(default_factory=dict)
    places: dict[tuple[str, int], int] = field(default_factory=dict)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)

    def take(self, dims: Mapping[str, int], shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Takes the sizes that the user gives."""
        named, by_place = names_of_sizes(self.model), places_of(self.model)
        for name, shape in shapes.items():
            self._take_shape(name, shape)
        for key, size in dims.items():
            if key in named:
                self._give(key, size, f"{key}={size}")
            elif key in by_place:
                self._take_place(*by_place[key], size)
            elif key in self.model.inputs:
                self._take_shape(key, (size,))
            else:
                raise ModelError(
                    f"{self.model.name}: no dimension is called {key!r}", hint=_choices(self.model)
                )

    def _take_shape(self, name: str, shape: tuple[int, ...]) -> None:
        spec = self.model.tensors[name]
        if spec.dtype == "undefined":
            raise _not_a_tensor(self.model, name)
        if spec.shape is None:
            self.shapes[name] = shape
            return
        if len(spec.shape) != len(shape):
            given = "x".join(map(str, shape))
            raise ModelError(
                f"{self.model.name}: input {name!r} ({spec}) has another number of dimensions "
                f"than {given}",
                hint="Give one size for each of its dimensions.",
            )
        for axis, size in enumerate(shape):
            self._take_place(name, axis, size)

    def _take_place(self, name: str, axis: int, size: int) -> None:
        dim = (self.model.tensors[name].shape or ())[axis]
        if isinstance(dim, str):
            self._give(dim, size, f"{name}.{axis}={size}")
        elif dim is None:
            self.places[name, axis] = size
        elif dim != size:
            raise ModelError(
                f"{self.model.name}: dimension '{name}.{axis}' has the fixed size {dim}, "
                f"not {size}",
                hint=_choices(self.model),
            )

    def _give(self, symbol: str, size: int, said: str) -> None:
        if self.symbols.setdefault(symbol, size) != size:
            raise ModelError(
                f"{self.model.name}: dimension {symbol!r} cannot have two sizes: "
                f"{self.said[symbol]} and {said}",
                hint="Give it once.",
            )
        self.said.setdefault(symbol, said)

    def work_out(self) -> None:
        """Computes the sizes of symbols that are expressions over others, or parts of one."""
        symbols = sorted(symbols_of(self.model, self.model.inputs))
        while found := [each for each in map(self._solved, symbols) if each is not None]:
            for name, size, symbol in found:
                source = self.said[symbol]
                if size < 0 or size.denominator != 1:
                    raise ModelError(
                        f"{self.model.name}: dimension {name!r} cannot have size {size}",
                        hint=f"That follows from {source}, which is {symbol}.",
                    )
                self._give(name, int(size), f"{name}={size} (by {source})")
        for symbol in symbols:
            value = expressions.value(symbol, self.symbols)
            if value is None:
                continue
            given = ", ".join(self.said[part] for part in sorted(expressions.parts(symbol)))
            if value < 0 or value.denominator != 1:
                raise ModelError(
                    f"{self.model.name}: dimension {symbol!r} cannot have size {value}",
                    hint=f"That follows from {given}.",
                )
            self._give(symbol, int(value), f"{value} (by {given})")
        self._check_together([each for each in symbols if each in self.symbols])

    def _check_together(self, given: Sequence[str]) -> None:
        """Raises an error if no size of a name gives several formulas their sizes."""
        left: dict[str, tuple[range, list[str]]] = {}
        for symbol in given:
            found = expressions.possible(symbol, self.symbols[symbol], self.symbols)
            if found is None:
                continue
            name, each = found
            before, sources = left.get(name, (each, []))
            both = range(max(before.start, each.start), min(before.stop, each.stop))
            left[name] = both, [*sources, self.said[symbol]]
            if not both:
                *others, last = left[name][1]
                raise ModelError(
                    f"{self.model.name}: no size of {name!r} gives "
                    f"{' and '.join(filter(None, (', '.join(others), last)))}",
                    hint=f"Give {name} instead, or sizes that follow from one {name}.",
                )

    def _solved(self, symbol: str) -> tuple[str, Fraction, str] | None:
        """The size that an expression of a given size leaves open: name, number, expression."""
        if symbol not in self.symbols:
            return None
        found = expressions.solved(symbol, self.symbols[symbol], self.symbols)
        return found and (*found, symbol)

    def take_batch(self, batch: int) -> None:
        """Sets dimensions of the batch without a size to the size of the batch."""
        places = {
            (name, axis): shape[axis]
            for name, axis in batch_axes(self.model).items()
            if axis is not None and axis < len(shape := self.model.tensors[name].shape or ())
        }
        for dim in places.values():
            if isinstance(dim, str) and not expressions.parts(dim):
                self.symbols.setdefault(dim, batch)
                self.said.setdefault(dim, f"{dim}={batch}")
        self.work_out()
        for place, dim in places.items():
            if isinstance(dim, str):
                self.symbols.setdefault(dim, batch)
            elif dim is None:
                self.places.setdefault(place, batch)


def _not_a_tensor(model: RawModel, name: str) -> ModelError:
    """Error about a shape for an input that is no tensor, or has no element type."""
    if any(name in layer.reads and "Sequence" in layer.op for layer in model.layers):
        return ModelError(
            f"{model.name}: input {name!r} is a sequence of tensors, which has no shape",
            hint="Export the model with one tensor in its place.",
        )
    return ModelError(
        f"{model.name}: input {name!r} is not a tensor with an element type, which a shape "
        "does not replace",
        hint="Write the input's element type into the file, or export the model again.",
    )


def _listed(places: Sequence[str]) -> str:
    """The places; only the first if there are many, as in caches of language models."""
    more = len(places) - _MOST_PLACES
    return ", ".join(places[:_MOST_PLACES]) + (f" ... and {more} more" if more > 0 else "")


def _choices(model: RawModel) -> str:
    names = list(dict.fromkeys(each.name for each in open_dimensions(model)))
    return f"Its dynamic dimensions are: {', '.join(names)}." if names else "It has none."


def _substitute(spec: TensorSpec, symbols: Mapping[str, int]) -> TensorSpec:
    if spec.shape is None or all(isinstance(dim, int) for dim in spec.shape):
        return spec
    shape: tuple[Dim, ...] = tuple(
        symbols.get(dim, dim) if isinstance(dim, str) else dim for dim in spec.shape
    )
    return TensorSpec(spec.dtype, shape)


def _check(model: RawModel, known: Mapping[str, int]) -> None:
    inputs = {name: model.tensors[name] for name in model.inputs}
    # An input without a type is a sequence or an optional: its readers become opaque.
    without_rank = [name for name, spec in inputs.items()
                    if spec.shape is None and spec.dtype != "undefined"]  # fmt: skip
    if without_rank:
        names = " and ".join(repr(name) for name in without_rank)
        example = settings(shapes=dict.fromkeys(without_rank, (1, 3, 224, 224)))
        raise UnboundDimensionsError(
            f"{model.name}: input {names} has no shape, not even a number of dimensions",
            hint=f"Give all of its sizes, for example {example}.",
        )
    unbound = open_dimensions(model)
    if not unbound:
        return
    places = [
        each.place + (f" ({each.name})" if each.name != each.place else "") for each in unbound
    ]
    batches = {each.name for each in unbound if each.is_batch}
    # An expression follows from its parts.
    wanted = (part for each in unbound if each.name not in batches
              for part in sorted(expressions.parts(each.name) - known.keys()) or [each.name]
              )  # fmt: skip
    others = dict.fromkeys((part for part in wanted if part not in batches), "N")
    missing: dict[str, object] = {"batch": "N"} if batches else {}
    if others:
        missing["dims"] = others
    # Language models answer prompts, which give them all of their sizes.
    speaks = model.configuration or any(
        CACHED.fullmatch(each.input) and each.axis == 2 for each in unbound
    )
    answers = settings(prompt="N", generate="N") if speaks else ""
    raise UnboundDimensionsError(
        f"{model.name}: dimensions without a size: {_listed(places)}",
        hint=f"Give a size for each N: {settings(**missing)}."
        + f" Estimates and advice take {answers} instead." * bool(answers),
    )


def _check_conditions(model: RawModel, sizes: Mapping[str, int]) -> None:
    for condition in model.conditions:
        if expressions.holds(condition, sizes) is False:
            named = ", ".join(
                f"{name}={sizes[name]}" for name in sorted(expressions.names(condition))
            )
            raise ModelError(
                f"{model.name}: {named} is outside of the sizes that it was exported for: "
                f"{condition}",
                hint="Give other sizes, or export it for these.",
            )


@properties(requires=[Property.INPUTS_SIZED], ensures=[Property.INPUTS_FIXED])
def bind_values(model: RawModel, options: NormalizeOptions) -> RawModel:
    """The model with the inputs in ``options.values`` among its weights.

    Raises:
        ModelError: If a name is not an input's, or an input cannot hold its value.
    """
    values = options.values
    constants = dict(model.constants)
    absent = [name for name, value in values.items() if value is None]
    model = _without(model, absent)
    numbers = {name: value for name, value in values.items() if value is not None}
    for name, number in numbers.items():
        if name not in model.inputs:
            raise ModelError(
                f"{model.name}: no input is called {name!r}",
                hint=f"Its inputs are: {', '.join(model.inputs)}.",
            )
        spec = model.tensors[name]
        if spec.dtype in ("string", "undefined") or spec.elements > MAX_CONSTANT_ELEMENTS:
            raise ModelError(
                f"{model.name}: {name!r} ({spec}) holds data, and can be given no value",
                hint="Values are for inputs of few numbers, which decide sizes or branches.",
            )
        if isinstance(number, tuple) and len(number) != spec.elements:
            raise ModelError(
                f"{model.name}: {name!r} ({spec}) holds {spec.elements} numbers, not {len(number)}"
            )
        given = np.full(spec.sizes, np.reshape(number, spec.sizes if np.ndim(number) else ()))
        constants[name] = given.astype(numpy_dtype(spec.dtype))
        wrong = given[constants[name] != given]
        if spec.dtype.startswith(("int", "uint", "bool")) and wrong.size:
            raise ModelError(
                f"{model.name}: {name!r} ({spec}) cannot hold {wrong.flat[0]:g}",
                hint=f"Give {_held_by(numpy_dtype(spec.dtype))}.",
            )
    return replace(
        model,
        inputs=tuple(name for name in model.inputs if name not in numbers),
        weights=model.weights.union(numbers),
        constants=constants,
    )


def _held_by(dtype: np.dtype[Any]) -> str:
    """Numbers that a type of integers or of booleans holds."""
    if dtype.kind == "b":
        return "0 or 1"
    import ml_dtypes

    limits = ml_dtypes.iinfo(dtype)  # type: ignore[no-untyped-call]
    return f"whole numbers from {limits.min} to {limits.max}"


def _without(model: RawModel, absent: Sequence[str]) -> RawModel:
    """The model without some of its optional inputs.

    Raises:
        ModelError: If an input is not optional: a layer reads it that needs a value.
    """
    for name in absent:
        readers = (layer for layer in model.layers if name in layer.inputs)
        if name not in model.inputs or any(layer.op not in _OF_OPTIONALS for layer in readers):
            raise ModelError(f"{model.name}: {name!r} is not an optional input")
    empty = TensorSpec("undefined", None)
    return replace(
        model,
        inputs=tuple(name for name in model.inputs if name not in absent),
        tensors={**model.tensors, **dict.fromkeys(absent, empty)},
        layers=(*(Layer("Optional", (), (name,)) for name in absent), *model.layers),
    )


_OF_OPTIONALS = frozenset({"OptionalHasElement", "OptionalGetElement"})
