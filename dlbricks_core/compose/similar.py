"""The fastest way: of several similar segments, one is timed."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping

from dlbricks_core.analysis import Volume, form
from dlbricks_core.bricks import Brick
from dlbricks_core.compose.segmented import Segmented
from dlbricks_core.measure.latency import Inferred, Latency


class Similar(Segmented):
    """Sequential total latency over segments of which similar ones tell each other's.

    A brick is timed only if none of the same form is that is smaller by a factor of three
    at the most, in operations and in bytes. The latency of the others follows from the
    nearest one's, in proportion to what computing and moving so much more should take.
    """

    name = "similar"
    #: More of them are alike, and what telling one from another is off by outweighs the cuts.
    strategy = "short-segments"
    #: How many times larger a brick may be than one that tells its latency.
    farthest = 3.0
    #: Standard deviation of the relative error of an inferred latency, as found on the
    #: development corpus (docs/measurement.md).
    inference_error = 0.17

    def to_time(self, bricks: Mapping[str, Brick]) -> Collection[str]:
        """The smallest of each form, and each that is too far from all smaller ones."""
        volumes = {s: Volume.of(b.model) for s, b in bricks.items() if not b.opaque}
        chosen: dict[Hashable, list[Volume]] = {}
        timed = {signature for signature, brick in bricks.items() if brick.opaque}
        for signature, volume in sorted(volumes.items(), key=lambda item: item[1].expected):
            same = chosen.setdefault(form(bricks[signature].model), [])
            if all(volume.distance(other) > self.farthest for other in same):
                same.append(volume)
                timed.add(signature)
        return timed

    def complete(
        self, bricks: Mapping[str, Brick], latencies: Mapping[str, Latency]
    ) -> Mapping[str, Latency]:
        """The same latencies, and of other bricks what the nearest of their form tells."""
        known: dict[Hashable, list[str]] = {}
        for signature in latencies:
            known.setdefault(form(bricks[signature].model), []).append(signature)
        found = dict(latencies)
        for signature in bricks.keys() - latencies.keys():
            model = bricks[signature].model
            same = known.get(form(model), []) if not bricks[signature].opaque else []
            if same:
                volume = Volume.of(model)
                volumes = {each: Volume.of(bricks[each].model) for each in same}
                nearest = min(same, key=lambda each: volume.distance(volumes[each]))
                ratio = volume.expected / volumes[nearest].expected
                found[signature] = Inferred.from_similar(
                    latencies[nearest], nearest, signature, ratio, self.inference_error
                )
        return found
