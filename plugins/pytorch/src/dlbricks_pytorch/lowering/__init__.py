"""The IR to torch: a table of operators, and the graph that is built with it."""

from dlbricks_pytorch.lowering.build import lower, unsupported_layers
from dlbricks_pytorch.lowering.table import LOWERINGS, UNSUPPORTED

__all__ = ["LOWERINGS", "UNSUPPORTED", "lower", "unsupported_layers"]
