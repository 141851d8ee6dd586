"""Conversions: the same model with weights and activations of another element type.

Each takes a model in canonical form and returns one. Nothing else of the model changes: names,
shapes, and the order of its layers stay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from dlbricks_core.errors import ModelError
from dlbricks_core.operators.domains import operator_domains
from dlbricks_core.plugins import load_object
from dlbricks_core.wording import argument, clone_install

if TYPE_CHECKING:
    from dlbricks_core.ir import CanonicalModel

Conversion: TypeAlias = "Callable[[CanonicalModel], CanonicalModel]"
"""From a model in canonical form to the same model in other element types."""


def _added(name: str, model: CanonicalModel) -> CanonicalModel:
    """The model converted to a type that needs operators beside ONNX's."""
    for domain in operator_domains():
        if found := domain.conversions().get(name):
            return found(model)
    raise ModelError(
        f"the conversion to {name} comes with dlbricks-contrib, which is not installed",
        hint=clone_install("plugins/contrib"),
    )


def _converted(target: str, model: CanonicalModel, **settings: str) -> CanonicalModel:
    """The model converted by a function that is imported now: few models are converted."""
    converted: CanonicalModel = load_object(f"{__name__}.{target}")(model, **settings)
    return converted


CONVERSIONS: Mapping[str, Conversion] = {
    **{
        name: partial(_converted, "floats:to_float", dtype=name)
        for name in ("bfloat16", "float16", "float32")
    },
    **{name: partial(_added, name) for name in ("int4", "int8")},
}
"""Conversion by the name that users give."""


def conversion(dtype: str) -> Conversion:
    """The conversion of a name.

    Raises:
        ModelError: If there is none.
    """
    if dtype not in CONVERSIONS:
        raise ModelError(
            f"{argument('dtype')} {dtype} is not an element type that models can be converted to",
            hint=f"There are {', '.join(sorted(CONVERSIONS))}.",
        )
    return CONVERSIONS[dtype]


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
