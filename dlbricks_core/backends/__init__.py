"""Backends: the interface that plugins implement, and the process that hosts them."""

from dlbricks_core.backends.base import (
    Array,
    Backend,
    BackendOption,
    BackendSettings,
    CpuTimer,
    Network,
    Profile,
    ProfiledLayer,
)

__all__ = [
    "Array",
    "Backend",
    "BackendOption",
    "BackendSettings",
    "CpuTimer",
    "Network",
    "Profile",
    "ProfiledLayer",
]
