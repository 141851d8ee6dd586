"""Times bricks of a model while other instances on the machine run bricks of the same model."""

from dlbricks_core.measure.contention.instance import BrokenCompanyError, Company, Instance
from dlbricks_core.measure.contention.passes import SLICES, play_passes, play_together

__all__ = ["SLICES", "BrokenCompanyError", "Company", "Instance", "play_passes", "play_together"]
