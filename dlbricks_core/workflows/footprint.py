"""Memory footprint: the memory of a whole model on a backend, compared with the machine's.

The footprint follows from sizes alone. It is a lower bound of the quantity ``peak-memory``, for
which bricks run: scratch memory, code, and memory that an allocator keeps are not part of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

from dlbricks_core.backends import Traits
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.worker import memory_to_use
from dlbricks_core.workflows.request import Request

_CACHE = re.compile(r"past|present")
"""Inputs and outputs with one of these words in their names are the cache of a decoder, as all
exporters name it: ``past_key_values.0.key``, ``present.0.value``."""


@dataclass(frozen=True)
class Footprint:
    """Bytes that a model takes during loading and during runs, and bytes that are available.

    Attributes:
        weights_bytes: Bytes of the weights.
        cache_bytes: Bytes of the keys and values that a decoder receives and returns.
        live_bytes: Maximum bytes of inputs and results at a time, without the cache.
        copies_bytes: Bytes of further copies of the weights that the framework keeps.
        loading_bytes: Bytes of weights and their copies while the framework loads a file.
        available_bytes: Bytes that are free here, or the memory of another system.
    """

    weights_bytes: int
    cache_bytes: int
    live_bytes: int
    copies_bytes: int
    loading_bytes: int
    available_bytes: int

    @classmethod
    def of(cls, model: CanonicalModel, traits: Traits, available_bytes: int) -> Self | None:
        """Footprint of a model; ``None`` where sizes are known only once it runs.

        Args:
            model: In canonical form.
            traits: Traits of the backend.
            available_bytes: Available bytes, from :func:`available_to`.
        """
        if not all(spec.is_static for spec in model.tensors.values()):
            return None
        ends = {*model.inputs, *model.outputs}
        cache = sum(model.tensors[name].nbytes for name in ends if _CACHE.search(name))
        weights = model.weight_bytes
        return cls(
            weights_bytes=weights,
            cache_bytes=cache,
            # The cache lives from the beginning of a run to its end.
            live_bytes=model.live_bytes - cache,
            copies_bytes=(traits.weights_held - 1) * weights,
            loading_bytes=traits.weights_loading * weights,
            available_bytes=available_bytes,
        )

    @property
    def needed_bytes(self) -> int:
        """Peak bytes of the model: during loading, or during runs."""
        return max(self.loading_bytes, self.running_bytes)

    @property
    def running_bytes(self) -> int:
        """Total bytes of the model during runs."""
        return self.weights_bytes + self.cache_bytes + self.live_bytes + self.copies_bytes

    @property
    def fits(self) -> bool:
        """Whether the model fits into the available memory."""
        return self.needed_bytes <= self.available_bytes

    def __str__(self) -> str:
        parts = {
            "weights": self.weights_bytes,
            "copies of these": self.copies_bytes,
            "cache": self.cache_bytes,
            "activations": self.live_bytes,
        }
        if self.loading_bytes > self.running_bytes:
            parts = {"while weights are loaded": self.loading_bytes, **parts}
        listed = ", ".join(f"{name} {gigabytes(size)}" for name, size in parts.items() if size)
        return (
            f"it needs {gigabytes(self.needed_bytes)} GB of memory ({listed}), and "
            f"{gigabytes(self.available_bytes)} GB are free"
        )


def gigabytes(nbytes: int) -> str:
    """Bytes in units of 10^9, with one digit after the point below 10: ``4.2``, ``282``."""
    size = nbytes / 1e9
    return f"{size:,.0f}" if size >= 10 else f"{size:.1f}" if size >= 0.1 else f"{size:.2g}"


def available_to(request: Request) -> int:
    """Bytes that a model may take: the free memory here, or all memory of another system."""
    if request.elsewhere is None:
        return memory_to_use()
    other = request.elsewhere
    return min(filter(None, (other.memory, other.memory_limit)), default=0)
