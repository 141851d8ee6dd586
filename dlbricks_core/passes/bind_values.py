"""Turns inputs that always have one value into weights of the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np

from dlbricks_core.errors import ModelError
from dlbricks_core.ir import Layer, RawModel, TensorSpec, numpy_dtype
from dlbricks_core.ir.limits import MAX_CONSTANT_ELEMENTS
from dlbricks_core.passes.options import NormalizeOptions
from dlbricks_core.passes.pipeline import Pass, Property


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
            raise ModelError(f"{model.name}: {name!r} ({spec}) cannot have one value for good")
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


BIND_VALUES = Pass.of(
    bind_values, requires=[Property.INPUTS_SIZED], ensures=[Property.INPUTS_FIXED]
)
