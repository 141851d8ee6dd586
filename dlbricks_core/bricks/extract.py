"""Cuts a layer sequence out of a model; its new names tell nothing about the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dlbricks_core.bricks.annotations import cold_tensors, native_to, with_cold
from dlbricks_core.bricks.boundary import live_outputs, outer_inputs
from dlbricks_core.bricks.zero_points import coarse, is_zero_point
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.ir.parameters import MOST_SIZES
from dlbricks_core.operators.table import made_into_indices, operator, standing_for

if TYPE_CHECKING:
    from dlbricks_core.ir import Layer


def extract(
    model: CanonicalModel, indices: Sequence[int], name: str, *, exact: bool = False
) -> CanonicalModel:
    """The sequence as a model of its own.

    Tensors are named ``x0``, ``w0``, ``t0`` and so on, in the order of their first use. Known
    values are kept only where the work depends on them:

    - parameters (axes, pads) and masks, on which kernels branch;
    - scalars, without which arithmetic may leave its domain. They are rounded to two digits,
      because they tell one model from another. Coarser rounding would change the time: ``erf``
      branches on its argument, and another divisor than 1.41 spreads it differently;
    - scalars that indices are computed with, unrounded: a larger one would lead out of a table;
    - zero points of quantized tensors, as one of two codes.

    Args:
        model: In canonical form.
        indices: Layer indices, in the order in which they run.
        name: Name of the new model.
        exact: Whether to keep all integers, and scalars without rounding. Frameworks decide by
            these what they fuse and what they compute only once.
    """
    indexing = made_into_indices([model.layers[index] for index in indices])
    renamed = {tensor: f"x{i}" for i, tensor in enumerate(outer_inputs(model, indices))}
    inputs = tuple(renamed.values())
    weights = 0
    results = 0
    constants: dict[str, np.ndarray[Any, Any]] = {}
    layers: list[Layer] = []
    for index in indices:
        layer = model.layers[index]
        by_value = operator(layer.qualified_op).parameters
        for position, tensor in enumerate(layer.inputs):
            if tensor and tensor not in renamed:
                renamed[tensor] = f"w{weights}"
                weights += 1
            if tensor in model.constants:
                value = model.constants[tensor]
                if is_zero_point(layer, position, value) and not exact:
                    constants[renamed[tensor]] = coarse(value)
                    continue
                counts = tensor in indexing and _is_scalar(value)
                counts |= _compares(layer) and _is_count(value)
                whole = counts or position in by_value or _is_size(model, tensor)
                kept = _kept(value, by_value=whole, exact=exact)
                if kept is not None and (position in by_value or renamed[tensor] not in constants):
                    constants[renamed[tensor]] = kept
        for tensor in layer.outputs:
            if tensor:
                renamed[tensor] = f"t{results}"
                results += 1
        layers.append(
            replace(
                layer,
                name=f"{layer.op}_{len(layers)}",
                inputs=tuple(renamed.get(n, "") for n in layer.inputs),
                outputs=tuple(renamed.get(n, "") for n in layer.outputs),
                captures=tuple(renamed.get(n, n) for n in layer.captures),
            )
        )
    cold = {renamed[tensor] for tensor in cold_tensors(model) if tensor in renamed}
    extracted = CanonicalModel(
        name=name,
        layers=tuple(layers),
        inputs=inputs,
        outputs=tuple(renamed[tensor] for tensor in live_outputs(model, indices)),
        tensors={new: model.tensors[old] for old, new in renamed.items()},
        weights=frozenset(new for new in renamed.values() if new.startswith("w")),
        constants=constants,
        opsets=model.opsets,
        annotations=model.annotations,
    )
    return with_cold(extracted, cold)


def _is_size(model: CanonicalModel, tensor: str) -> bool:
    """Whether shapes may be computed from a tensor, as in graphs that a backend wrote."""
    value = model.constants[tensor]
    return bool(native_to(model)) and value.dtype.kind == "i" and value.size <= MOST_SIZES


def numbers(model: CanonicalModel) -> tuple[float, ...]:
    """All numbers in a model's constants, in the order of the constants' names."""
    found = (model.constants[name] for name in sorted(model.constants))
    return tuple(number for value in found for number in value.ravel().tolist())


def _compares(layer: Layer) -> bool:
    """Whether a layer makes masks: what it compares with decides whether one hides everything."""
    return standing_for(layer).kind == "elementwise:less"


def _is_count(value: np.ndarray[Any, Any]) -> bool:
    return value.size == 1 and value.dtype.kind in "iu"


def _is_scalar(value: np.ndarray[Any, Any]) -> bool:
    return value.size == 1 and value.dtype.kind == "f"


def _kept(
    value: np.ndarray[Any, Any], *, by_value: bool, exact: bool
) -> np.ndarray[Any, Any] | None:
    if (
        by_value
        or value.dtype.kind == "b"
        or (exact and (_is_scalar(value) or value.dtype.kind in "iu"))
    ):
        return value
    if _is_scalar(value):
        rounded = float(f"{float(value.ravel()[0]):.1e}")
        return np.full(value.shape, rounded, dtype=value.dtype)
    return None
