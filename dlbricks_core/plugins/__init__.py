"""Plugins: discovery, status and errors."""

from dlbricks_core.plugins.registry import (
    GROUPS,
    Plugin,
    attempt,
    blamed,
    discover,
    find,
    load_object,
    names,
    use,
)

__all__ = [
    "GROUPS",
    "Plugin",
    "attempt",
    "blamed",
    "discover",
    "find",
    "load_object",
    "names",
    "use",
]
