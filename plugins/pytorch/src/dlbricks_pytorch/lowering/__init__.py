"""Lowers canonical IR models to torch modules."""

from dlbricks_pytorch.lowering.build import lower
from dlbricks_pytorch.lowering.table import LOWERINGS, UNSUPPORTED

__all__ = ["LOWERINGS", "UNSUPPORTED", "lower"]
