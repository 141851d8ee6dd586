"""Workers: processes that join a fleet for a host and run one job at a time."""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import tempfile
from collections.abc import Callable, Coroutine, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from time import monotonic, time
from typing import Any

from distributed import Worker, get_worker
from distributed.core import Status, connect
from distributed.security import Security
from distributed.worker import DEFAULT_METRICS, DEFAULT_STARTUP_INFORMATION

from dlbricks_core.errors import DLBricksError
from dlbricks_core.machine.system import current_system
from dlbricks_core.store import ResultStore
from dlbricks_core.store.portable import read_stream
from dlbricks_core.version import __version__
from dlbricks_core.wording import argument
from dlbricks_core.workflows.status import plugin_statuses
from dlbricks_fleet.address import check_address, check_host, listening
from dlbricks_fleet.identity import identity
from dlbricks_fleet.job import WAITING
from dlbricks_fleet.jobs import run_job
from dlbricks_fleet.records import Done, Order
from dlbricks_fleet.settings import HEARTBEAT_S
from dlbricks_fleet.stopping import asked_to_stop

FACTS = "dlbricks"
"""Key under which a worker reports facts about its host."""

_TRY_S = 5.0
_RETRY_S = 1.0
_CLOSE_S = 40.0

Say = Callable[[str], None]


class FleetWorker(Worker):
    """A worker of Dask that runs one job at a time, and rests meanwhile.

    Args:
        address: Address of the scheduler.
        spool: Folder of the host's store and of its suites.
        facts: Facts about the host.
        host: Address to listen at; ``None`` for the one by which the scheduler is reached.
    """

    def __init__(
        self, address: str, spool: Path, facts: Mapping[str, Any], host: str | None = None
    ) -> None:
        self.spool = spool
        self._doing = ""
        self._began = 0.0
        super().__init__(
            address,
            host=host,
            nthreads=1,
            # Without Dask's own limits, pauses and timeouts: see settings.OVERRIDES.
            memory_limit=0,
            local_directory=str(spool),
            security=Security(),
            heartbeat_interval=f"{HEARTBEAT_S:g}s",
            startup_information={**DEFAULT_STARTUP_INFORMATION, FACTS: lambda _: dict(facts)},
            metrics={**DEFAULT_METRICS, FACTS: FleetWorker.activity},
        )

    def activity(self) -> dict[str, Any]:
        """Present activity of the host, and the time since it began."""
        return {"doing": self._doing, "since_s": time() - self._began if self._doing else 0.0}

    def does(self, what: str) -> None:
        """Records the activity that the host begins."""
        self._doing, self._began = what, time()

    async def heartbeat(self) -> None:
        """Sends the scheduler a heartbeat, as seldom as suffices.

        The scheduler's answer proposes an interval, which is too short.
        """
        await super().heartbeat()
        self.periodic_callbacks["heartbeat"].callback_time = HEARTBEAT_S * 1000

    def is_wanted(self, key: str) -> bool:
        """Whether the scheduler answers and some client waits for a task."""
        task = self.state.tasks.get(key)
        return self.status == Status.running and task is not None and task.state == "executing"


def facts_of_host(known_as: str) -> dict[str, Any]:
    """Facts about this host that a worker reports when it joins.

    Args:
        known_as: Identity of the host.
    """
    backends = [each for each in plugin_statuses() if each.plugin.kind == "backend"]
    return {
        "name": platform.node(),
        "identity": known_as,
        "system": current_system().to_dict(),
        "version": __version__,
        "backends": {
            each.plugin.name: each.framework.rpartition(" ")[2]
            for each in backends
            if not each.problem
        },
    }


def keep_suite(name: str, files: Mapping[str, bytes], known: bytes) -> None:
    """Stores a suite on this host, and imports known measurements of the host's kind.

    Runs in a worker, as a task of Dask.

    Args:
        name: Hash of the suite.
        files: Content of its files, by their path in the folder.
        known: Measurements of another store, as an exported file.
    """
    spool: Path = _this_worker().spool
    folder = spool / "suites" / name
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        new = Path(tempfile.mkdtemp(prefix="new-", dir=folder.parent))
        for path, content in files.items():
            (new / path).parent.mkdir(parents=True, exist_ok=True)
            (new / path).write_bytes(content)
        try:
            new.rename(folder)
        except OSError:  # another worker of this host was faster
            shutil.rmtree(new, ignore_errors=True)
            if not folder.exists():
                raise
    with tempfile.TemporaryFile() as file, ResultStore.open(spool / "results.db") as store:
        file.write(known)
        file.seek(0)
        store.merge(read_stream(file, "what the fleet knows"))


def have_done(order: Order, what: str) -> Done:
    """Carries out an order on this host. Runs in a worker, as a task of Dask.

    Args:
        order: The order. Its key is the key of the task.
        what: Description of the activity for the state of the fleet.
    """
    worker = _this_worker()

    def tell(state: str) -> None:
        waits = "waits for another measurement on its machine"
        worker.does(waits if state == WAITING else what)

    tell("")
    try:
        return run_job(order, worker.spool, lambda: worker.is_wanted(order.key), tell)
    finally:
        worker.does("")


def _this_worker() -> FleetWorker:
    worker = get_worker()
    if not isinstance(worker, FleetWorker):
        raise DLBricksError(
            "this worker of Dask does not belong to a fleet and cannot measure",
            hint="Start the workers with: dlbricks fleet worker",
        )
    return worker


def serve(address: str, spool: Path, patience_s: float, say: Say, host: str | None = None) -> int:
    """Joins a fleet and works in it until a signal ends that.

    Args:
        address: Address of the scheduler.
        spool: Folder of the host's store and of its suites.
        patience_s: Maximum seconds to wait for a scheduler that does not answer.
        say: Receives one line for each event.
        host: Address to listen at.

    Returns:
        Number of the signal.

    Raises:
        DLBricksError: If the scheduler does not answer in time, the host cannot listen at its
            address, or the spool cannot be written.
    """
    check_address(address)
    if host is not None:
        check_host(host)
    with ExitStack() as held:
        try:
            spool.mkdir(parents=True, exist_ok=True)
            os.utime(spool)
            known_as = held.enter_context(identity(spool))
        except OSError as error:
            raise DLBricksError(
                f"{spool} cannot be written: {error.strerror}",
                hint=f"Choose another folder with {argument('spool')}.",
            ) from error
        facts = facts_of_host(known_as)
        work = partial(_work, address, spool, patience_s, say, host, facts)
        return asyncio.run(_serve(work, say))


async def _serve(work: Callable[[], Coroutine[Any, Any, None]], say: Say) -> int:
    """Works until a signal asks to stop, and joins again whenever the scheduler was lost.

    Returns:
        Number of the signal.
    """
    stopped = asked_to_stop()
    while not stopped.done():
        working = asyncio.create_task(work())
        either: set[asyncio.Future[Any]] = {working, stopped}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if stopped.done():
            working.cancel()
        try:
            await working
        except asyncio.CancelledError:
            break
        say("The scheduler was lost: waiting until it answers again.")
    return stopped.result()


async def _work(
    address: str,
    spool: Path,
    patience_s: float,
    say: Say,
    host: str | None,
    facts: Mapping[str, Any],
) -> None:
    """Serves a scheduler until the connection is lost."""
    await _reached(address, patience_s, say)
    worker = FleetWorker(address, spool, facts, host)
    try:
        with listening(host or "this host", hint=f"Choose another {argument('host')}."):
            await worker
        say(f"Joined {address} as {worker.address}; ready to measure.")
        await worker.finished()
    finally:
        # A job in progress is told to stop first, and its measurements are kept.
        await asyncio.shield(worker.close(timeout=_CLOSE_S))


async def _reached(address: str, patience_s: float, say: Say) -> None:
    """Waits until a scheduler answers.

    Raises:
        DLBricksError: If none does in time.
    """
    end, told = monotonic() + patience_s, False
    security = Security().get_connection_args("worker")
    while True:
        try:
            comm = await connect(address, timeout=_TRY_S, **security)
        except OSError as error:
            if monotonic() > end:
                raise DLBricksError(
                    f"no scheduler answers at {address} (for {patience_s:g} s)",
                    hint="Start one with: dlbricks fleet scheduler",
                ) from error
            if not told:
                say(f"No scheduler answers at {address} yet: waiting.")
                told = True
            await asyncio.sleep(_RETRY_S)
        else:
            await comm.close()
            return
