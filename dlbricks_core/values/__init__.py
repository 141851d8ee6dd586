"""Values for any model: seeded weights, and inputs that are valid wherever they are used."""

from dlbricks_core.values.materialize import materialize

__all__ = ["materialize"]
