"""Normalization: raw models into the canonical form that the engine works on."""

from dlbricks_core.passes.dimensions import dimension_names
from dlbricks_core.passes.normalize import normalize

__all__ = ["dimension_names", "normalize"]
