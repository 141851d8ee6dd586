"""Private suites: bricks of secret models among decoys, and attacks on such suites.

It adds the command ``dlbricks private``, whose subcommands are functions here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlbricks_core.lazy import lazy

if TYPE_CHECKING:
    from dlbricks_private.api import Exposed, PrivateSuite, attack, estimate, generate

__all__ = ["Exposed", "PrivateSuite", "attack", "estimate", "generate"]

lazy(__name__)
