"""Suites: what another machine needs to time, packed, and timed there.

It adds the command ``dlbricks suite``, whose actions are functions here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlbricks_core.lazy import lazy

if TYPE_CHECKING:
    from dlbricks_suite.api import GeneratedSuite, bench, generate

__all__ = ["GeneratedSuite", "bench", "generate"]

lazy(__name__)
