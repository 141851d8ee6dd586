"""Estimates from as few runs of whole models as their precision needs."""

from typing import TYPE_CHECKING

from dlbricks_core.lazy import lazy

if TYPE_CHECKING:
    from dlbricks_core.workflows.adaptive.every import run_each, run_side_by_side
    from dlbricks_core.workflows.adaptive.loop import adaptive, recalled

__all__ = ["adaptive", "recalled", "run_each", "run_side_by_side"]

lazy(__name__)
