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
from dlbricks_core.measure.request import Request
from dlbricks_core.operators.table import caches_with_room
from dlbricks_core.worker import memory_to_use

_CACHE = re.compile(r"past|present")
"""Inputs and outputs with one of these words in their names are the cache of a decoder, as all
exporters name it: ``past_key_values.0.key``, ``present.0.value``."""


_TOKENS = 2
"""Axis of tokens in a cache with room for further ones."""

CHOSEN_SHARE = 0.25
"""Maximum share of the free memory for a whole model that runs without a user's request. Its
process takes up to twice the footprint."""


@dataclass(frozen=True)
class Footprint:
    """Bytes that a model takes during loading and during runs, and bytes that are available.

    Attributes:
        weights_bytes: Bytes of the weights, including weights that no layer reads at these sizes.
        cache_bytes: Bytes of the keys and values that a decoder receives and returns.
        live_bytes: Maximum bytes of inputs and results at a time, without the cache.
        copies_bytes: Bytes of further copies of the weights that the framework keeps.
        loading_bytes: Bytes of weights and their copies while the framework loads a file.
        available_bytes: Bytes that are free here, or the memory of another system.
        token_bytes: Bytes by which one token of one text lengthens the cache.
    """

    weights_bytes: int
    cache_bytes: int
    live_bytes: int
    copies_bytes: int
    loading_bytes: int
    available_bytes: int
    token_bytes: float = 0.0

    @classmethod
    def of(cls, model: CanonicalModel, traits: Traits, available_bytes: int) -> Self | None:
        """Footprint of a model; ``None`` if sizes are unknown before the model runs.

        Args:
            model: Model in canonical form.
            traits: Traits of the backend.
            available_bytes: Available bytes, from :func:`available_to`.
        """
        if not all(spec.is_static for spec in model.tensors.values()):
            return None
        ends, roomy = {*model.inputs, *model.outputs}, caches_with_room(model)
        both = sum(model.tensors[name].nbytes for name in ends if _CACHE.search(name))
        cache = both - sum(model.tensors[name].nbytes for name in roomy)
        weights = model.weight_bytes + model.idle_bytes
        return cls(
            weights_bytes=weights,
            cache_bytes=cache,
            # The cache stays in memory from the beginning of a run to its end.
            live_bytes=model.live_bytes - both,
            copies_bytes=(traits.weights_held - 1) * weights,
            loading_bytes=traits.weights_loading * weights,
            available_bytes=available_bytes,
            token_bytes=_token_bytes(model),
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

    @property
    def is_modest(self) -> bool:
        """Whether the model may run without a user's request for its run."""
        return self.needed_bytes <= CHOSEN_SHARE * self.available_bytes

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


def _token_bytes(model: CanonicalModel) -> float:
    """Bytes by which one token of one text lengthens the cache; 0 without a growing cache."""
    roomy = [model.tensors[name] for name in caches_with_room(model)]
    if roomy:
        return sum(each.nbytes / each.sizes[0] / each.sizes[_TOKENS] for each in roomy)
    before, after = ([model.tensors[name] for name in names if _CACHE.search(name)]
                     for names in (model.inputs, model.outputs))  # fmt: skip
    if len(before) != len(after):
        return 0.0
    grown = 0.0
    for old, new in zip(before, after, strict=True):
        tokens = max(map(int.__sub__, new.sizes, old.sizes), default=0)
        if tokens > 0:
            grown += (new.nbytes - old.nbytes) / tokens / new.sizes[0]
    return grown


def gigabytes(nbytes: float) -> str:
    """Bytes in units of 10^9, with one digit after the point below 10: ``4.2``, ``282``."""
    size = nbytes / 1e9
    return f"{size:,.0f}" if size >= 10 else f"{size:.1f}" if size >= 0.1 else f"{size:.2g}"


def available_to(request: Request) -> int:
    """Bytes that a model may take: the free memory here, or all memory of another system."""
    if request.elsewhere is None:
        return memory_to_use()
    other = request.elsewhere
    return min(filter(None, (other.memory, other.memory_limit)), default=0)
