"""Networks that another process writes to files, for this one to open."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from dlbricks_core.worker import WorkerProcess

if TYPE_CHECKING:
    from dlbricks_core.backends.base import BackendSettings
    from dlbricks_core.backends.saved import Saved
    from dlbricks_core.ir import CanonicalModel


class Writer:
    """A process that writes networks to files. It starts with the first network.

    Drawing and writing weights changes what the allocator does from then on: glibc raises its
    threshold for blocks of their own to the size of each such block that is freed. A user's process
    opens files that another has written.

    Args:
        backend: ``"module:Class"`` of the backend.
        settings: Threads and options.
    """

    def __init__(self, backend: str, settings: BackendSettings) -> None:
        self._backend = backend
        self._settings = settings
        self._process: WorkerProcess | None = None

    def save(self, model: CanonicalModel, seed: int, folder: Path) -> Saved[Any]:
        """Draws values for a network, and writes it with :meth:`CpuTimer.save`.

        Args:
            model: In canonical form.
            seed: Seed of weights and inputs.
            folder: An empty folder.
        """
        if self._process is None:
            self._process = WorkerProcess("dlbricks_core.backends.host:TimerHost")
            start = self._backend, self._settings, None, None, 0, False, False
            self._process.call("start", *start)
        found: Saved[Any] = self._process.call("save", model, seed, folder)
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is not None:
            self._process.close()
            self._process = None
