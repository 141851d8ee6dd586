"""Python of transformers' loop, which runs beside the operators of a language model."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from dlbricks_core import fitted
from dlbricks_core.backends import Interpreted
from dlbricks_core.ir import CanonicalModel

_CACHED = re.compile(r"past_[a-z_]+\.(\d+)")
"""Names of inputs that keep what a block remembers, with the number of the block."""

_ATTENDING = re.compile(r"((?:encoder\.)?layers\.\d+)\.self_attn\b")
"""Names of the layers of attention: blocks of an encoder, and those that borrow keys and values,
keep nothing."""

_KEPT_BYTES = 2**25
"""Bytes of weights that leave room for Python's objects in the caches: models that the factor was
fitted to have more than ten times as many."""


@dataclass(frozen=True)
class TransformersPython:
    """Python of transformers' modules beyond the calls of operators, for one run of a model.

    Attributes:
        token_calls: Part outside of the blocks, in calls of a Python method.
        block_calls: Part of each block.
        cold: Factor for models whose weights displace Python's objects from the caches.
        spread: Standard deviation of the relative error, from family to family.
        call_work: As in :class:`~dlbricks_core.backends.Interpreted`.
    """

    token_calls: float
    block_calls: float
    cold: float
    spread: float
    call_work: float


@cache
def transformers_python() -> TransformersPython:
    """The fitted numbers."""
    return TransformersPython(**fitted.values(__file__, "transformers"))


def python_of(model: CanonicalModel) -> Interpreted | None:
    """Python that transformers runs for a model; ``None`` for a model without a cache."""
    blocks = {f"layers.{found[1]}" for name in model.inputs if (found := _CACHED.match(name))}
    if not blocks:
        return None
    blocks |= {found[1] for layer in model.layers if (found := _ATTENDING.match(layer.name))}
    cost = transformers_python()
    calls = cost.token_calls + cost.block_calls * len(blocks)
    calls *= cost.cold if model.weight_bytes > _KEPT_BYTES else 1.0
    return Interpreted(calls, cost.spread, cost.call_work)
