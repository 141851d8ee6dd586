"""Networks that characterize a machine: operators over the shapes that real models have."""

from typing import TYPE_CHECKING

from dlbricks_core.lazy import lazy

if TYPE_CHECKING:
    from dlbricks_prediction.survey.draw import Drawn, draw, is_quick

__all__ = ["Drawn", "draw", "is_quick"]

lazy(__name__)
