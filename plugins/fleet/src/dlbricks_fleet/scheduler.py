"""The scheduler of a fleet: Dask's scheduler, which also reports facts about hosts and runs.

It permits a few calls only, each to one role, and passes orders and answers on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from inspect import isawaitable, signature
from time import time
from typing import Any

from distributed import Scheduler
from distributed.core import Status
from distributed.diagnostics.plugin import SchedulerPlugin
from distributed.versions import get_versions

from dlbricks_core.errors import DLBricksError
from dlbricks_core.facts.checks import checked
from dlbricks_core.wording import argument
from dlbricks_fleet.access import Access
from dlbricks_fleet.address import listening
from dlbricks_fleet.calls import ANSWER, CANCEL, GREET, LOST, ORDER, STATE
from dlbricks_fleet.certificates import Peer
from dlbricks_fleet.settings import HEARTBEAT_S, override, scratch
from dlbricks_fleet.stopping import asked_to_stop
from dlbricks_fleet.wire import security_of
from dlbricks_fleet.worker import FACTS

_MOST_GONE = 1000
"""Maximum number of lost hosts that are remembered."""

LEAST_SILENCE_S = 2 * HEARTBEAT_S
"""Minimum seconds of silence after which a host may count as gone."""

_LOOK_SHARE = 0.25
"""Time between two searches for silent hosts, as a share of the permitted silence."""

_CALLERS: Mapping[str, str] = {
    GREET: "host",
    "register-worker": "host",
    "heartbeat_worker": "host",
    "register-client": "client",
    "identity": "client",
    STATE: "client",
}
"""Role that may make a call, by the name of the call. There are no other calls."""

_SPEAKERS: Mapping[str, str] = {
    "keep-alive": "worker",
    "worker-status-change": "worker",
    "log-event": "worker",
    ANSWER: "worker",
    "heartbeat-client": "client",
    "close-client": "client",
    "subscribe-topic": "client",
    ORDER: "client",
    CANCEL: "client",
}
"""Member that may send a message on its lasting connection, by the name of the message."""

_KEPT = ("name", "identity")
"""Facts of a host that are still reported after it has left."""

_ACTIVITY = frozenset({"doing", "since_s"})
"""Facts that a host reports with each sign of life."""

_GONE: Mapping[str, str] = {
    "check-worker-ttl": "sent nothing for {silence:g} s",
    "handle-worker-cleanup": "its connection ended: the worker or its host died",
    "worker-close": "left the fleet",
}
"""Reason why a host left, by the beginning of the cause that Dask gives."""


def _facts_in(reported: Any) -> dict[str, Any]:
    """Facts in what a host reports; none if they are of another form, as no host of ours sends."""
    facts = reported.get(FACTS) if isinstance(reported, dict) else None
    return facts if isinstance(facts, dict) else {}


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
        """Remembers the scheduler."""
        self._scheduler = scheduler

    def add_worker(self, scheduler: Scheduler, worker: str) -> None:
        """Notes the name and identity of a host, for use after it has left."""
        facts = _facts_in(scheduler.workers[worker].extra)
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
        scheduler.forget_host(worker)
        if len(self._gone) > _MOST_GONE:
            del self._gone[next(iter(self._gone))]

    def remove_client(self, scheduler: Scheduler, client: str) -> None:
        """Drops the run of a client that has left, and its orders."""
        self._runs.pop(client, None)
        scheduler.forget_client(client)

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
                    **_facts_in(worker.extra),
                    # Nothing else: a host could take another name after it has joined.
                    **{
                        name: value
                        for name, value in _facts_in(worker.metrics).items()
                        if name in _ACTIVITY
                    },
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


class FleetScheduler(Scheduler):  # type: ignore[misc, unused-ignore]
    """Dask's scheduler without its power to run functions.

    Args:
        state: State of the fleet.
        access: How members reach it.
        host: Address to listen at; empty for all.
        port: Port to listen at; 0 for a free one.
    """

    def __init__(self, state: FleetState, access: Access, host: str, port: int) -> None:
        super().__init__(
            host=host or None,
            port=port,
            protocol=access.protocol,
            security=security_of(access),
            dashboard=False,
            dashboard_address=":0",
            plugins=[state],
            extensions={},
        )
        self._orders: dict[str, tuple[str, str]] = {}
        self._certified: dict[str, str] = {}
        dasks: Mapping[str, Callable[..., Any]] = self.handlers
        own: Mapping[str, Callable[..., Any]] = {STATE: state.state, GREET: lambda: True}
        calls = {**dasks, **own}
        self.handlers: dict[str, Callable[..., Any]] = {
            name: _permitted(role, getattr(self, f"_{role}_calls"), calls[name])
            for name, role in _CALLERS.items()
        }
        self.stream_handlers |= {
            ORDER: self._pass_order,
            CANCEL: self._pass_end,
            ANSWER: self._pass_answer,
            "subscribe-topic": lambda **_: None,  # every client of Dask tries; there are no topics
        }

    def _client_calls(self, _peer: Peer | None, given: dict[str, Any]) -> dict[str, Any]:
        return given

    def _host_calls(self, peer: Peer | None, given: dict[str, Any]) -> dict[str, Any]:
        """Arguments of a host's call: about itself, and under its certified name."""
        if not given:
            return given
        address = self.coerce_address(given["address"], resolve=False)
        given = {**given, "address": address, "resolve_address": False}
        given.pop("extensions", None)
        if peer is None:
            return given
        if address in self.workers:
            if self._certified.get(address) != peer.name:
                raise PermissionError(f"{address} is not an address of {peer.name}")
        elif "extra" in given:
            facts = given["extra"][FACTS]
            certified = {
                "name": peer.name,
                "identity": f"{peer.name}/{facts['identity']}",
                "certified": True,
            }
            given = {**given, "extra": {**given["extra"], FACTS: {**facts, **certified}}}
            self._certified[address] = peer.name
        return given

    async def handle_stream(self, comm: Any, extra: dict[str, Any] | None = None) -> None:
        """Carries out the messages of a member's lasting connection, until either end closes it."""
        ((role, name),) = (extra or {}).items()
        try:
            async for message in _messages_of(comm):
                what = message.pop("op")
                # No member speaks for another one.
                speaks_for = message.pop(role, name)
                if what == "close-stream" or _SPEAKERS.get(what) != role or speaks_for != name:
                    return
                self.stream_handlers[what](**message, **{role: name})
                await asyncio.sleep(0)
        finally:
            await comm.close()

    def _pass_order(self, client: str, key: str, host: str, what: str, given: Any) -> None:
        """Passes an order on to a host.

        Raises:
            TypeError: If it is none, which ends the client's connection, and not the host's.
        """
        for each in (key, host, what):
            checked(each, str, "order")
        if host not in self.stream_comms or key in self._orders:
            self._answer(client, key, LOST)
            return
        self._orders[key] = client, host
        self.stream_comms[host].send({"op": ORDER, "key": key, "what": what, "given": given})

    def _pass_end(self, client: str, key: str) -> None:
        """Cancels an order on a host."""
        ordered_by, host = self._orders.get(key, ("", ""))
        if ordered_by == client and host in self.stream_comms:
            del self._orders[key]
            self.stream_comms[host].send({"op": CANCEL, "key": key})

    def _pass_answer(self, worker: str, key: str, answer: Mapping[str, Any]) -> None:
        """Passes the result of an order on to the client that gave it."""
        client, host = self._orders.get(key, ("", ""))
        if host == worker:  # no host answers for another one
            del self._orders[key]
            self._answer(client, key, answer)

    def _answer(self, client: str, key: str, answer: Mapping[str, Any]) -> None:
        if client in self.client_comms:
            self.client_comms[client].send({"op": ANSWER, "key": key, "answer": dict(answer)})

    def forget_host(self, worker: str) -> None:
        """Answers the orders of a host that has left."""
        self._certified.pop(worker, None)
        for key, (client, host) in list(self._orders.items()):
            if host == worker:
                del self._orders[key]
                self._answer(client, key, LOST)

    def forget_client(self, client: str) -> None:
        """Ends the orders of a client that has left."""
        for key, (ordered_by, _) in list(self._orders.items()):
            if ordered_by == client:
                self._pass_end(client, key)


async def _messages_of(comm: Any) -> Any:
    """Messages of a connection, until it is closed."""
    while True:
        try:
            batch = await comm.read()
        except OSError:
            return
        for each in batch if isinstance(batch, tuple) else (batch,):
            if not isinstance(each, dict) or not isinstance(each.get("op"), str):
                return
            yield each


def _check_role(peer: Peer | None, role: str) -> None:
    if peer is not None and peer.role != role:
        raise PermissionError(f"a {peer.role} may not do what a {role} does")


def _permitted(
    role: str,
    arguments: Callable[[Peer | None, dict[str, Any]], dict[str, Any]],
    call: Callable[..., Any],
) -> Callable[..., Any]:
    """A call that one role may make; without certificates, everybody may.

    Args:
        role: The role.
        arguments: Checked arguments of a call, from the caller and the given ones.
        call: The call, which receives the connection as well if it has an argument for that.
    """
    wants_comm = "comm" in signature(call).parameters

    async def permitted(comm: Any, **given: Any) -> Any:
        try:
            _check_role(comm.peer, role)
            own = arguments(comm.peer, given)
            if "versions" in own:
                # Dask compares them in a table for each client, which strange ones would prevent.
                # Versions of DLBricks are compared elsewhere.
                own = {**own, "versions": get_versions()}
        except (LookupError, PermissionError, TypeError, ValueError) as error:
            # Dask would leave the caller without an answer if the call begins a lasting connection.
            await comm.write({"status": "refused", "exception_text": str(error)})
            await comm.close()
            return Status.dont_reply
        result = call(comm, **own) if wants_comm else call(**own)
        return await result if isawaitable(result) else result

    return permitted


def serve(
    host: str, port: int, silence_s: float, say: Callable[[str], None], access: Access
) -> int:
    """Runs a scheduler until a signal ends it.

    Args:
        host: Address to listen at; empty for all with certificates, for the loopback otherwise.
        port: Port to listen at; 0 for a free one.
        silence_s: Seconds of silence after which a host counts as gone.
        say: Receives the address of the scheduler.
        access: How members reach it.

    Returns:
        Number of the signal.

    Raises:
        DLBricksError: If the port cannot be opened, the silence is too short, or the address can be
            reached from elsewhere without protection.
    """
    host = access.listening_at(host)
    if silence_s < LEAST_SILENCE_S:
        raise DLBricksError(
            f"{silence_s:g} s of silence are too few: a host sends a sign of life every "
            f"{HEARTBEAT_S:g} s",
            hint=f"Let {argument('silence_s')} be {LEAST_SILENCE_S:g} s or more.",
        )
    override(silence_s)
    with scratch():
        return asyncio.run(_serve(host, port, silence_s, say, access))


async def _serve(
    host: str, port: int, silence_s: float, say: Callable[[str], None], access: Access
) -> int:
    stopped = asked_to_stop()
    scheduler = FleetScheduler(FleetState(silence_s), access, host, port)
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
