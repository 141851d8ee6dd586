"""Bricks: split strategies, signatures, deduplication and extraction."""

from typing import TYPE_CHECKING

from dlbricks_core.lazy import lazy

if TYPE_CHECKING:
    from dlbricks_core.bricks.brickset import Brick, BrickSet, CutModel, in_layout
    from dlbricks_core.bricks.extract import extract
    from dlbricks_core.bricks.signature import (
        cold_tensors,
        native,
        native_to,
        signature,
        weights_are_reread,
    )
    from dlbricks_core.bricks.split import STRATEGIES, LayerSequence, split

__all__ = [
    "STRATEGIES",
    "Brick",
    "BrickSet",
    "CutModel",
    "LayerSequence",
    "cold_tensors",
    "extract",
    "in_layout",
    "native",
    "native_to",
    "signature",
    "split",
    "weights_are_reread",
]

lazy(__name__)
