"""Workers: processes that join a fleet for a host and run one job at a time.

A worker calls the scheduler, and nobody calls a worker: it carries out the orders that the
scheduler passes on, and none of Dask's own instructions.
"""

from __future__ import annotations

import asyncio
import os
import platform
import re
import shutil
import tempfile
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from io import BytesIO
from pathlib import Path, PurePosixPath
from time import monotonic, time
from typing import Any

from distributed import Worker
from distributed.core import Status, connect
from distributed.worker import DEFAULT_METRICS, DEFAULT_STARTUP_INFORMATION
from dlbricks_records.contents import merge, read_stream

from dlbricks_core.commands.list.actions import plugin_statuses
from dlbricks_core.errors import DLBricksError, first_line, reason
from dlbricks_core.facts.checks import checked, text
from dlbricks_core.machine.system import current_system
from dlbricks_core.store import ResultStore
from dlbricks_core.version import __version__
from dlbricks_core.wording import argument
from dlbricks_fleet.access import Access
from dlbricks_fleet.address import host_of, listening
from dlbricks_fleet.calls import ANSWER, CANCEL, GREET, HAVE_DONE, KEEP_SUITE, ORDER, plain_error
from dlbricks_fleet.identity import identity
from dlbricks_fleet.job import WAITING
from dlbricks_fleet.jobs import run_job
from dlbricks_fleet.records import Order
from dlbricks_fleet.settings import HEARTBEAT_S, scratch
from dlbricks_fleet.stopping import asked_to_stop
from dlbricks_fleet.wire import SilentError, found_at_other_end, security_of, stranger

FACTS = "dlbricks"
"""Key under which a worker reports facts about its host."""

_TRY_S = 5.0
_RETRY_S = 1.0
_CLOSE_S = 40.0
"""Seconds of a try to connect, seconds before the next one, and seconds to close."""

Say = Callable[[str], None]


class FleetWorker(Worker):
    """A worker of Dask that runs one job at a time, and rests meanwhile.

    Args:
        address: Address of the scheduler.
        spool: Folder of the host's store and of its suites.
        facts: Facts about the host.
        access: How the worker reaches the scheduler.
        host: Address to listen at; empty for the one by which the scheduler is reached.
    """

    def __init__(
        self,
        address: str,
        spool: Path,
        facts: Mapping[str, Any],
        access: Access,
        host: str = "",
    ) -> None:
        self.spool = spool
        self._doing = ""
        self._began = 0.0
        self._wanted: set[str] = set()
        super().__init__(
            address,
            host=host or None,
            protocol=access.protocol,
            nthreads=1,
            # Without Dask's own limits, pauses and timeouts: see settings.OVERRIDES.
            memory_limit=0,
            security=security_of(access),
            heartbeat_interval=f"{HEARTBEAT_S:g}s",
            startup_information={**DEFAULT_STARTUP_INFORMATION, FACTS: lambda _: dict(facts)},
            metrics={**DEFAULT_METRICS, FACTS: FleetWorker.activity},
            extensions={},
        )
        self.handlers: dict[str, Any] = {}
        self.stream_handlers = {
            "close": self.close,
            ORDER: self._order,
            CANCEL: self._cancel,
            "remove-worker": lambda **_: None,  # sent when another host leaves, which is no matter
        }

    def activity(self) -> dict[str, Any]:
        """Present activity of the host, and the time since it began."""
        return {"doing": self._doing, "since_s": time() - self._began if self._doing else 0.0}

    def does(self, what: str) -> None:
        """Records the activity that the host begins, and reports it to the scheduler."""
        self._doing, self._began = what, time()
        self.loop.add_callback(self.heartbeat)

    async def heartbeat(self) -> None:
        """Sends the scheduler a heartbeat, as seldom as suffices.

        The scheduler's answer proposes an interval, which is too short.
        """
        if self.status != Status.running:
            return
        await super().heartbeat()
        self.periodic_callbacks["heartbeat"].callback_time = HEARTBEAT_S * 1000

    def is_wanted(self, key: str) -> bool:
        """Whether the scheduler answers and some client waits for an order."""
        return self.status == Status.running and key in self._wanted

    async def plugin_add(self, **_plugin: Any) -> dict[str, Any]:
        """Refuses to load a plugin of Dask: it would be unpickled."""
        raise PermissionError("a host of a fleet loads no plugins")

    def _order(self, key: str, what: str, given: Mapping[str, Any]) -> None:
        """Begins to carry out an order."""
        self._wanted.add(key)
        self._ongoing_background_tasks.call_soon(self._carry_out, key, what, given)

    def _cancel(self, key: str) -> None:
        """Lets an order end: nobody waits for its result."""
        self._wanted.discard(key)

    async def _carry_out(self, key: str, what: str, given: Mapping[str, Any]) -> None:
        """Carries out an order in the one thread for this, and answers it."""
        call = partial(_answer, _CALLS.get(what, _unknown), self, given)
        answer = await asyncio.get_running_loop().run_in_executor(self.executors["default"], call)
        self._wanted.discard(key)
        self.batched_send({"op": ANSWER, "key": key, "answer": answer})


def _answer(
    call: Callable[..., dict[str, Any]], worker: FleetWorker, given: Mapping[str, Any]
) -> dict[str, Any]:
    """Answer to an order, which is its error if there is one."""
    try:
        return call(worker, given)
    except DLBricksError as error:
        return {"error": plain_error(error)}
    except Exception as error:  # noqa: BLE001 - whatever it is, the client is to hear of it
        words = f"unexpected {first_line(error)}"
        return {"error": plain_error(DLBricksError(words, hint="This is a defect of DLBricks."))}


def facts_of_host(known_as: str) -> dict[str, Any]:
    """Facts about this host that a worker reports when it joins.

    Args:
        known_as: Identity of the host.
    """
    backends = [each for each in plugin_statuses() if each.kind == "backend"]
    return {
        "name": platform.node(),
        "identity": known_as,
        "system": current_system().to_dict(),
        "version": __version__,
        "backends": {
            each.name: (each.framework or "").rpartition(" ")[2]
            for each in backends
            if not each.problem
        },
    }


_SUITE = re.compile(r"[0-9a-f]{24}")


@contextmanager
def _reading() -> Iterator[None]:
    """Refuses an order that has another structure."""
    try:
        yield
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise DLBricksError(
            f"the order has another structure than version {__version__} reads",
            hint="Install the same version of DLBricks on all members of the fleet.",
        ) from error


def keep_suite(worker: FleetWorker, given: Mapping[str, Any]) -> dict[str, Any]:
    """Stores a suite on this host, and imports known measurements of the host's kind.

    Args:
        worker: Worker of this host.
        given: ``name``, the hash of the suite; ``files``, the content of its files by their path in
            the folder; ``known``, measurements of another store as an exported file.

    Raises:
        DLBricksError: If something of this is missing, the name or a path leads out of the folder
            of suites, or the files cannot be stored.
    """
    with _reading():
        name, known = checked(given["name"], str), checked(given["known"], bytes)
        files = {
            text(path): checked(content, bytes)
            for path, content in checked(given["files"], dict).items()
        }
    inside = [_is_inside(PurePosixPath(path)) for path in files]
    if not _SUITE.fullmatch(name) or not all(inside):
        raise DLBricksError("the suite has a path that leads out of its folder")
    folder = worker.spool / "suites" / name
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        new = Path(tempfile.mkdtemp(prefix="new-", dir=folder.parent))
        try:
            for path, content in files.items():
                (new / path).parent.mkdir(parents=True, exist_ok=True)
                (new / path).write_bytes(content)
            new.rename(folder)
        except (OSError, ValueError) as error:
            shutil.rmtree(new, ignore_errors=True)
            if not folder.exists():  # or else another worker of this host was faster
                raise DLBricksError(
                    f"the suite cannot be stored: {reason(error)}",
                    hint="Free some space there, or write the suite again.",
                ) from error
    with ResultStore.open(worker.spool / "results.db") as store:
        merge(store, read_stream(BytesIO(known), "what the fleet knows"))
    return {"done": None}


def _is_inside(path: PurePosixPath) -> bool:
    """Whether a path of a file stays in the folder that it is relative to."""
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts


def have_done(worker: FleetWorker, given: Mapping[str, Any]) -> dict[str, Any]:
    """Carries out an order on this host, in a process of its own.

    Args:
        worker: Worker of this host.
        given: ``order``, as plain data; ``what``, a description of the activity for the state of
            the fleet.
    """
    with _reading():
        read, what = Order.from_plain(given["order"]), checked(given["what"], str)
    if not _SUITE.fullmatch(read.asked.suite):
        raise DLBricksError("the order names no suite")

    def tell(state: str) -> None:
        waits = "waits for another measurement on its machine"
        worker.does(waits if state == WAITING else what)

    tell("")
    try:
        done = run_job(read, worker.spool, lambda: worker.is_wanted(read.key), tell)
    finally:
        worker.does("")
    return {"done": done.to_plain()}


def _unknown(*_given: Any, **_more: Any) -> dict[str, Any]:
    raise DLBricksError("this host does not do that", hint="Upgrade DLBricks there.")


_CALLS: Mapping[str, Callable[..., dict[str, Any]]] = {
    KEEP_SUITE: keep_suite,
    HAVE_DONE: have_done,
}
"""Function that carries out an order, by its name."""


def serve(
    address: str, spool: Path, patience_s: float, say: Say, access: Access, host: str = ""
) -> int:
    """Joins a fleet and works in it until a signal ends that.

    Args:
        address: Address of the scheduler.
        spool: Folder of the host's store and of its suites.
        patience_s: Maximum seconds to wait for a scheduler that does not answer.
        say: Receives one line for each event.
        access: How the host reaches the scheduler.
        host: Address to listen at.

    Returns:
        Number of the signal.

    Raises:
        DLBricksError: If the scheduler does not answer in time, the host cannot listen at its
            address, or the spool cannot be written.
    """
    access.check_scheduler(address)
    host = access.listening_at(host, default=host_of(address))
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
        held.enter_context(scratch())
        new = partial(FleetWorker, address, spool, facts, access, host)
        work = partial(_work, new, address, access, patience_s, say, host)
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
    new: Callable[[], FleetWorker],
    address: str,
    access: Access,
    patience_s: float,
    say: Say,
    host: str,
) -> None:
    """Serves a scheduler until the connection is lost."""
    await _reached(address, access, patience_s, say)
    worker = new()
    try:
        with listening(host or "this host", hint=f"Choose another {argument('host')}."):
            await worker
        say(f"Joined {address} as {worker.address}; ready to measure.")
        await worker.finished()
    finally:
        # A job in progress is told to stop first, and its measurements are kept.
        await asyncio.shield(worker.close(timeout=_CLOSE_S))


async def _reached(address: str, access: Access, patience_s: float, say: Say) -> None:
    """Waits until a scheduler answers.

    Raises:
        DLBricksError: If none does in time, or something else answers.
    """
    end, announced, seen = monotonic() + patience_s, False, ""
    security = security_of(access).get_connection_args("worker")
    while True:
        try:
            comm = await connect(address, timeout=_TRY_S, **security)
            await comm.write({"op": GREET})
            await asyncio.wait_for(comm.read(), _TRY_S)
        except OSError as error:
            found = found_at_other_end(error)
            if found is not None and not isinstance(found, SilentError):
                raise stranger(address, found) from error
            seen = f": {found}" if found else seen
            if monotonic() > end:
                raise DLBricksError(
                    f"no scheduler answers at {address} (for {patience_s:g} s){seen}",
                    hint="Start one with: dlbricks fleet scheduler",
                ) from error
            if not announced:
                say(f"No scheduler answers at {address} yet{seen}. Waiting.")
                announced = True
            await asyncio.sleep(_RETRY_S)
        else:
            await comm.close()
            return
