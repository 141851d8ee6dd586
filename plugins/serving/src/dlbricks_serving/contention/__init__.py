"""Contention: times bricks of a model while other instances run the same model on the machine."""

from dlbricks_serving.contention.instance import Instance, play_together
from dlbricks_serving.contention.passes import SLICES, Slice, take_slices

__all__ = ["SLICES", "Instance", "Slice", "play_together", "take_slices"]
