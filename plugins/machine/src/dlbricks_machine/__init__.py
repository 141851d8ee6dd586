"""Readiness of this machine, and systems of a store: the command ``dlbricks machine``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlbricks_core.lazy import lazy

if TYPE_CHECKING:
    from dlbricks_machine.api import Systems, systems

__all__ = ["Systems", "systems"]

lazy(__name__)
