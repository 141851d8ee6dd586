"""Lowers canonical IR models to MXNet symbols."""

from dlbricks_mxnet.lowering.graph import Lowered, lower, unsupported

__all__ = ["Lowered", "lower", "unsupported"]
