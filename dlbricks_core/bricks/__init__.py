"""Bricks: split strategies, signatures, deduplication and extraction."""

from dlbricks_core.bricks.annotations import native, native_to, weights_are_reread
from dlbricks_core.bricks.brickset import Brick, BrickSet, CutModel, Occurrence
from dlbricks_core.bricks.extract import extract
from dlbricks_core.bricks.signature import signature
from dlbricks_core.bricks.split import STRATEGIES, LayerSequence, SplitStrategy, split

__all__ = [
    "STRATEGIES",
    "Brick",
    "BrickSet",
    "CutModel",
    "LayerSequence",
    "Occurrence",
    "SplitStrategy",
    "extract",
    "native",
    "native_to",
    "signature",
    "split",
    "weights_are_reread",
]
