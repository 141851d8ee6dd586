"""Latencies of bricks inside a running model, from the profile of its framework."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dlbricks_core.backends import Profile
from dlbricks_core.bricks import CutModel

LEAST_ASSIGNED = 0.6
"""Minimum share of a profile's time that is assigned to layers of the model. Below it, scaling
would assign too much of the unknown time to bricks."""


@dataclass(frozen=True)
class Harvest:
    """Latencies of a model's bricks in place.

    Attributes:
        ms: Mean latency of each brick's occurrences in milliseconds, by signature. The sum over all
            occurrences is the latency of the model.
        assigned: Share of the profile's time that belongs to layers of the model.
    """

    ms: Mapping[str, float]
    assigned: float

    @classmethod
    def of(cls, cut: CutModel, profile: Profile, latency_ms: float) -> Harvest:
        """Scales a profile to an unprofiled run, and adds up the layers of each brick.

        A profiler makes a run slower, and leaves out the time between two layers. The parts are
        therefore scaled to add up to a run without the profiler. A layer without a profiled time
        was fused into another layer; the time of both is in the other layer's brick. An operator
        that belongs to no layer of the model is assigned to the layer before it: mostly it converts
        the layout of that layer's result.

        Args:
            cut: The model and its bricks.
            profile: Time of each layer in that model.
            latency_ms: Latency of a run without the profiler.
        """
        owner = {layer: each.signature for each in cut.occurrences for layer in each.layers}
        sums: dict[str, float] = dict.fromkeys(cut.counts, 0.0)
        assigned, before = 0.0, ""
        for layer in profile.layers:
            producers = (cut.graph.producers.get(name) for name in layer.outputs)
            index = next((each for each in producers if each is not None), None)
            signature = before if index is None else owner[index]
            assigned += layer.ms if index is not None else 0.0
            if signature:
                sums[signature] += layer.ms
            before = signature
        total = sum(sums.values())
        if not total:
            return cls({}, 0.0)
        means = {s: latency_ms * part / total / cut.counts[s] for s, part in sums.items()}
        return cls(means, assigned / profile.sum_ms)
