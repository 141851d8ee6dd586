"""Turns inputs that always have one value into weights of the model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dlbricks_core.errors import ModelError
from dlbricks_core.ir import RawModel, numpy_dtype
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


BIND_VALUES = Pass.of(
    bind_values, requires=[Property.INPUTS_SIZED], ensures=[Property.INPUTS_FIXED]
)
