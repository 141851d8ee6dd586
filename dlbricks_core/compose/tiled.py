"""The paper's sum, with large layers timed on a few of their rows."""

from __future__ import annotations

from collections.abc import Mapping

from dlbricks_core.analysis.tiles import tiles
from dlbricks_core.bricks import Brick
from dlbricks_core.compose.plan import Plan
from dlbricks_core.compose.recipes import Own, Recipe, Weighted
from dlbricks_core.compose.sequential import Sequential
from dlbricks_core.facts import Setup, System


class Tiled(Sequential):
    """Sum of the latencies of all bricks, with two tiles in the place of each large convolution.

    A few layers on large images take most of the time of timing all bricks. Two small parts of
    each are enough; see :mod:`dlbricks_core.analysis.tiles`.
    """

    name = "tiled"
    #: Standard deviation of the relative error of a latency that follows from tiles, as found on
    #: convolutions of no model (docs/explain/composing.md).
    tiling_error = 0.04

    def plan(self, bricks: Mapping[str, Brick], setup: Setup, system: System) -> Plan:
        """Times two tiles of each brick that has some, and every other brick itself."""
        parts = {signature: tiles(brick) for signature, brick in bricks.items()}
        timed = {signature: brick for signature, brick in bricks.items() if not parts[signature]}
        recipes: dict[str, tuple[Recipe, ...]] = {s: (Own(s),) for s in bricks}
        for signature, found in parts.items():
            if found:
                timed |= {tile.brick.signature: tile.brick for tile in found}
                weights = {tile.brick.signature: tile.weight for tile in found}
                recipes[signature] += (Weighted(signature, weights, self.tiling_error),)
        return Plan(timed, recipes)
