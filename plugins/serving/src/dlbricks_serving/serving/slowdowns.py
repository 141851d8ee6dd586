"""Contention: the slowdown of a model beside others, by the physical baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dlbricks_prediction.baseline import Processor, expected_ms
from dlbricks_prediction.features import Features

from dlbricks_core.facts import Setup, System
from dlbricks_core.ir import CanonicalModel


def slowdowns(
    model: CanonicalModel, system: System, setup: Setup, numbers: Sequence[int]
) -> list[float]:
    """Latency of a model beside others over its latency alone, for numbers of busy instances.

    The instances share the bandwidth of memory, and the last level of cache if it belongs to more
    cores than one instance has. All else, such as the frequency of the cores, is assumed to stay as
    it is.

    Args:
        model: The model, with the layers that the backend runs.
        system: The system.
        setup: How each instance runs; it has the setup's threads.
        numbers: Numbers of instances that are busy, the model's own included.
    """
    features = Features.of(model)
    alone = Processor.of(system, setup.threads)
    alone_ms = float(expected_ms(features, alone).sum())
    return [
        float(expected_ms(features, _beside(alone, system, setup.threads, number)).sum()) / alone_ms
        for number in numbers
    ]


def _beside(alone: Processor, system: System, threads: int, instances: int) -> Processor:
    """Share of a processor that one of several busy instances has."""
    every = Processor.of(system, threads * instances)
    found = replace(alone, memory=every.memory / instances)
    last = max(system.caches, key=lambda each: each.level, default=None)
    if last is None or not alone.caches:
        return found
    *inner, (size, bandwidth) = alone.caches
    sharing = min(instances, max(1, last.shared_by // threads))
    return replace(found, caches=(*inner, (size / sharing, bandwidth)))
