"""Messages of a fleet, each damaged on its way: a reader for each member that receives them.

``state`` and ``answer`` reach the command of a client, from a scheduler that relays damaged ones.
``order`` reaches a host, and ``words`` a scheduler, from members that are none.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mutate_json
from dlbricks_fleet import extra
from dlbricks_fleet.access import Access
from fuzzing.drawn import Files, Reader
from fuzzing.mutations import any_bytes, export_lines

from dlbricks_core.cli.main import _LibraryLog, main
from dlbricks_core.errors import DLBricksError
from dlbricks_core.machine.system import current_system
from dlbricks_core.version import __version__

_OPEN = Access(None)
_PATIENCE_S = 3.0

_METRICS = {
    "bandwidth": {"total": 1, "workers": {}, "types": {}}, "digests_total_since_heartbeat": {},
    "memory": 0, "managed_bytes": 0, "spilled_bytes": {"memory": 0, "disk": 0}, "cpu": 0.0,
    "transfer": {}, "event_loop_interval": 0.0, "task_counts": {},
    "dlbricks": {"doing": "", "since_s": 0.0},
}  # fmt: skip


class _Raw(bytes):
    """Bytes that are sent as they are, since they are no message."""


def reader(folder: Path, measured: Files) -> Reader:
    """The reader of messages."""
    wire = extra.load("wire")
    for room in ("scheduler", "client", "worker", "run"):
        extra.load(room)
    suite = {name: content for name, content in measured.items() if name.startswith("suite/")}
    sound = _sound(measured)
    files = {**suite, **{name: wire.packed(message) for name, message in sound.items()}}

    def mutation(files: Files, rng: random.Random) -> Files:
        name = rng.choice(sorted(sound))
        return {**files, name: _changed(files[name], rng)}

    return Reader(
        "fleet",
        [files],
        mutation,
        ("status", "run", "host", "scheduler"),
        entry=lambda arguments: _ROLES[arguments[0]](),
        warm=("dlbricks_fleet.command",),
        rehearsed=False,
        together=1,
    )


def _sound(measured: Files) -> dict[str, Any]:
    """A message of each kind."""
    facts = _facts()
    manifest = json.loads(measured["suite/manifest.json"])
    signatures = [each["signature"] for each in manifest.get("bricks", ()) if "signature" in each]
    done = {
        "records": measured["export.jsonl.zst"], "budget_s": None, "failures": {}, "measured": 1,
        "bricks": [{"signature": each, "name": "Conv", "seconds": 0.1} for each in signatures],
        "unread": [{"subject": "m", "reason": "r", "part": "", "backend": "", "stage": "read",
                    "layers": 0}],
        "seconds": 1.0, "warnings": ["hot"],
    }  # fmt: skip
    order = {
        "key": "k-1", "asked": {"suite": "a" * 24, "options": {}}, "share": signatures,
        "budget_s": None, "deadline_s": 60.0,
    }  # fmt: skip
    joined = {
        "op": "register-worker", "reply": False, "address": "tcp://127.0.0.1:9",
        "status": "running", "nthreads": 1, "name": "tcp://127.0.0.1:9", "now": 0.0,
        "resources": {}, "memory_limit": 0, "local_directory": "", "services": {}, "nanny": None,
        "pid": 1, "versions": {}, "metrics": _METRICS, "extra": {"dlbricks": facts},
        "stimulus_id": "rogue", "server_id": "rogue",
    }  # fmt: skip
    host = [
        {"op": "dlbricks-greet"},
        joined,
        [{"op": "keep-alive"}, {"op": "dlbricks-answer", "key": "k-1", "answer": {"done": done}}],
        {"op": "heartbeat_worker", "address": "tcp://127.0.0.1:9", "metrics": _METRICS},
    ]
    client = [
        {"op": "identity"},
        {"op": "dlbricks-state", "client": "c", "run": {"suite": "s", "backend": "b", "bricks": 1,
         "done": 0, "left_s": None, "seconds": 1.0}},
        {"op": "register-client", "client": "c", "versions": {}, "reply": False},
        [{"op": "dlbricks-order", "key": "k-1", "host": "tcp://127.0.0.1:9", "what": "have-done",
          "given": {"order": order, "what": "times"}}, {"op": "dlbricks-cancel", "key": "k-1"}],
        {"op": "close-client", "client": "c"},
    ]  # fmt: skip
    return {
        "state": _whole_state(facts),
        "answer": {"done": done},
        "order": {"what": "have-done", "given": {"order": order, "what": "times"}},
        "suite-order": {"what": "keep-suite", "given": {
            "name": "a" * 24, "known": measured["export.jsonl.zst"],
            "files": {"manifest.json": measured["suite/manifest.json"]}}},
        "words-host": host,
        "words-client": client,
    }  # fmt: skip


def _facts() -> dict[str, Any]:
    """Facts about a host of this kind of machine."""
    return {
        "name": "one", "identity": "one", "system": current_system().to_dict(),
        "version": __version__, "backends": {"onnxruntime": "1"}, "doing": "", "since_s": 0.0,
    }  # fmt: skip


def _whole_state(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {"hosts": {"tcp://127.0.0.1:9": facts}, "gone": {}, "runs": []}


def _changed(content: bytes, rng: random.Random) -> bytes:
    """A message with one change, its records among them; seldom with other bytes."""
    wire = extra.load("wire")
    try:
        message = _listed(wire.unpacked(content))
    except (ValueError, RecursionError):
        return any_bytes(content, rng)
    if rng.random() < 0.05:
        return any_bytes(content, rng)
    if isinstance(message, dict) and rng.random() < 0.2:
        for part in (message.get("done"), message.get("given")):
            for name in ("records", "known"):
                if isinstance(part, dict) and isinstance(part.get(name), bytes):
                    part[name] = export_lines(part[name], rng)
    elif message and isinstance(message, dict | list):
        rng.choice(mutate_json._CHANGES)(message, rng)
    try:
        return wire.packed(message)
    except (OverflowError, TypeError, ValueError):  # an integer that no message can have
        return any_bytes(content, rng)


def _listed(value: Any) -> Any:
    """Plain data with lists in place of tuples, which can be changed."""
    if isinstance(value, dict):
        return {_hashable(name): _listed(each) for name, each in value.items()}
    return [_listed(each) for each in value] if isinstance(value, tuple | list) else value


def _hashable(name: Any) -> Any:
    return name if isinstance(name, str | int | bytes) else str(name)


def _read(name: str) -> Any:
    """The message of a file, or its bytes if they are none."""
    content = Path(name).read_bytes()
    try:
        return extra.load("wire").unpacked(content)
    except (ValueError, RecursionError):
        return _Raw(content)


def _send_raw() -> None:
    """Has this process send bytes that are no message."""
    wire = extra.load("wire")
    packed, spoken = wire.packed, wire._spoken
    wire.packed = lambda each: bytes(each) if isinstance(each, _Raw) else packed(each)
    wire._spoken = lambda each: each if isinstance(each, _Raw) else spoken(each)


def _scheduler(**relayed: Any) -> str:
    """Address of a scheduler, in a thread, that relays damaged messages."""
    room = extra.load("scheduler")

    class Damaged(room.FleetScheduler):  # type: ignore[name-defined, misc]
        def _pass_order(self, client: str, key: str, host: str, **order: Any) -> None:
            answer = relayed["answer"] if order["what"] == "have-done" else {"done": True}
            if isinstance(answer, _Raw):
                self.client_comms[client].send(answer)
            else:
                message = {"op": "dlbricks-answer", "key": key, "answer": answer}
                self.client_comms[client].send(message)

    class State(room.FleetState):  # type: ignore[name-defined, misc]
        async def state(self, client: str = "", run: Any = None) -> Any:
            return relayed["state"]

    begun = threading.Event()
    found: list[str] = []

    async def serve() -> None:
        scheduler = Damaged(State(60.0), _OPEN, "127.0.0.1", 0)
        await scheduler
        found.append(scheduler.address)
        begun.set()
        await asyncio.Event().wait()

    extra.load("settings").override(60.0)
    threading.Thread(target=lambda: asyncio.run(serve()), daemon=True).start()
    begun.wait(30)
    return found[0]


def _status() -> None:
    _send_raw()
    main(["fleet", "status", "--scheduler", _scheduler(state=_read("state"))])


def _run() -> None:
    _send_raw()
    run = extra.load("run")
    run.LONGEST_S = run._SLACK_S = 1.0  # seconds for a host whose answer never comes
    address = _scheduler(state=_whole_state(_facts()), answer=_read("answer"))
    given = "--backend onnxruntime --threads 1 --runs 2 --wait 1s --deadline 5s --patience 1s"
    stored = ["--store", "rogue.db", "--scheduler", address]
    main(["fleet", "run", "suite", *given.split(), *stored])


def _host() -> None:
    """Carries out damaged orders, as far as their job."""
    worker = extra.load("worker")

    def no_job(*_given: Any) -> Any:
        raise DLBricksError("no job", hint="By design.")

    worker.run_job = no_job
    host = SimpleNamespace(spool=Path("spool"), does=lambda what: None, is_wanted=lambda key: True)
    host.spool.mkdir()
    for name in ("order", "suite-order"):
        order = _read(name)
        if not isinstance(order, dict):
            continue
        given = order.get("given")
        if not isinstance(given, Mapping) or not all(isinstance(each, str) for each in given):
            continue
        call: Callable[..., Any] = worker._unknown
        if isinstance(order.get("what"), str):
            call = worker._CALLS.get(order["what"], worker._unknown)
        answer = worker._answer(call, host, given)
        if "unexpected" in repr(answer):
            sys.stderr.write(f"{answer}\nError\n")
            sys.exit(70)
    sys.exit(0)


def _words() -> None:
    """Says damaged words to a scheduler, which must serve others afterwards."""
    _send_raw()
    logging.lastResort = _LibraryLog(logging.ERROR)  # as in the command
    sys.exit(asyncio.run(_converse()))


async def _converse() -> int:
    from distributed.comm import connect

    room, wire = extra.load("scheduler"), extra.load("wire")
    extra.load("settings").override(60.0)
    scheduler = room.FleetScheduler(room.FleetState(60.0), _OPEN, "127.0.0.1", 0)
    await scheduler
    arguments = wire.security_of(_OPEN).get_connection_args("client")
    for name in ("words-host", "words-client"):
        words = _read(name)
        comm = await connect(scheduler.address, timeout=5, **arguments)
        for each in words if isinstance(words, tuple) else (words,):
            try:
                await comm.write(each)
                await asyncio.wait_for(comm.read(), 0.1)
            except (OSError, TimeoutError):
                if comm.closed():
                    comm = await connect(scheduler.address, timeout=5, **arguments)
        comm.abort()
    comm = await connect(scheduler.address, timeout=5, **arguments)
    await comm.write({"op": "dlbricks-state", "client": "sound", "run": None})
    found = await asyncio.wait_for(comm.read(), _PATIENCE_S)
    return 0 if isinstance(found, dict) and "hosts" in found else 70


_ROLES: Mapping[str, Callable[[], None]] = {
    "status": _status,
    "run": _run,
    "host": _host,
    "scheduler": _words,
}
