"""Models under a load, and advice on where they run best.

It adds the commands ``dlbricks serve`` and ``dlbricks advise``, which are functions here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlbricks_core.lazy import lazy

if TYPE_CHECKING:
    from dlbricks_serving.api import AdviceResult, Served, advise, serve

__all__ = ["AdviceResult", "Served", "advise", "serve"]

lazy(__name__)
