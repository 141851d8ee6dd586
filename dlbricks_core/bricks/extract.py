"""Cuts a layer sequence out of a model, with new names that reveal nothing about the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dlbricks_core.bricks.signature import (
    coarse,
    cold_tensors,
    is_zero_point,
    live_outputs,
    native_to,
    outer_inputs,
    with_cold,
)
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.operators.table import MOST_SIZES, made_into_indices, operator, standing_for

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
      because exact numbers identify a model. Coarser rounding would change the time: ``erf``
      branches on its argument, and another divisor than 1.41 spreads it differently;
    - scalars that indices are computed with, without rounding: a larger index would be outside of
      its table;
    - zero points of quantized tensors, as one of two codes.

    Args:
        model: Model in canonical form.
        indices: Layer indices, in the order in which they run.
        name: Name of the new model.
        exact: Whether to keep all integers, and scalars without rounding. Frameworks decide by
            these numbers which layers they fuse and which values they compute only once.
    """
    renamed = _names(model, indices)
    layers = [
        replace(
            layer,
            name=f"{layer.op}_{position}",
            inputs=tuple(renamed.get(n, "") for n in layer.inputs),
            outputs=tuple(renamed.get(n, "") for n in layer.outputs),
            captures=tuple(renamed.get(n, n) for n in layer.captures),
        )
        for position, layer in enumerate(model.layers[index] for index in indices)
    ]
    cold = {renamed[tensor] for tensor in cold_tensors(model) if tensor in renamed}
    extracted = CanonicalModel(
        name=name,
        layers=tuple(layers),
        inputs=tuple(renamed[tensor] for tensor in outer_inputs(model, indices)),
        outputs=tuple(renamed[tensor] for tensor in live_outputs(model, indices)),
        tensors={new: model.tensors[old] for old, new in renamed.items()},
        weights=frozenset(new for new in renamed.values() if new.startswith("w")),
        constants=_constants(model, indices, renamed, exact=exact),
        opsets=model.opsets,
        annotations=model.annotations,
    )
    return with_cold(extracted, cold)


def exact_numbers(model: CanonicalModel, indices: Sequence[int]) -> tuple[float, ...]:
    """Numbers that an exactly extracted sequence keeps; empty if rounding changes none."""
    renamed = _names(model, indices)
    found = _numbers(_constants(model, indices, renamed, exact=True))
    rounded = _numbers(_constants(model, indices, renamed, exact=False))
    return () if found == rounded else found


def numbers(model: CanonicalModel) -> tuple[float, ...]:
    """All numbers in a model's constants, in the order of the constants' names."""
    return _numbers(model.constants)


def _numbers(constants: Mapping[str, np.ndarray[Any, Any]]) -> tuple[float, ...]:
    every = (constants[name].ravel().tolist() for name in sorted(constants))
    return tuple(number for some in every for number in some)


def _names(model: CanonicalModel, indices: Sequence[int]) -> dict[str, str]:
    """New name of each tensor of the sequence, in the order of first use."""
    renamed = {tensor: f"x{i}" for i, tensor in enumerate(outer_inputs(model, indices))}
    weights = results = 0
    for index in indices:
        layer = model.layers[index]
        for tensor in layer.inputs:
            if tensor and tensor not in renamed:
                renamed[tensor] = f"w{weights}"
                weights += 1
        for tensor in layer.outputs:
            if tensor:
                renamed[tensor] = f"t{results}"
                results += 1
    return renamed


def _constants(
    model: CanonicalModel, indices: Sequence[int], renamed: Mapping[str, str], *, exact: bool
) -> dict[str, np.ndarray[Any, Any]]:
    """Known values that the sequence keeps, by the new names of their tensors."""
    layers = [model.layers[index] for index in indices]
    if model.constants.keys().isdisjoint(n for layer in layers for n in layer.inputs):
        return {}
    indexing, by_backend = made_into_indices(layers), bool(native_to(model))
    kept: dict[str, np.ndarray[Any, Any]] = {}
    for layer in layers:
        by_value = operator(layer.qualified_op).parameters
        for position, tensor in enumerate(layer.inputs):
            value = model.constants.get(tensor)
            if value is None:
                continue
            name = renamed[tensor]
            if is_zero_point(layer, position, value) and not exact:
                kept[name] = coarse(value)
                continue
            counts = tensor in indexing and _is_scalar(value)
            counts |= _compares(layer) and value.size == 1 and value.dtype.kind in "iu"
            # In graphs that a backend wrote, shapes may be computed from a value.
            is_size = by_backend and value.dtype.kind == "i" and value.size <= MOST_SIZES
            whole = counts or position in by_value or is_size
            found = _kept(value, by_value=whole, exact=exact)
            if found is not None and (position in by_value or name not in kept):
                kept[name] = found
    return kept


def _compares(layer: Layer) -> bool:
    """Whether a layer makes masks: a compared number decides whether a mask hides all positions."""
    return standing_for(layer).kind == "elementwise:less"


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
