"""Worker processes for frameworks and importers, which may crash, hang or disturb each other."""

from dlbricks_core.worker.memory import memory_to_use
from dlbricks_core.worker.peak import PEAKS
from dlbricks_core.worker.process import (
    RemoteError,
    WorkerError,
    WorkerProcess,
    WorkerTimeout,
)

__all__ = ["PEAKS", "RemoteError", "WorkerError", "WorkerProcess", "WorkerTimeout", "memory_to_use"]
