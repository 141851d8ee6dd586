"""Instances: workers on cores of their own that compute at the same time."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event
from time import perf_counter
from types import TracebackType

from dlbricks_core.errors import BackendError, DLBricksError
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.measure.contention.host import Played
from dlbricks_core.measure.pinned import PinnedWorker

_SLICE_S = 1.0
"""Seconds that the others play until they look whether they are still wanted."""


class Instance(PinnedWorker):
    """A worker on CPUs of its own, which may compute while others do."""

    service = "dlbricks_core.measure.contention.host:PlayingHost"

    def hold(self, key: str, model: CanonicalModel) -> None:
        """Loads a network, unless that is done.

        Args:
            key: Key of the network.
            model: In canonical form.
        """
        if key not in self._networks:
            self.load(key, model)

    def play(
        self, keys: Sequence[str], begin_s: float, end_s: float, *, prepared: bool = False
    ) -> Played:
        """Runs loaded networks over and over; see :meth:`PlayingHost.play`.

        It does not wait for other workers to rest.
        """
        self._reload(keys)
        seconds = max(end_s - perf_counter(), 0.0)
        timeout = self._settings.timeout_s + seconds + self._longest_s(keys)
        asked = tuple(keys), begin_s, end_s, prepared
        played: Played = self._answer(self._started(), "play", *asked, timeout=timeout)
        return played


class BrokenCompanyError(BackendError):
    """An instance that was to be busy meanwhile has failed."""


class Company:
    """Instances that run networks over and over until they are told to stop.

    Args:
        instances: The instances; the networks are loaded in each.
        keys: Keys of the networks, in the order in which they run.

    Example:
        >>> with Company(others, keys) as company:
        ...     company.check()
    """

    def __init__(self, instances: Sequence[Instance], keys: Sequence[str]) -> None:
        self._instances = instances
        self._keys = keys
        self._stop = Event()
        self._pool = ThreadPoolExecutor(max(len(instances), 1))
        self._playing: list[Future[None]] = []

    def check(self) -> None:
        """Makes sure that all of them still run.

        Raises:
            BrokenCompanyError: If one of them does not, with the reason.
        """
        for each in self._playing:
            error = each.exception() if each.done() else None
            if isinstance(error, DLBricksError):
                raise BrokenCompanyError(
                    f"an instance beside it failed: {error.message}", error.hint
                ) from error
            if error is not None:
                raise error

    def _play(self, instance: Instance) -> None:
        while not self._stop.is_set():
            now = perf_counter()
            instance.play(self._keys, now, now + _SLICE_S)

    def __enter__(self) -> Company:
        self._playing = [self._pool.submit(self._play, each) for each in self._instances]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._pool.shutdown()
        if error is None:
            self.check()
