"""Worker processes for frameworks and importers, which may crash, hang or disturb each other."""

from typing import TYPE_CHECKING

from dlbricks_core.lazy import lazy

if TYPE_CHECKING:
    from dlbricks_core.worker.memory import memory_to_use
    from dlbricks_core.worker.own import release
    from dlbricks_core.worker.peak import PEAKS
    from dlbricks_core.worker.process import (
        RemoteError,
        WorkerError,
        WorkerProcess,
        WorkerTimeout,
    )

__all__ = [
    "PEAKS",
    "RemoteError",
    "WorkerError",
    "WorkerProcess",
    "WorkerTimeout",
    "memory_to_use",
    "release",
]

lazy(__name__)
