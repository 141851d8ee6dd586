"""Runs: each kind of host in a fleet measures a suite, and the client's store keeps the results."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from dlbricks_records.contents import Selection, exported, merge, read_stream
from dlbricks_suite.folder import read_suite
from dlbricks_suite.folder.manifest import MANIFEST, read_manifest

from dlbricks_core.errors import DLBricksError, StoreError
from dlbricks_core.facts import Machine
from dlbricks_core.machine.load import LONGEST_S
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore
from dlbricks_core.version import __version__
from dlbricks_core.wording import settings
from dlbricks_fleet.access import Access
from dlbricks_fleet.admission import Admission
from dlbricks_fleet.calls import HAVE_DONE, KEEP_SUITE, error_of
from dlbricks_fleet.campaign import Campaign
from dlbricks_fleet.client import Call, FleetClient, LostError
from dlbricks_fleet.jobs import CrashedError, HungError, UnwantedError
from dlbricks_fleet.records import (
    Asked,
    Done,
    Fleet,
    FleetResult,
    Host,
    HostResult,
    Order,
    RunState,
)

_LOOK_S = 0.2
_TELL_S = 2.0
_SLACK_S = 120.0
"""Seconds beyond the deadline of a job after which its host counts as stuck."""

PATIENCE_S = 300.0
"""Seconds to wait for a lost scheduler."""


@dataclass(frozen=True)
class Command:
    """A user's request to a fleet."""

    suite: Path  #: Folder of the suite.
    scheduler: str  #: Address of the scheduler.
    access: Access  #: How the client reaches it.
    options: Mapping[str, Any]  #: Arguments of :meth:`dlbricks_core.measure.request.Request.of`.
    #: Maximum seconds to wait for the first host, and for a replacement once all hosts have left.
    wait_s: float
    patience_s: float = PATIENCE_S  #: Maximum seconds to wait for a lost scheduler.
    #: Maximum seconds of a share; ``None`` to derive the limit from the expected seconds.
    deadline_s: float | None = None


def run(command: Command, store: ResultStore, observer: Observer) -> FleetResult:
    """Measures a suite on every kind of host of a fleet.

    Args:
        command: The request.
        store: Store for all measurements of the hosts. No host has access to it.
        observer: Receives the progress.

    Raises:
        DLBricksError: If the suite cannot be read, the scheduler does not answer, no host comes, or
            no kind of host can measure the suite.
    """
    read_suite(command.suite)
    files = _files(command.suite)
    client = FleetClient(command.scheduler, command.access)
    runner = _Runner(command, files, client, store, observer)
    try:
        return runner.run()
    finally:
        runner.close()


@dataclass
class _Try:
    """A call in progress on a host."""

    host: Host  #: The host.
    call: Call  #: The call and its answer.
    order: Order | None  #: Order that the host carries out; ``None`` while it receives the suite.
    end: float  #: Time after which the host counts as stuck.
    lost: bool = False  #: Whether the scheduler has given up the call.


@dataclass
class _Ledger:
    """Contribution of one host to the run."""

    host: Host
    jobs: int = 0
    bricks: int = 0
    seconds: float = 0.0
    gone: str = ""
    joined: int = 1


class _Runner:
    def __init__(
        self,
        command: Command,
        files: Mapping[str, bytes],
        client: FleetClient,
        store: ResultStore,
        observer: Observer,
    ) -> None:
        self._command = command
        self._files = files
        self._client = client
        self._store = store
        self._observer = observer
        self._suite = _hash(files)
        asked = Asked(self._suite, command.options)
        self._campaign = Campaign(asked, command.options["timeout_s"], command.deadline_s)
        self._prefix = f"dlbricks-{uuid.uuid4().hex}"
        self._tries: dict[str, _Try] = {}
        self._ledgers: dict[str, _Ledger] = {}
        self._ready: set[tuple[str, bool]] = set()
        self._unfit: dict[str, str] = {}
        self._alone_since: dict[str, float] = {}
        self._begin = monotonic()
        self._told = 0.0
        self._shown = (-1, -1)

    def run(self) -> FleetResult:
        self._observer.stage("Waiting for hosts")
        fleet = self._first_hosts()
        while True:
            self._part(fleet)
            for host in fleet.hosts:
                self._meet(host)
            self._look_after(fleet)
            for each in list(self._tries.values()):
                if each.call.answer is not None:
                    self._finish(each)
            if not self._campaign.unfinished:
                break
            self._assign(fleet)
            self._show()
            sleep(_LOOK_S)
            fleet = self._seen(fleet)
        self._check_refusals()
        return FleetResult(
            str(self._command.suite),
            str(self._command.options["backend"]),
            self._command.scheduler,
            self._campaign.kinds,
            [
                HostResult(each.host, each.jobs, each.bricks, each.seconds, each.gone, each.joined)
                for each in self._ledgers.values()
            ],
            self._campaign.jobs,
            self._campaign.failures,
            monotonic() - self._begin,
        )

    def close(self) -> None:
        """Cancels all calls and closes the connection."""
        for each in self._tries.values():
            self._client.cancel(each.call)
        self._client.close()

    def _first_hosts(self) -> Fleet:
        end = monotonic() + self._command.wait_s
        while True:
            fleet = self._seen(None)
            fit = [host for host in fleet.hosts if self._is_fit(host)]
            if fit:
                return fleet
            if monotonic() > end:
                why = "; ".join(f"{a}: {reason}" for a, reason in self._unfit.items())
                raise DLBricksError(
                    f"no host has joined {self._command.scheduler} within "
                    f"{self._command.wait_s:g} s" + (f" ({why})" if why else ""),
                    hint="Join one with: dlbricks fleet worker "
                    f"{settings(scheduler=self._command.scheduler)}",
                )
            sleep(_LOOK_S)

    def _seen(self, before: Fleet | None) -> Fleet:
        """State of the fleet, not older than a given time; waits for a lost scheduler."""
        now = monotonic()
        if before is not None and now - self._told < _TELL_S and not self._any_ended():
            return before
        self._told = now
        hosts = before.hosts if before else ()
        run = RunState(
            self._command.suite.name,
            str(self._command.options["backend"]),
            self._campaign.bricks,
            self._campaign.ended_bricks,
            self._campaign.left_s(hosts),
            now - self._begin,
        )
        try:
            return self._client.state(run)
        except LostError:
            self._reconnect()
            return self._client.state(run)

    def _any_ended(self) -> bool:
        return any(each.call.answer is not None for each in self._tries.values())

    def _reconnect(self) -> None:
        for key, each in list(self._tries.items()):
            self._drop(key, each, "the scheduler was lost", blames=False)
        self._client.close()
        command = self._command
        self._client = FleetClient.patiently(
            command.scheduler, command.access, command.patience_s, self._observer.note
        )
        self._observer.note("The scheduler is there again.")

    def _is_fit(self, host: Host) -> bool:
        """Whether a host can take part: it runs the same version and has the backend."""
        if host.address not in self._unfit and host.version != __version__:
            self._unfit[host.address] = f"{host.name} runs DLBricks {host.version or 'unknown'}"
            self._observer.note(f"{host} cannot take part: {self._unfit[host.address]}")
        return host.address not in self._unfit

    def _meet(self, host: Host) -> None:
        """Adds a host to the run. A host that joins again keeps its former results."""
        if host.address in self._ledgers or not self._is_fit(host):
            return
        before = next(
            (a for a, e in self._ledgers.items() if e.gone and e.host.key == host.key), None
        )
        ledger = _Ledger(host)
        if before is not None:
            past = self._ledgers.pop(before)
            ledger = replace(past, host=host, gone="", joined=past.joined + 1)
            self._observer.note(f"{host} has joined again.")
        self._ledgers[host.address] = ledger
        self._campaign.meet(host)

    def _part(self, fleet: Fleet) -> None:
        """Takes work back from hosts that left."""
        there = {host.address for host in fleet.hosts}
        gone = {each.address: each.reason for each in fleet.gone}
        for address, ledger in self._ledgers.items():
            if address not in there and not ledger.gone:
                ledger.gone = gone.get(address, "left when the scheduler was lost")
                self._observer.note(f"{ledger.host} is gone: {ledger.gone}")
        for key, each in list(self._tries.items()):
            if each.host.address not in there:
                self._drop(key, each, self._ledgers[each.host.address].gone)

    def _look_after(self, fleet: Fleet) -> None:
        """Takes work back from hosts that hang, and gives up kinds without hosts."""
        for key, each in list(self._tries.items()):
            if monotonic() > each.end:
                self._drop(key, each, "its host answers, but does not end its job")
        kinds = {host.kind for host in fleet.hosts if host.address in self._ledgers}
        for kind in self._campaign.unfinished:
            if kind in kinds:
                self._alone_since.pop(kind, None)
                continue
            since = self._alone_since.setdefault(kind, monotonic())
            if monotonic() > since + self._command.wait_s:
                self._campaign.abandon(kind, self._why_nobody(kind))

    def _why_nobody(self, kind: str) -> str:
        left = [each for each in self._ledgers.values() if each.host.kind == kind and each.gone]
        how = "; ".join([*(f"{each.host}: {each.gone}" for each in left), *self._unfit.values()])
        return f"no host of its kind is left ({how})"

    def _drop(self, key: str, each: _Try, reason: str, *, blames: bool = True) -> None:
        """Ends a try without a result."""
        self._client.cancel(each.call)
        del self._tries[key]
        if each.order is None:
            self._ready -= {(each.host.address, is_cut) for is_cut in (False, True)}
        else:
            self._campaign.lost(each.order.key, reason, blames=blames)

    def _assign(self, fleet: Fleet) -> None:
        """Gives every idle host an order."""
        busy = {each.host.address for each in self._tries.values()}
        for host in fleet.hosts:
            if host.address in busy or host.address not in self._ledgers:
                continue
            # The host need not rewrite models that others of its kind have rewritten.
            ready = (host.address, self._campaign.is_cut(host))
            if ready not in self._ready and (self._has_work(host) or not ready[1]):
                self._prepare(host, ready)
            elif order := self._campaign.next_for(host, self._prefix):
                what = (
                    f"times {len(order.share)} bricks of {self._command.suite.name}"
                    if order.share
                    else f"cuts {self._command.suite.name}"
                )
                end = monotonic() + order.deadline_s + LONGEST_S + _SLACK_S
                given = {"order": order.to_plain(), "what": what}
                if not self._try(host, order.key, order, end, HAVE_DONE, given):
                    self._campaign.lost(order.key, "the scheduler was lost", blames=False)

    def _has_work(self, host: Host) -> bool:
        return host.kind in self._campaign.unfinished

    def _prepare(self, host: Host, ready: tuple[str, bool]) -> None:
        key = f"{self._prefix}-suite-{uuid.uuid4().hex}"
        known = _known(self._store, host, str(self._command.options["backend"]))
        end = monotonic() + _SLACK_S
        given = {"name": self._suite, "files": self._files, "known": known}
        if self._try(host, key, None, end, KEEP_SUITE, given):
            self._ready.add(ready)

    def _try(
        self,
        host: Host,
        key: str,
        order: Order | None,
        end: float,
        what: str,
        given: Mapping[str, Any],
    ) -> bool:
        """Calls a host.

        Returns:
            Whether the scheduler took the call. If not, the next look at the fleet connects again.
        """
        try:
            call = self._client.submit(host, key, what, given)
        except LostError:
            return False
        self._tries[key] = _Try(host, call, order, end)
        return True

    def _finish(self, each: _Try) -> None:
        """Takes in the answer to a call."""
        key = each.call.key
        if each.call.is_lost:
            # The next state of the fleet names the lost host, and the reason.
            if each.lost:
                self._drop(key, each, "its connection to the scheduler was lost")
            each.lost = True
            return
        del self._tries[key]
        try:
            found = _result_in(each)
        except _MALFORMED as error:
            self._reject(each, DLBricksError(f"its answer is malformed: {error!r:.100}"))
            return
        if isinstance(found, Done):
            self._keep(each, found)
        elif each.order is None:
            if found is not None:
                self._exclude(each.host, found)
        elif found is None:
            self._reject(each, DLBricksError("its answer is empty"))
        elif each.order.share or isinstance(found, (HungError, CrashedError, UnwantedError)):
            self._observer.note(f"{each.host}: {_said(found)}")
            self._campaign.lost(each.order.key, _said(found))
        else:
            self._campaign.refused(each.order.key, _said(found))

    def _exclude(self, host: Host, why: DLBricksError) -> None:
        """Leaves a host out of the run from now on."""
        if host.address not in self._unfit:
            self._unfit[host.address] = _said(why)
            self._observer.note(f"{host} cannot take part: {_said(why)}")
            self._ledgers.pop(host.address, None)

    def _reject(self, each: _Try, why: DLBricksError) -> None:
        """Excludes a host with an invalid answer from the run, and reassigns its work."""
        self._exclude(each.host, why)
        if each.order is not None:
            self._campaign.lost(each.order.key, _said(why))

    def _keep(self, each: _Try, done: Done) -> None:
        assert each.order is not None
        try:
            records = list(read_stream(BytesIO(done.records), f"what {each.host} measured"))
        except StoreError as error:
            self._reject(each, error)
            return
        merge(self._store, Admission(each.host, each.order, self._store).of(records))
        ledger = self._ledgers[each.host.address]
        ledger.seconds += done.seconds
        if each.order.share:
            ledger.jobs += 1
            ledger.bricks += len(each.order.share)
        else:  # the host keeps the models that it has rewritten
            self._ready.add((each.host.address, True))
        self._campaign.done(each.order.key, done)

    def _show(self) -> None:
        """Reports the progress of the run."""
        bricks, done = self._campaign.bricks, self._campaign.ended_bricks
        if self._shown[0] != bricks:
            self._observer.stage(f"Timing on {len(self._ledgers)} hosts", bricks)
            self._shown = bricks, 0
        for _ in range(done - self._shown[1]):
            self._observer.advance()
        self._shown = bricks, done

    def _check_refusals(self) -> None:
        """Raises the error on which all kinds of host agree: the request is to blame."""
        refusals = self._campaign.refusals
        if refusals and len(refusals) == len(self._campaign.kinds):
            raise DLBricksError(next(iter(refusals.values())))


_MALFORMED = (AttributeError, KeyError, TypeError, ValueError, ArithmeticError, RecursionError)
"""Errors that an answer of another form leads to."""


def _result_in(each: _Try) -> Done | DLBricksError | None:
    """Result in the answer to a call, or its error; ``None`` for a suite that was received.

    Raises:
        Exception: One of ``_MALFORMED``, if the answer has another form.
    """
    answer = each.call.answer
    assert answer is not None
    if "error" in answer:
        return error_of(answer["error"])
    return None if each.order is None else Done.from_plain(answer["done"])


def _said(error: DLBricksError) -> str:
    """Message of an error with its hint."""
    return f"{error.message} ({error.hint})" if error.hint else error.message


def _files(folder: Path) -> dict[str, bytes]:
    """Content of a suite's files, without other files in the folder, which hosts need not see."""
    manifest = read_manifest(folder)
    named = [entry.file for entry in (*manifest.bricks, *manifest.models) if entry.file]
    paths = [folder / name for name in (MANIFEST, *sorted(named))]
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in paths
        if path.is_file() and folder.resolve() in path.resolve().parents
    }


def _hash(files: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256()
    for path, content in files.items():
        digest.update(f"{path}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:24]


def _known(store: ResultStore, host: Host, backend: str) -> bytes:
    """Measurements of a kind of host in a store, as an exported file."""
    machine = Machine(host.kind, "", frozenset(), alone=True)
    return exported(store, Selection((machine,), (backend,))).content
