"""A framework that is imported while models are read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from dlbricks_core.machine.load import LoadWatch, give_turn, took_free_turn
from dlbricks_core.measure.request import Request
from dlbricks_core.measure.worker import BackendWorker
from dlbricks_core.store import ResultStore


@dataclass(frozen=True)
class Ahead:
    """A process that begins before it is known what it runs.

    Attributes:
        worker: The process, with a user's settings.
        watch: Watch of the machine's load since then.
    """

    worker: BackendWorker
    watch: LoadWatch


def worker_of(request: Request, *, as_used: bool) -> BackendWorker:
    """A process that runs whole models.

    Args:
        request: How models run.
        as_used: Whether it has a user's settings, or else those that profiles need.
    """
    return BackendWorker.of(request, keeps_memory=not as_used, warm=False, as_used=as_used)


@contextmanager
def begun(request: Request, store: ResultStore) -> Iterator[Ahead | None]:
    """Begins to import the framework if a model will surely run: the store knows none of the setup.

    No other process measures until the context ends. Where one measures now, nothing begins: errors
    in models are told before anybody waits for it.

    Args:
        request: How models run.
        store: Store of the measurements.
    """
    place = request.hot.setup, request.fingerprint
    known = request.condition != "hot" or place in store.setups(request.setup.backend)
    if known or not took_free_turn():
        yield None
        return
    try:
        watch = LoadWatch()
        with worker_of(request, as_used=True) as worker:
            worker.begin()
            yield Ahead(worker, watch)
    finally:
        give_turn()
