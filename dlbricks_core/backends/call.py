"""Cost of a call of the timer, from networks that do next to nothing."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import linear_regression

from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec

CALLS: dict[str, int] = {"call:1": 1, "call:9": 9}
"""Number of layers of each network that shows the cost of a call, by the network's key."""


def next_to_nothing(layers: int, shape: tuple[int, ...] = (1, 1)) -> CanonicalModel:
    """A chain of layers, on one number. No framework is known to fuse or drop Sigmoid."""
    spec = TensorSpec("float32", shape)
    names = ["x0", *(f"t{i}" for i in range(layers))]
    return CanonicalModel(
        name="call",
        layers=tuple(
            Layer("Sigmoid", (before,), (after,), name=f"Sigmoid_{i}")
            for i, (before, after) in enumerate(pairwise(names))
        ),
        inputs=(names[0],),
        outputs=(names[-1],),
        tensors=dict.fromkeys(names, spec),
    )


def start_of_a_line(latencies_ms: Sequence[float]) -> float:
    """Cost of a call of the timer in milliseconds, derived from the latencies of ``CALLS``.

    The latencies lie on a line over the number of layers. Its intercept is the cost of the call.
    The minimum cost of a layer is not part of it, because a model pays that for each layer.
    """
    slope, start = linear_regression(list(CALLS.values()), latencies_ms)
    return max(start, 0.0) if slope > 0 else min(latencies_ms)
