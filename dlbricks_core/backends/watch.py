"""Watches: latencies of a model that the user's own code runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass
class Watch:
    """Recorded runs of a user's model.

    Attributes:
        threads: Threads that compute one operator.
        samples_ms: Latency of each run in milliseconds, as the user's code waits for it.
        source: The model in a form that :func:`dlbricks_core.load` accepts; set after a run.
        shapes: Shape of each input of the last run by name, if the source leaves them open.
    """

    threads: int
    samples_ms: list[float] = field(default_factory=list)
    source: object = None
    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict)
