"""Conversions: the same model with weights and activations of another element type."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dlbricks_core.ir import CanonicalModel
from dlbricks_core.passes.convert.quantized import to_int4, to_int8

Conversion = Callable[[CanonicalModel], CanonicalModel]
"""From a model in canonical form to the same model in other element types."""

CONVERSIONS: Mapping[str, Conversion] = {
    "int4": to_int4,
    "int8": to_int8,
}
"""Conversion by the name that users give."""
