"""Normalization: raw models into the canonical form that the engine works on."""

from typing import TYPE_CHECKING

from dlbricks_core.lazy import lazy

if TYPE_CHECKING:
    from dlbricks_core.passes.normalize import normalize
    from dlbricks_core.passes.options import dimension_names

__all__ = ["dimension_names", "normalize"]

lazy(__name__)
