"""A backend in a worker process that is replaced when a network breaks it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dlbricks_core.backends import Array, Backend, BackendSettings, Network
from dlbricks_core.ir import Model
from dlbricks_core.worker import WorkerError, WorkerProcess

_TIMEOUT_S = 300.0


class Laboratory:
    """Calls :class:`dlbricks_core.testing.host.ConformanceHost` in a worker.

    Args:
        target: ``"module:Class"`` of the backend.
        backend: The same.
        settings: Threads and options.
    """

    def __init__(self, target: str, backend: Backend, settings: BackendSettings) -> None:
        self._target = target
        self._backend = backend
        self._settings = settings
        self._worker: WorkerProcess | None = None

    def call(self, method: str, *arguments: Any) -> Any:
        """Calls a method of the service; a worker that dies is replaced at the next call."""
        worker = self._started()
        try:
            return worker.call(method, *arguments, timeout=_TIMEOUT_S)
        except WorkerError:
            self._worker = None
            raise

    def infer(self, network: Network) -> dict[str, Array]:
        """What a network computes."""
        results: dict[str, Array] = self.call("infer", network)
        return results

    def check(self, model: Model) -> Mapping[int, str]:
        """What the backend says that it cannot run."""
        reasons: Mapping[int, str] = self.call("check", model)
        return reasons

    def _started(self) -> WorkerProcess:
        if self._worker is None:
            worker = WorkerProcess(
                "dlbricks_core.testing.host:ConformanceHost",
                self._backend.environment(self._settings),
            )
            try:
                worker.call("start", self._target, self._settings, timeout=_TIMEOUT_S)
            except BaseException:
                worker.close()
                raise
            self._worker = worker
        return self._worker

    def close(self) -> None:
        """Closes the timer and ends the worker."""
        if self._worker is not None:
            worker, self._worker = self._worker, None
            try:
                worker.call("close", timeout=_TIMEOUT_S)
            finally:
                worker.close()

    def __enter__(self) -> Laboratory:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
