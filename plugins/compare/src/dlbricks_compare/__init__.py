"""Frameworks side by side: latencies and outputs of models, as ``dlbricks compare``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlbricks_core.lazy import lazy

if TYPE_CHECKING:
    from dlbricks_compare.api import ComparisonResult, compare

__all__ = ["ComparisonResult", "compare"]

lazy(__name__)
