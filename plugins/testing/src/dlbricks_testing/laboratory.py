"""A backend in a worker process, which is replaced after a crash."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dlbricks_core.backends import Array, Backend, BackendSettings, Network
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.worker import WorkerError, WorkerProcess
from dlbricks_testing.host import HostResult

_TIMEOUT_S = 300.0
"""Maximum seconds of a call."""

POISON = {"MALLOC_PERTURB_": "128"}
"""Environment in which glibc fills the memory that it hands out; as float32 it is 3.4e38."""


class Laboratory:
    """A worker that serves :class:`dlbricks_testing.host.ConformanceHost`.

    Args:
        target: ``"module:Class"`` of the backend.
        backend: The backend itself, for its environment.
        settings: Threads and options.
    """

    def __init__(self, target: str, backend: Backend, settings: BackendSettings) -> None:
        self._target = target
        self._backend = backend
        self._settings = settings
        self._worker: WorkerProcess | None = None

    def call(self, method: str, *arguments: Any) -> Any:
        """Calls a method of the service; a worker that died is replaced at the next call."""
        worker = self._started()
        try:
            return worker.call(method, *arguments, timeout=_TIMEOUT_S)
        except WorkerError:
            self._worker = None
            raise

    def infer(self, network: Network) -> dict[str, Array]:
        """Results of a network, by name."""
        results: dict[str, Array] = self.call("infer", network)
        return results

    def observe(self, network: Network, other: Network) -> HostResult:
        """Results of a network after itself and after another one."""
        found: HostResult = self.call("observe", network, other)
        return found

    def check(self, model: CanonicalModel) -> Mapping[int, str]:
        """Layers that the backend cannot run, by index, with the reason."""
        reasons: Mapping[int, str] = self.call("check", model)
        return reasons

    def _started(self) -> WorkerProcess:
        if self._worker is None:
            worker = WorkerProcess(
                "dlbricks_testing.host:ConformanceHost",
                {**POISON, **self._backend.environment(self._settings)},
            )
            try:
                worker.call("start", self._target, self._settings, timeout=_TIMEOUT_S)
            except BaseException:
                worker.close()
                raise
            self._worker = worker
        return self._worker

    def close(self) -> str:
        """Closes the timer and ends the worker.

        Returns:
            How the worker ended, if it did not end by itself; else an empty text.
        """
        if self._worker is None:
            return ""
        worker, self._worker = self._worker, None
        try:
            worker.call("close", timeout=_TIMEOUT_S)
        finally:
            worker.close()
        return worker.ending

    def __enter__(self) -> Laboratory:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
