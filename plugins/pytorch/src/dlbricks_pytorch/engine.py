"""Python and page faults of transformers' loop, beside the operators of a language model."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from dlbricks_core import fitted
from dlbricks_core.backends import Interpreted
from dlbricks_core.ir import CanonicalModel
from dlbricks_pytorch.trimming import retaken_pages

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


@dataclass(frozen=True)
class PageFaults:
    """Part of the pages that the allocator's rules let a run give back and take again.

    Small objects at the end of the heap keep what lies below them, and holes of earlier runs are
    filled first, so the part differs from process to process.

    Attributes:
        part: The part (of ``retaken_pages``), on average.
        spread: Its standard deviation, relative to it.
    """

    part: float
    spread: float


@cache
def transformers_python() -> TransformersPython:
    """The fitted numbers of Python."""
    return TransformersPython(**fitted.values(__file__, "transformers"))


@cache
def page_faults() -> PageFaults:
    """The fitted numbers of page faults."""
    return PageFaults(**fitted.values(__file__, "page_faults"))


def python_of(model: CanonicalModel, threads: int = 1) -> Interpreted | None:
    """Python and page faults of transformers for a model; ``None`` for one without a cache.

    Args:
        model: A language model at one of its sizes.
        threads: Threads that fill memory, and so share the page faults.
    """
    blocks = {f"layers.{found[1]}" for name in model.inputs if (found := _CACHED.match(name))}
    if not blocks:
        return None
    blocks |= {found[1] for layer in model.layers if (found := _ATTENDING.match(layer.name))}
    cost = transformers_python()
    calls = cost.token_calls + cost.block_calls * len(blocks)
    calls *= cost.cold if model.weight_bytes > _KEPT_BYTES else 1.0
    pages = page_faults()
    faults = pages.part * retaken_pages(model) / threads
    return Interpreted(calls, cost.spread, cost.call_work, faults, pages.spread)
