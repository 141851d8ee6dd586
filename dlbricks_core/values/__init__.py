"""Values for any model: seeded weights, and inputs that are valid wherever they are used."""

from typing import TYPE_CHECKING

from dlbricks_core.lazy import lazy

if TYPE_CHECKING:
    from dlbricks_core.values.materialize import materialize

__all__ = ["materialize"]

lazy(__name__)
