"""Times bricks of a model while other instances on the machine run bricks of the same model."""

from dlbricks_core.measure.contention.instance import Company, Instance
from dlbricks_core.measure.contention.passes import SLICES, play_passes, play_together

__all__ = ["SLICES", "Company", "Instance", "play_passes", "play_together"]
