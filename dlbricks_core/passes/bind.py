"""Sizes for dynamic dimensions, and values for inputs that never change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from dlbricks_core.errors import ModelError, UnboundDimensionsError
from dlbricks_core.ir import Dim, Model, TensorSpec, numpy_dtype
from dlbricks_core.ir.limits import MAX_CONSTANT_ELEMENTS


def bind(
    model: Model, *, batch: int | None, dims: Mapping[str, int], values: Mapping[str, float]
) -> Model:
    """The model with a size for every dynamic dimension of its inputs.

    Args:
        model: Raw.
        batch: Size of the first dimension of every input where that is dynamic, and of
            every other dimension that has the same symbol.
        dims: Size by symbol, or by ``input.axis`` (``data.2``); goes before ``batch``.
        values: Number that all elements of an input have, by its name: that input is part of
            the model then.

    Raises:
        UnboundDimensionsError: If an input's dimension is left without a size; lists them all.
        ModelError: If a size is negative, a name in ``dims`` matches no dimension or one in
            ``values`` no input, or an input cannot hold its value.
    """
    for name, size in {"batch": 1 if batch is None else batch, **dims}.items():
        if size < 0:  # zero has its use: the length of an empty cache
            raise ModelError(f"{model.name}: dimension {name!r} cannot have size {size}")
    places, symbols = _resolve(model, dims)
    if batch is not None:
        for name in model.inputs:
            first = (model.tensors[name].shape or (0,))[0]
            if isinstance(first, str):
                symbols.setdefault(first, batch)
            elif first is None:
                places.setdefault((name, 0), batch)
    tensors = dict(model.tensors)
    if symbols:
        tensors = {name: _substitute(spec, symbols) for name, spec in tensors.items()}
    for (name, axis), size in places.items():
        shape = tensors[name].shape or ()
        tensors[name] = replace(tensors[name], shape=(*shape[:axis], size, *shape[axis + 1 :]))
    _check(model, {name: tensors[name] for name in model.inputs})
    return _with_values(replace(model, tensors=tensors), values)


def _with_values(model: Model, values: Mapping[str, float]) -> Model:
    constants = dict(model.constants)
    for name, number in values.items():
        if name not in model.inputs:
            raise ModelError(
                f"{model.name}: no input is called {name!r}",
                hint=f"Its inputs are: {', '.join(model.inputs)}.",
            )
        spec = model.tensors[name]
        if spec.dtype in ("string", "undefined") or spec.elements > MAX_CONSTANT_ELEMENTS:
            raise ModelError(f"{model.name}: {name!r} ({spec}) cannot have one value for good")
        constants[name] = np.full(spec.sizes, number).astype(numpy_dtype(spec.dtype))
        if spec.dtype.startswith(("int", "uint", "bool")) and (constants[name] != number).any():
            raise ModelError(f"{model.name}: {name!r} ({spec}) cannot hold {number:g}")
    return replace(
        model,
        inputs=tuple(name for name in model.inputs if name not in values),
        weights=model.weights.union(values),
        constants=constants,
    )


def _resolve(
    model: Model, dims: Mapping[str, int]
) -> tuple[dict[tuple[str, int], int], dict[str, int]]:
    """What ``dims`` says, as sizes of places (input, axis) and of symbols."""
    places: dict[tuple[str, int], int] = {}
    symbols: dict[str, int] = {}
    if not dims:
        return places, symbols
    named = {dim for spec in model.tensors.values() for dim in spec.shape or ()}
    by_place = {
        f"{name}.{axis}": (name, axis, dim)
        for name in model.inputs
        for axis, dim in enumerate(model.tensors[name].shape or ())
    }
    for key, size in dims.items():
        if key in named:
            symbols[key] = size
            continue
        if key not in by_place:
            raise ModelError(f"{model.name}: no dimension is called {key!r}", hint=_choices(model))
        name, axis, dim = by_place[key]
        if isinstance(dim, str):
            symbols[dim] = size
        elif dim is None:
            places[name, axis] = size
        elif dim != size:
            raise ModelError(
                f"{model.name}: dimension {key!r} has the fixed size {dim}, not {size}",
                hint=_choices(model),
            )
    return places, symbols


def _choices(model: Model) -> str:
    names = list(dict.fromkeys(name for _, name in _dynamic(model.inputs, model.tensors)))
    return f"Its dynamic dimensions are: {', '.join(names)}." if names else "It has none."


def _dynamic(
    inputs: Iterable[str], tensors: Mapping[str, TensorSpec]
) -> list[tuple[tuple[str, int], str]]:
    """Every dynamic dimension: its place, and the name that ``dims`` knows it by."""
    return [
        ((name, axis), dim if isinstance(dim, str) else f"{name}.{axis}")
        for name in inputs
        for axis, dim in enumerate(tensors[name].shape or ())
        if not isinstance(dim, int)
    ]


def _substitute(spec: TensorSpec, symbols: Mapping[str, int]) -> TensorSpec:
    if spec.shape is None or all(isinstance(dim, int) for dim in spec.shape):
        return spec
    shape: tuple[Dim, ...] = tuple(
        symbols.get(dim, dim) if isinstance(dim, str) else dim for dim in spec.shape
    )
    return TensorSpec(spec.dtype, shape)


def _check(model: Model, inputs: Mapping[str, TensorSpec]) -> None:
    for name, spec in inputs.items():
        # An input without a type is a sequence or an optional: its readers become opaque.
        if spec.shape is None and spec.dtype != "undefined":
            raise UnboundDimensionsError(
                f"{model.name}: input {name!r} has no shape, not even a number of dimensions",
                hint="Write the input's shape into the file, or export the model again with it.",
            )
    unbound = _dynamic(inputs, inputs)
    if not unbound:
        return
    places = [
        f"{name}.{axis}" + (f" ({label})" if label != f"{name}.{axis}" else "")
        for (name, axis), label in unbound
    ]
    batches = {label for (_, axis), label in unbound if axis == 0}
    hints = ["--batch N"] if batches else []
    hints += [f"--dim {name}=N" for name in dict.fromkeys(label for _, label in unbound)
              if name not in batches]  # fmt: skip
    raise UnboundDimensionsError(
        f"{model.name}: dimensions without a size: {', '.join(places)}",
        hint=f"Give {' '.join(hints)} with sizes for N.",
    )
