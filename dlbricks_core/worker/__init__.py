"""Worker processes for frameworks and importers, which may crash, hang or disturb each other."""

from typing import TYPE_CHECKING

from dlbricks_core.lazy import lazy

if TYPE_CHECKING:
    from dlbricks_core.worker.memory import memory_to_use, release
    from dlbricks_core.worker.process import (
        PEAKS,
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
