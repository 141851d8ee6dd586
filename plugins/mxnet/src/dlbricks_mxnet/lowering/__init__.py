"""Lowers canonical IR models to MXNet symbols."""

from dlbricks_mxnet.lowering.build import Lowered, lower
from dlbricks_mxnet.lowering.table import LOWERINGS

__all__ = ["LOWERINGS", "Lowered", "lower"]
