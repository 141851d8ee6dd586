"""The scheduler of a fleet: Dask's scheduler, which also reports facts about hosts and runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from time import time
from typing import Any

from distributed import Scheduler
from distributed.diagnostics.plugin import SchedulerPlugin

from dlbricks_core.errors import DLBricksError
from dlbricks_core.wording import argument
from dlbricks_fleet.address import check_host, listening
from dlbricks_fleet.settings import HEARTBEAT_S, override
from dlbricks_fleet.stopping import asked_to_stop
from dlbricks_fleet.worker import FACTS

STATE = "dlbricks_fleet"
"""Name of the call with which clients query the state of the fleet and report their runs."""

_MOST_GONE = 1000

LEAST_SILENCE_S = 2 * HEARTBEAT_S
"""Minimum seconds of silence after which a host may count as gone."""

_LOOK_SHARE = 0.25
"""Time between two searches for silent hosts, as a share of the permitted silence."""

_KEPT = ("name", "identity")
"""Facts of a host that are still reported after it has left."""

_GONE: Mapping[str, str] = {
    "check-worker-ttl": "said nothing for {silence:g} s",
    "handle-worker-cleanup": "its connection ended: the worker or its host died",
    "worker-close": "left the fleet",
}
"""Reason why a host left, by the beginning of the cause that Dask gives."""


class FleetState(SchedulerPlugin):
    """State of a fleet that Dask does not keep: hosts that left, and runs."""

    name = "dlbricks-fleet"

    def __init__(self, silence_s: float) -> None:
        self._silence_s = silence_s
        self._scheduler: Scheduler | None = None
        self._known: dict[str, dict[str, str]] = {}
        self._gone: dict[str, dict[str, str]] = {}
        self._runs: dict[str, dict[str, Any]] = {}

    async def start(self, scheduler: Scheduler) -> None:
        """Registers the call that clients query."""
        self._scheduler = scheduler
        scheduler.handlers[STATE] = self.state

    def add_worker(self, scheduler: Scheduler, worker: str) -> None:
        """Notes the name and identity of a host, for use after it has left."""
        facts = scheduler.workers[worker].extra.get(FACTS) or {}
        self._known[worker] = {name: str(facts.get(name, "")) for name in _KEPT}

    def remove_worker(
        self, scheduler: Scheduler, worker: str, *, stimulus_id: str, **_more: Any
    ) -> None:
        """Records why a host left."""
        cause = next((c for c in _GONE if stimulus_id.startswith(c)), "")
        closing = any(
            event.get("action") == "closing-worker"
            for _, event in scheduler.get_events(worker)
            if isinstance(event, dict)
        )
        cause = "worker-close" if closing else cause
        reason = _GONE.get(cause, stimulus_id).format(silence=self._silence_s)
        known = self._known.pop(worker, dict.fromkeys(_KEPT, ""))
        self._gone[worker] = {**known, "reason": reason}
        if len(self._gone) > _MOST_GONE:
            del self._gone[next(iter(self._gone))]

    def remove_client(self, scheduler: Scheduler, client: str) -> None:
        """Drops the run of a client that has left."""
        self._runs.pop(client, None)

    async def state(self, client: str = "", run: dict[str, Any] | None = None) -> dict[str, Any]:
        """State of the fleet as plain data.

        Args:
            client: Identifier of the client.
            run: Progress of the client's run; ``None`` for a client without a run.
        """
        assert self._scheduler is not None
        if run is not None and client in self._scheduler.clients:
            self._runs[client] = run
        now = time()
        again = self._joined_again()
        return {
            "hosts": {
                address: {
                    **(worker.extra.get(FACTS) or {}),
                    **(worker.metrics.get(FACTS) or {}),
                    "seen_s": now - worker.last_seen,
                }
                for address, worker in self._scheduler.workers.items()
                if address not in again
            },
            "gone": {**self._gone, **again},
            "runs": list(self._runs.values()),
        }

    def _joined_again(self) -> dict[str, dict[str, str]]:
        """Workers whose host has joined again, although Dask has not yet noticed that they left."""
        last = {each["identity"] or address: address for address, each in self._known.items()}
        return {
            address: {**each, "reason": "its host joined again"}
            for address, each in self._known.items()
            if last[each["identity"] or address] != address
        }


def serve(host: str, port: int, silence_s: float, say: Callable[[str], None]) -> int:
    """Runs a scheduler until a signal ends it.

    Args:
        host: Address to listen at; empty for all.
        port: Port to listen at; 0 for a free one.
        silence_s: Seconds of silence after which a host counts as gone.
        say: Receives the address of the scheduler.

    Returns:
        Number of the signal.

    Raises:
        DLBricksError: If the port cannot be opened, or the silence is too short.
    """
    if host:
        check_host(host)
    if silence_s < LEAST_SILENCE_S:
        raise DLBricksError(
            f"{silence_s:g} s of silence are too few: a host tells every {HEARTBEAT_S:g} s that it "
            "is there",
            hint=f"Let {argument('silence_s')} be {LEAST_SILENCE_S:g} s or more.",
        )
    override(silence_s)
    return asyncio.run(_serve(host, port, silence_s, say))


async def _serve(host: str, port: int, silence_s: float, say: Callable[[str], None]) -> int:
    stopped = asked_to_stop()
    scheduler = Scheduler(
        host=host or None,
        port=port,
        dashboard=False,
        dashboard_address=":0",
        plugins=[FleetState(silence_s)],
    )
    # Dask looks once in this time. With a longer one, a host that hangs would be noticed up to
    # twice as late.
    scheduler.periodic_callbacks["worker-ttl"].callback_time = _LOOK_SHARE * silence_s * 1000
    with listening(
        f"{host or 'this machine'}, port {port}",
        hint=f"Choose another {argument('port')} or {argument('host')}.",
    ):
        await scheduler
    say(f"Scheduler at {scheduler.address}")
    await stopped
    await scheduler.close()
    return stopped.result()
