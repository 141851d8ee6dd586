"""Networks that a survey times: operators over the shapes that real models have."""

from typing import TYPE_CHECKING

from dlbricks_core.lazy import lazy

if TYPE_CHECKING:
    from dlbricks_core.survey.draw import Drawn, draw, is_quick, weights

__all__ = ["Drawn", "draw", "is_quick", "weights"]

lazy(__name__)
