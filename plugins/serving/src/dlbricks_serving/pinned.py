"""Workers that are pinned to CPUs of their own."""

from __future__ import annotations

import os
from collections.abc import Sequence

from dlbricks_core.backends import Backend
from dlbricks_core.backends.host import TimerHost
from dlbricks_core.measure.worker import BackendWorker, WorkerSettings
from dlbricks_core.worker import WorkerProcess


class PinnedHost(TimerHost):
    """Service inside a worker that may be pinned to CPUs."""

    def pin(self, cpus: Sequence[int]) -> None:
        """Pins the process, and all threads that it will start, to some CPUs."""
        os.sched_setaffinity(0, cpus)


class PinnedWorker(BackendWorker):
    """A worker that is pinned to CPUs of its own.

    Args:
        target: The backend as ``"module:Class"``.
        backend: The backend.
        settings: Threads, options and limits.
        cpus: CPUs to which all threads of the process are pinned.
    """

    service = "dlbricks_serving.pinned:PinnedHost"

    def __init__(
        self, target: str, backend: Backend, settings: WorkerSettings, cpus: Sequence[int]
    ) -> None:
        super().__init__(target, backend, settings)
        self._cpus = tuple(cpus)

    def _launched(self, *, asked: bool) -> WorkerProcess:
        worker = super()._launched(asked=asked)
        if not worker.started:  # before the framework starts threads, which inherit the affinity
            worker.call("pin", self._cpus, timeout=self._settings.timeout_s)
        return worker
