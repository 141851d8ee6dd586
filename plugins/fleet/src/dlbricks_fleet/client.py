"""A client's connection to the scheduler of a fleet."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from time import monotonic, sleep
from typing import Any, Self

from distributed import Client
from distributed.client import ClosedClientError
from distributed.comm.core import CommClosedError

from dlbricks_core.errors import DLBricksError
from dlbricks_core.facts import System
from dlbricks_core.facts.checks import checked, number, text
from dlbricks_core.version import __version__
from dlbricks_fleet.access import Access
from dlbricks_fleet.calls import ANSWER, CANCEL, ORDER, STATE
from dlbricks_fleet.calls import LOST as GONE
from dlbricks_fleet.records import Fleet, Gone, Host, RunState
from dlbricks_fleet.wire import PeerError, SilentError, found_at_other_end, security_of, stranger

_ANSWER_S = 20.0
"""Seconds within which a live scheduler answers."""

_TRY_S = 5.0
_RETRY_S = 1.0
"""Seconds of a try to connect, and seconds before the next one."""


LOST = (OSError, CommClosedError, AttributeError, TimeoutError, ClosedClientError)
"""Errors that Dask raises once a scheduler is gone: its lost connection becomes ``None``, and after
some seconds without an answer it closes the client.
"""


class LostError(DLBricksError):
    """The scheduler does not answer."""


@dataclass
class Call:
    """A call of a host."""

    key: str  #: Unique key.
    #: Answer of the host, as plain data; ``None`` until it comes.
    answer: Mapping[str, Any] | None = None

    @property
    def is_lost(self) -> bool:
        """Whether the call was lost with the scheduler, or with the host."""
        return self.answer is not None and "lost" in self.answer


class _Connection(Client):  # type: ignore[misc, unused-ignore]
    """Dask's client without its power to run functions, or to load results.

    Args:
        address: Address of the scheduler.
        access: How the client reaches it.
    """

    def __init__(self, address: str, access: Access) -> None:
        self.calls: dict[str, Call] = {}
        super().__init__(
            address,
            timeout=_TRY_S,
            set_as_default=False,
            name=f"dlbricks-{uuid.uuid4().hex}",
            security=security_of(access),
            extensions={},
        )
        self._stream_handlers = {ANSWER: self._receive}

    def _receive(self, key: str, answer: Mapping[str, Any]) -> None:
        call = self.calls.pop(key, None)
        if call is not None:
            call.answer = answer

    async def _reconnect(self) -> None:
        for key in list(self.calls):
            self._receive(key, GONE)
        await super()._reconnect()


class FleetClient:
    """Connection to the scheduler of a fleet.

    Args:
        address: Address of the scheduler.
        access: How the client reaches it.

    Raises:
        LostError: If no scheduler answers at the address.
        DLBricksError: If the address is malformed or not protected, or if something else answers
            there.
    """

    def __init__(self, address: str, access: Access) -> None:
        access.check_scheduler(address)
        self._address = address
        try:
            self._client = _Connection(address, access)
        except OSError as error:
            found = found_at_other_end(error)
            if found is not None and not isinstance(found, SilentError):
                raise stranger(address, found) from error
            raise LostError(
                f"no scheduler answers at {address}" + (f": {found}" if found else ""),
                hint="Start one with: dlbricks fleet scheduler",
            ) from error
        try:
            self.state()
        except DLBricksError:
            self.close()
            raise

    @classmethod
    def patiently(
        cls, address: str, access: Access, patience_s: float, say: Callable[[str], None]
    ) -> Self:
        """A new connection, once the scheduler answers again.

        Args:
            address: Address of the scheduler.
            access: How the client reaches it.
            patience_s: Maximum seconds to wait for the scheduler.
            say: Receives a message when waiting begins.

        Raises:
            LostError: If the scheduler does not answer in time.
        """
        say(f"The scheduler at {address} does not answer: trying again for {patience_s:g} s")
        end = monotonic() + patience_s
        while True:
            try:
                return cls(address, access)
            except LostError as error:
                if monotonic() > end:
                    raise LostError(
                        f"the scheduler at {address} does not answer (for {patience_s:g} s)",
                        hint="Restart the scheduler, and run again: hosts keep their measurements.",
                    ) from error
                sleep(_RETRY_S)

    def state(self, run: RunState | None = None) -> Fleet:
        """State of the fleet.

        Args:
            run: Progress of this client's run, which other clients can see; ``None`` for no run.

        Raises:
            LostError: If the scheduler does not answer.
            DLBricksError: If the scheduler refuses the client's certificate.
        """
        record = {"client": self._client.id, "run": None if run is None else asdict(run)}
        try:
            found = self._client.sync(
                getattr(self._client.scheduler, STATE), **record, callback_timeout=_ANSWER_S
            )
        except PeerError as error:
            raise stranger(self._address, error) from error
        except LOST as error:
            raise self._lost() from error
        try:
            return _fleet(self._address, found)
        except _MALFORMED as error:
            raise DLBricksError(
                f"the scheduler at {self._address} reports the fleet in another form than version "
                f"{__version__} reads",
                hint="Install the same version of DLBricks on all members of the fleet.",
            ) from error

    def submit(self, host: Host, key: str, call_name: str, given: Mapping[str, Any]) -> Call:
        """Calls a host.

        Args:
            host: The host. It must be idle, or the call waits for its other orders.
            key: Unique key.
            call_name: Name of the call.
            given: Arguments of the call, as plain data.

        Raises:
            LostError: If the scheduler has not answered for some time.
        """
        call = self._client.calls[key] = Call(key)
        order = {"op": ORDER, "key": key, "host": host.address, "what": call_name, "given": given}
        try:
            self._client._send_to_scheduler(order)
        except LOST as error:
            raise self._lost() from error
        return call

    def cancel(self, call: Call) -> None:
        """Cancels a call on a host."""
        if self._client.calls.pop(call.key, None) is not None:
            with suppress(*LOST):  # the scheduler is gone, and so the host knows
                self._client._send_to_scheduler({"op": CANCEL, "key": call.key})

    def _lost(self) -> LostError:
        return LostError(f"the scheduler at {self._address} does not answer")

    def close(self) -> None:
        """Closes the connection."""
        with suppress(*LOST):
            self._client.close(timeout=_TRY_S)


_MALFORMED = (AttributeError, LookupError, TypeError, ValueError, ArithmeticError)
"""Errors that facts of another form lead to."""


def _fleet(scheduler: str, found: Mapping[str, Any]) -> Fleet:
    """State of a fleet. A host or a run whose facts are of another form leaves the others there."""
    hosts, runs = list[Host](), list[RunState]()
    gone = [
        Gone(*(text(each) for each in (address, it["name"], it["reason"], it.get("identity", ""))))
        for address, it in found["gone"].items()
    ]
    for address, record in found["hosts"].items():
        try:
            hosts.append(_host(text(address), record))
        except _MALFORMED as error:
            gone.append(Gone(text(address), "", f"its facts are malformed: {error!s:.60}"))
    for each in found["runs"]:
        with suppress(*_MALFORMED):  # another client's, of another version
            runs.append(RunState.from_plain(each))
    return Fleet(scheduler, hosts, gone, runs)


def _host(address: str, record: Mapping[str, Any]) -> Host:
    system = dict(checked(record["system"], dict, "system"))
    fingerprint = text(system.pop("fingerprint"), "fingerprint")
    versions = checked(record["backends"], dict, "backends").items()
    return Host(
        address,
        text(record["name"], "name"),
        System.from_dict(fingerprint, system),
        text(record["version"], "version"),
        {text(backend): text(version) for backend, version in versions},
        text(record.get("doing", ""), "doing"),
        number(record.get("since_s", 0.0), "since_s"),
        text(record.get("identity", ""), "identity"),
        checked(record.get("certified", False), bool, "certified"),
    )
