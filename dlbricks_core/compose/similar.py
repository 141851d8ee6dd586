"""The fastest way: of several similar segments, one is timed."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterator, Mapping
from types import MappingProxyType

import numpy as np

from dlbricks_core.analysis import Volume, form
from dlbricks_core.bricks import Brick
from dlbricks_core.compose.fitting import (
    Deviation,
    Observed,
    Ratio,
    fitted_deviation,
    fitted_share,
)
from dlbricks_core.compose.segmented import Segmented
from dlbricks_core.figures.figure import Derived, Figure, Source


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
    #: Share of operations in the logarithm of a latency, the rest being memory's; and standard
    #: deviation of the relative error of an inferred latency. Both as found on the development
    #: corpus (docs/explain/composing.md).
    computing_share = 0.7
    inference_error = 0.17
    fitted: Mapping[str, str] = MappingProxyType(
        {
            **Segmented.fitted,
            "computing_share": "share of operations in the logarithm of a latency",
            "inference_error": "standard deviation of what an inferred latency is off by",
        }
    )

    def to_time(self, bricks: Mapping[str, Brick]) -> Collection[str]:
        """The smallest of each form, and each that is too far from all smaller ones."""
        volumes = {s: Volume.of(b.model) for s, b in bricks.items() if not b.opaque}
        chosen: dict[Hashable, list[Volume]] = {}
        timed = {signature for signature, brick in bricks.items() if brick.opaque}
        # A calibration must not change what has to be timed: the class's own share decides.
        share = type(self).computing_share
        for signature, volume in sorted(volumes.items(), key=lambda item: item[1].expected(share)):
            same = chosen.setdefault(form(bricks[signature].model), [])
            if all(volume.distance(other) > self.farthest for other in same):
                same.append(volume)
                timed.add(signature)
        return timed

    def complete(
        self, bricks: Mapping[str, Brick], latencies: Mapping[str, Figure]
    ) -> Mapping[str, Figure]:
        """The same latencies, and of other bricks what the nearest of their form tells."""
        found = dict(latencies)
        for signature, nearest in _nearest(bricks, latencies):
            large, small = (Volume.of(bricks[each].model) for each in (signature, nearest))
            ratio = large.expected(self.computing_share) / small.expected(self.computing_share)
            source = Source(nearest, latencies[nearest], ratio)
            found[signature] = Derived.of(signature, [source], self.inference_error)
        return found

    def fit(self, observed: Observed) -> Mapping[str, float]:
        """Besides, how well bricks that would not be timed follow from those that would be."""
        ratios = self._ratios(observed)
        share = fitted_share(self.computing_share, self.inference_error, ratios)
        off = [Deviation(r.cost - share * r.flops - (1 - share) * r.nbytes, r.scatter)
               for r in ratios]  # fmt: skip
        values = {
            "computing_share": share,
            "inference_error": fitted_deviation(self.inference_error, off),
        }
        return {**values, **Segmented.fit(self.calibrated(values), observed)}

    def _ratios(self, observed: Observed) -> list[Ratio]:
        """Of each brick that would be told by another, and that takes any time."""
        bricks, latencies = observed.bricks, observed.latencies
        costs = {s: each.value - each.overhead for s, each in latencies.items()}
        costs = {signature: cost for signature, cost in costs.items() if cost > 0}
        known = [signature for signature in self.to_time(bricks) if signature in costs]
        found = []
        for pair in _nearest(bricks, known):
            if pair[0] in costs:
                large, small = (Volume.of(bricks[each].model) for each in pair)
                scatters = (np.std(latencies[each].replicates) / costs[each] for each in pair)
                found.append(
                    Ratio(
                        flops=math.log(large.flops / small.flops),
                        nbytes=math.log(large.nbytes / small.nbytes),
                        cost=math.log(costs[pair[0]] / costs[pair[1]]),
                        scatter=math.hypot(*scatters),
                    )
                )
        return found


def _nearest(bricks: Mapping[str, Brick], known: Collection[str]) -> Iterator[tuple[str, str]]:
    """Each brick that is not known, and the nearest known one of its form."""
    forms: dict[Hashable, list[str]] = {}
    for signature in known:
        forms.setdefault(form(bricks[signature].model), []).append(signature)
    for signature in bricks.keys() - set(known):
        model = bricks[signature].model
        same = forms.get(form(model), []) if not bricks[signature].opaque else []
        if same:
            volume = Volume.of(model)
            volumes = {each: Volume.of(bricks[each].model) for each in same}
            yield signature, min(same, key=lambda each: volume.distance(volumes[each]))
