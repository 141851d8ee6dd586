"""Conversions: the same model with weights and activations of another element type.

Each takes a model in canonical form and returns one. Nothing else of the model changes: names,
shapes, and the order of its layers stay. Distributions bring them, with operators that they need.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from dlbricks_core.errors import ModelError
from dlbricks_core.operators.domains import operator_domains
from dlbricks_core.wording import argument, clone_install

if TYPE_CHECKING:
    from dlbricks_core.ir import CanonicalModel

Conversion: TypeAlias = "Callable[[CanonicalModel], CanonicalModel]"
"""From a model in canonical form to the same model in other element types."""

CONVERSIONS = ("bfloat16", "float16", "float32", "int4", "int8")
"""Names of the conversions, as users give them."""


def conversion(dtype: str) -> Conversion:
    """The conversion of a name.

    Raises:
        ModelError: If there is none, or its distribution is not installed.
    """
    if dtype not in CONVERSIONS:
        raise ModelError(
            f"{argument('dtype')} {dtype} is not an element type that models can be converted to",
            hint=f"There are {', '.join(CONVERSIONS)}.",
        )
    for domain in operator_domains():
        if found := domain.conversions().get(dtype):
            return found
    raise ModelError(
        f"the conversion to {dtype} comes with dlbricks-contrib, which is not installed",
        hint=clone_install("plugins/contrib"),
    )


def convert(model: CanonicalModel, dtype: str | None) -> CanonicalModel:
    """The model in another element type, under its own name.

    Args:
        model: Model in canonical form.
        dtype: Name of the conversion; ``None`` for the model as it is.

    Raises:
        ModelError: If there is no such conversion, or the model cannot be converted.
    """
    if dtype is None:
        return model
    # Origins of weights keep the types of the original model.
    converted = conversion(dtype)(replace(model, folded=None))
    share = converted.weight_bytes / model.weight_bytes if model.weight_bytes else 1.0
    return replace(converted, idle_bytes=round(share * model.idle_bytes))
