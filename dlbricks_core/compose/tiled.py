"""The paper's sum, with large layers timed on a few of their rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from dlbricks_core.analysis.tiles import Tile, tiles
from dlbricks_core.bricks import Brick
from dlbricks_core.compose.sequential import Sequential
from dlbricks_core.figures.figure import Derived, Figure, Source


class Tiled(Sequential):
    """Sequential total latency in which two tiles stand for each large convolution.

    A few layers on large images take most of the time of all bricks, and nothing of it is needed:
    see :mod:`dlbricks_core.analysis.tiles`.
    """

    name = "tiled"
    #: Standard deviation of the relative error of a latency that tiles tell, as found on
    #: convolutions of no model (docs/explain/composing.md).
    tiling_error = 0.04

    def tiles(self, bricks: Mapping[str, Brick]) -> Mapping[str, Sequence[Tile]]:
        """Of the large convolutions."""
        found = {signature: tiles(brick) for signature, brick in bricks.items()}
        return {signature: parts for signature, parts in found.items() if parts}

    def to_time(self, bricks: Mapping[str, Brick]) -> Collection[str]:
        """All that have no tiles."""
        return bricks.keys() - self.tiles(bricks).keys()

    def complete(
        self, bricks: Mapping[str, Brick], latencies: Mapping[str, Figure]
    ) -> Mapping[str, Figure]:
        """The same latencies, and those that timed tiles tell of other bricks.

        Tiles that contradict each other tell nothing: the brick is missing then.
        """
        found = dict(latencies)
        unknown = {s: brick for s, brick in bricks.items() if s not in latencies}
        for signature, parts in self.tiles(unknown).items():
            if all(tile.brick.signature in latencies for tile in parts):
                sources = [
                    Source(t.brick.signature, latencies[t.brick.signature], t.weight) for t in parts
                ]
                told = Derived.of(signature, sources, self.tiling_error)
                # The whole cannot take less than a part of it does: samples were disturbed then.
                if told.value > max(source.figure.value for source in sources):
                    found[signature] = told
        return found
