"""Further processes of a worker: one writes networks to files, another opens them."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from dlbricks_core.worker import WorkerProcess

if TYPE_CHECKING:
    from dlbricks_core.backends.saved import Saved
    from dlbricks_core.backends.traits import BackendSettings
    from dlbricks_core.ir import CanonicalModel


class AuxiliaryProcess:
    """A process of a backend beside this one, its allocator in its default state.

    Memory that a process has freed changes where its allocator places arrays: glibc raises its
    threshold for separately mapped blocks to the size of each freed block. A user's process opens
    files that another process wrote, and has opened no file before.

    Args:
        backend: ``"module:Class"`` of the backend.
        settings: Threads and options.
        warm: Whether small networks run before the first call.
    """

    def __init__(self, backend: str, settings: BackendSettings, *, warm: bool = False) -> None:
        self._start = backend, settings, None, None, 0, warm, False
        self._process: WorkerProcess | None = None

    def save(self, model: CanonicalModel, seed: int, folder: Path) -> Saved[Any]:
        """Draws values for a network, and writes it with :meth:`CpuTimer.save`.

        Args:
            model: Network in canonical form.
            seed: Seed of weights and inputs.
            folder: An empty folder.
        """
        found: Saved[Any] = self._call("save", model, seed, folder)
        return found

    def apply(self, function: str, *arguments: Any) -> Any:
        """Calls a function with the timer of the other process.

        Args:
            function: ``"module:function"``; it takes the timer first.
            *arguments: Further arguments, which must be picklable.
        """
        return self._call("apply", function, *arguments)

    def _call(self, method: str, *arguments: Any) -> Any:
        if self._process is None:
            self._process = WorkerProcess("dlbricks_core.backends.host:TimerHost")
            self._process.call("start", *self._start)
        return self._process.call(method, *arguments)

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
