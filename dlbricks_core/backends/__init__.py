"""Backends: the interface that plugins implement, and the process that hosts them."""

from typing import TYPE_CHECKING

from dlbricks_core.lazy import lazy

if TYPE_CHECKING:
    from dlbricks_core.backends.base import WARMUP_RUNS, Backend, CpuTimer, warmed_up
    from dlbricks_core.backends.layer import layer_alone, refused_layers
    from dlbricks_core.backends.profiles import (
        Interpreted,
        Opened,
        Profile,
        ProfiledLayer,
        Span,
        Timeline,
        Watch,
        page_faults,
        timed_ms,
    )
    from dlbricks_core.backends.saved import Saved
    from dlbricks_core.backends.traits import BackendOption, BackendSettings, Traits
    from dlbricks_core.ir import Array, Network

__all__ = [
    "WARMUP_RUNS",
    "Array",
    "Backend",
    "BackendOption",
    "BackendSettings",
    "CpuTimer",
    "Interpreted",
    "Network",
    "Opened",
    "Profile",
    "ProfiledLayer",
    "Saved",
    "Span",
    "Timeline",
    "Traits",
    "Watch",
    "layer_alone",
    "page_faults",
    "refused_layers",
    "timed_ms",
    "warmed_up",
]

lazy(__name__)
