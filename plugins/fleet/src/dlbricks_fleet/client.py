"""A client's connection to the scheduler of a fleet."""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from time import monotonic, sleep
from typing import Any, Self

from distributed import Client, Future
from distributed.client import ClosedClientError
from distributed.comm.core import CommClosedError

from dlbricks_core.errors import DLBricksError
from dlbricks_core.facts import System
from dlbricks_fleet.address import check_address
from dlbricks_fleet.records import Fleet, Gone, Host, RunState
from dlbricks_fleet.scheduler import STATE

_ANSWER_S = 20.0
"""Seconds within which a live scheduler answers."""

_TRY_S = 5.0
_RETRY_S = 1.0


LOST = (OSError, CommClosedError, AttributeError, TimeoutError, ClosedClientError)
"""Errors that Dask raises once a scheduler is gone: its lost connection becomes ``None``, and after
some seconds without an answer it closes the client.
"""


class LostError(DLBricksError):
    """The scheduler does not answer."""


class FleetClient:
    """Connection to the scheduler of a fleet.

    Args:
        address: Address of the scheduler.

    Raises:
        LostError: If no scheduler answers at the address.
        DLBricksError: If the address is malformed, or its scheduler belongs to Dask but to no
            fleet.
    """

    def __init__(self, address: str) -> None:
        check_address(address)
        self._address = address
        try:
            self._client = Client(
                address, timeout=_TRY_S, set_as_default=False, name=f"dlbricks-{uuid.uuid4().hex}"
            )
        except OSError as error:
            raise LostError(
                f"no scheduler answers at {address}",
                hint="Start one with: dlbricks fleet scheduler",
            ) from error
        try:
            self.state()
        except DLBricksError:
            self.close()
            raise

    @classmethod
    def patiently(cls, address: str, patience_s: float, say: Callable[[str], None]) -> Self:
        """A new connection, once the scheduler answers again.

        Args:
            address: Address of the scheduler.
            patience_s: Maximum seconds to wait for the scheduler.
            say: Receives a message when waiting begins.

        Raises:
            LostError: If the scheduler does not answer in time.
        """
        say(f"The scheduler at {address} does not answer: trying again for {patience_s:g} s")
        end = monotonic() + patience_s
        while True:
            try:
                return cls(address)
            except LostError as error:
                if monotonic() > end:
                    raise LostError(
                        f"the scheduler at {address} does not answer (for {patience_s:g} s)",
                        hint="Restart the scheduler, and run again: hosts keep what they measured.",
                    ) from error
                sleep(_RETRY_S)

    def state(self, run: RunState | None = None) -> Fleet:
        """State of the fleet.

        Args:
            run: Progress of this client's run, which other clients can see; ``None`` for no run.

        Raises:
            LostError: If the scheduler does not answer.
            DLBricksError: If the scheduler does not belong to a fleet.
        """
        told = {"client": self._client.id, "run": None if run is None else asdict(run)}
        try:
            found = self._client.sync(
                getattr(self._client.scheduler, STATE), **told, callback_timeout=_ANSWER_S
            )
        except LOST as error:
            raise self._lost() from error
        if not isinstance(found, dict):  # Dask answers an unknown call with nothing
            raise DLBricksError(
                f"the scheduler at {self._address} does not belong to a fleet",
                hint="Start it with: dlbricks fleet scheduler",
            )
        return Fleet(
            self._address,
            [_host(address, told) for address, told in found["hosts"].items()],
            [
                Gone(address, each["name"], each["reason"], each.get("identity", ""))
                for address, each in found["gone"].items()
            ],
            [RunState(**each) for each in found["runs"]],
        )

    def submit(self, host: Host, key: str, function: Callable[..., Any], *arguments: Any) -> Future:
        """Calls a function on one host.

        Args:
            host: The host. It must be idle, or the call waits for its other tasks.
            key: Unique key: a scheduler takes two calls with one key for the same work.
            function: Function that the host can import.
            *arguments: Arguments of the function.

        Raises:
            LostError: If the scheduler has not answered for some time.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of large arguments: a suite is one
            try:
                return self._client.submit(
                    function,
                    *arguments,
                    key=key,
                    workers=[host.address],
                    allow_other_workers=False,
                    pure=False,
                    retries=0,
                )
            except LOST as error:
                raise self._lost() from error

    def cancel(self, future: Future) -> None:
        """Tells a host that the result of a call is no longer wanted."""
        with suppress(*LOST):  # the scheduler is gone, and so the host knows
            self._client.cancel([future], asynchronous=False)

    def _lost(self) -> LostError:
        return LostError(f"the scheduler at {self._address} does not answer")

    def close(self) -> None:
        """Closes the connection."""
        with suppress(*LOST):
            self._client.close(timeout=_TRY_S)


def _host(address: str, told: dict[str, Any]) -> Host:
    system = dict(told.get("system") or {})
    return Host(
        address,
        str(told.get("name", "")),
        System.from_dict(str(system.pop("fingerprint", "")), system),
        str(told.get("version", "")),
        dict(told.get("backends", {})),
        str(told.get("doing", "")),
        float(told.get("since_s", 0.0)),
        str(told.get("identity", "")),
    )
