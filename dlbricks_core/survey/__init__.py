"""Networks that a survey times: operators over the shapes that real models have."""

from dlbricks_core.survey.draw import Drawn, draw, is_quick, weights

__all__ = ["Drawn", "draw", "is_quick", "weights"]
