"""Members of a fleet trust each other no further than the guide says."""

from __future__ import annotations

import asyncio
import os
import pickle
import ssl
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
from dlbricks_fleet import extra
from dlbricks_fleet.access import Access
from dlbricks_fleet.certificates import make, peer_of

from dlbricks_core.errors import DLBricksError
from dlbricks_core.facts import System
from dlbricks_core.version import __version__

client_room, wire = extra.load("client"), extra.load("wire")
calls = extra.load("calls")

from distributed.comm import connect  # noqa: E402 - after Dask's settings are overridden
from distributed.comm.registry import backends  # noqa: E402
from distributed.comm.tcp import TCPBackend, TLSBackend  # noqa: E402


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    """Folder of the certificates of a fleet, and beside it that of another fleet."""
    folder = tmp_path_factory.mktemp("keys")
    make(folder / "own", ["one", "two"])
    make(folder / "other", ["one"])
    return folder


@pytest.fixture(scope="module")
def protected(start, keys):
    """Address of a scheduler with certificates."""
    process = start(
        "scheduler", "--host", "127.0.0.1", "--port", "0",
        "--certificates", keys / "own" / "scheduler",
    )  # fmt: skip
    return process.says("Scheduler at").split()[-1]


@pytest.fixture(scope="module")
def certified(start, protected, keys):
    """Address of a host with a certificate."""
    process = start(
        "worker", "--scheduler", protected, "--spool", "certified",
        "--certificates", keys / "own" / "hosts" / "one",
    )  # fmt: skip
    return process.says("Joined").split(" as ")[1].split(";")[0]


def talk(address, folder, converse):
    """What a conversation with a scheduler returns, from a member that has these certificates."""

    async def run():
        access = Access(folder)
        arguments = wire.security_of(access).get_connection_args("client")
        comm = await connect(address, timeout=5, **arguments)
        try:
            return await converse(comm)
        finally:
            comm.abort()

    return asyncio.run(run())


def join(comm, name="rogue", system=None):
    """The message with which a host joins."""
    facts = {
        "name": name, "identity": name, "version": __version__, "backends": {},
        "system": (system or System(cpu="a rogue's")).to_dict(),
    }  # fmt: skip
    return {
        "op": "register-worker", "reply": False, "address": comm.local_address,
        "status": "running", "nthreads": 1, "name": comm.local_address, "now": time.time(),
        "resources": {}, "memory_limit": 0, "local_directory": "", "services": {}, "nanny": None,
        "pid": 1, "versions": {}, "metrics": METRICS, "extra": {"dlbricks": facts},
        "stimulus_id": "rogue", "server_id": "rogue",
    }  # fmt: skip


METRICS = {
    "bandwidth": {"total": 1, "workers": {}, "types": {}}, "digests_total_since_heartbeat": {},
    "memory": 0, "managed_bytes": 0, "spilled_bytes": {"memory": 0, "disk": 0}, "cpu": 0.0,
    "transfer": {}, "event_loop_interval": 0.0, "task_counts": {},
}  # fmt: skip


def test_a_certificate_states_role_and_name_and_only_the_scheduler_serves(keys):
    for folder, role, name in [
        ("scheduler", "scheduler", "scheduler"), ("client", "client", "client"),
        ("hosts/two", "host", "two"),
    ]:  # fmt: skip
        place = keys / "own" / folder
        decoded = ssl._ssl._test_decode_cert(str(place / "certificate.pem"))
        assert peer_of(decoded) == (found := peer_of(decoded))
        assert (found.role, found.name) == (role, name)
        assert (place / "key.pem").stat().st_mode & 0o077 == 0


def test_certificates_that_are_there_stay_and_hosts_are_added(tmp_path):
    make(tmp_path, ["one"])
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.pem")}
    assert make(tmp_path, ["one", "two"]) == [tmp_path / "hosts" / "two"]
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.parametrize("name", ["", "..", "a/b", "a b", "é", "-", "x" * 41])
def test_names_of_hosts_that_are_no_names_are_refused(tmp_path, name):
    with pytest.raises(DLBricksError, match="not a valid name"):
        make(tmp_path, [name])
    assert not list(tmp_path.iterdir())


def test_a_host_with_its_certificate_joins_under_its_certified_name(protected, certified, keys):
    client = client_room.FleetClient(protected, Access(keys / "own" / "client"))
    try:
        (host,) = client.state().hosts
    finally:
        client.close()
    assert (host.address, host.name, host.certified) == (certified, "one", True)
    assert host.identity.startswith("one/")


@pytest.mark.parametrize(
    ("folder", "words"),
    [
        ("other/hosts/one", "the other end has no certificate as the scheduler"),
        (None, "needs certificates"),
    ],
)
@pytest.mark.parametrize("command", ["worker", "status"])
def test_a_wrong_certificate_and_none_are_one_line(start, protected, keys, command, folder, words):
    given = ("--certificates", keys / folder) if folder else ()
    status, _, err = start(command, "--scheduler", protected, *given).done()
    assert status == 2
    assert words in err
    assert len(err.splitlines()) <= 4


def test_a_member_of_another_fleet_that_checks_nothing_is_refused(protected, keys):
    async def naive():
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        place = keys / "other" / "hosts" / "one"
        context.load_cert_chain(place / "certificate.pem", place / "key.pem")
        comm = await connect(protected, timeout=5, ssl_context=context)
        return await comm.read()

    with pytest.raises(OSError, match=r"refuses the certificate|closes it at once"):
        asyncio.run(naive())


def test_a_host_that_poses_as_the_scheduler_is_found_out(start, keys):
    # It has a certificate of this fleet, and could read orders or answers otherwise.
    posing = start(
        "scheduler", "--host", "127.0.0.1", "--port", "0",
        "--certificates", keys / "own" / "hosts" / "one",
    )  # fmt: skip
    address = posing.says("Scheduler at").split()[-1]
    for command, role in (("worker", "hosts/two"), ("status", "client")):
        status, _, err = start(
            command, "--scheduler", address, "--certificates", keys / "own" / role
        ).done()
        assert status == 2
        assert "the other end has no certificate as the scheduler" in err


@pytest.mark.parametrize(
    ("role", "call"),
    [
        ("hosts/two", {"op": "dlbricks-state", "client": "c", "run": None}),
        ("hosts/two", {"op": "register-client", "client": "c", "versions": {}}),
        ("client", {"op": "heartbeat_worker", "address": "tls://a:1", "metrics": METRICS}),
    ],
    ids=lambda each: each["op"] if isinstance(each, dict) else each.replace("/", "-"),
)
def test_each_role_makes_its_own_calls_only(protected, keys, role, call):
    async def converse(comm):
        await comm.write(call)
        return await comm.read()

    with pytest.raises(wire.PeerError, match="may not do what a"):
        talk(protected, keys / "own" / role, converse)


@pytest.mark.parametrize(("command", "role"), [("worker", "client"), ("status", "hosts/two")])
def test_certificates_of_another_role_are_one_line(start, protected, keys, command, role):
    place = keys / "own" / role
    status, _, err = start(command, "--scheduler", protected, "--certificates", place).done()
    assert status == 2
    assert f"the scheduler at {protected} refuses: a" in err


def test_a_host_cannot_speak_for_another(protected, certified, keys):
    async def converse(comm):
        beat = {"op": "heartbeat_worker", "address": certified, "metrics": METRICS}
        await comm.write(beat)
        return await comm.read()

    with pytest.raises(wire.PeerError, match=r"is not an address of two"):
        talk(protected, keys / "own" / "hosts" / "two", converse)


def test_a_host_cannot_take_another_name_after_it_has_joined(protected, keys):
    async def converse(comm):
        facts = {"name": "one", "identity": "one/1", "certified": True, "doing": "waits"}
        await comm.write({**join(comm), "metrics": {**METRICS, "dlbricks": facts}})
        assert (await comm.read())["status"] == "OK"
        return await asyncio.to_thread(hosts_at, protected, Access(keys / "own" / "client"))

    (rogue,) = (each for each in talk(protected, keys / "own" / "hosts" / "two", converse).hosts
                if each.doing == "waits")  # fmt: skip
    assert (rogue.name, rogue.identity, rogue.certified) == ("two", "two/rogue", True)


def hosts_at(address, access):
    client = client_room.FleetClient(address, access)
    try:
        return client.state()
    finally:
        client.close()


@pytest.mark.parametrize(
    ("facts", "metrics"),
    [
        ({"system": {"cpu": 5}}, {}),
        ({"system": "x"}, {}),
        ({"system": {"fingerprint": b"x"}}, {}),
        ({"backends": 3}, {}),
        ({"name": b"x"}, {}),
        ({"version": None}, {}),
        ({}, {"since_s": "long"}),
        ({}, {"since_s": -1e300}),
        ({}, {"doing": ["x"]}),
        ([1], {}),
        ("text", {}),
    ],
    ids=repr,
)
def test_a_host_with_malformed_facts_leaves_the_others_there(scheduler, hosts, facts, metrics):
    """One host could end the commands of all clients otherwise."""

    async def converse(comm):
        message = join(comm)
        own = {**message["extra"]["dlbricks"], **facts} if isinstance(facts, dict) else facts
        told = {**METRICS, "dlbricks": metrics}
        await comm.write({**message, "extra": {"dlbricks": own}, "metrics": told})
        assert (await comm.read())["status"] == "OK"
        return await asyncio.to_thread(hosts_at, scheduler, Access(None)), comm.local_address

    state, rogue = talk(scheduler, None, converse)
    assert set(hosts) <= {each.address for each in state.hosts}
    assert rogue not in {each.address for each in state.hosts}
    (why,) = (each.reason for each in state.gone if each.address == rogue)
    assert why.startswith("its facts are malformed")


@pytest.mark.parametrize("versions", [{"packages": 5}, {"packages": {"a": {}}}, 5, {"b": 1}])
def test_strange_versions_of_a_host_keep_no_client_out(scheduler, recwarn, versions):
    async def converse(comm):
        await comm.write({**join(comm), "versions": versions})
        assert (await comm.read())["status"] == "OK"
        return await asyncio.to_thread(hosts_at, scheduler, Access(None))

    assert "rogue" in {each.name for each in talk(scheduler, None, converse).hosts}
    assert not [each for each in recwarn if "ersion" in str(each.message)]


@pytest.mark.parametrize("run", [{"suite": 1}, {"x": "y"}, [1], "text"])
def test_a_client_with_a_malformed_run_leaves_the_others_there(scheduler, run):
    async def converse(comm):
        await comm.write({"op": "register-client", "client": "rogue", "versions": {}})
        await comm.read()
        asking = await connect(scheduler, timeout=5)
        await asking.write({"op": calls.STATE, "client": "rogue", "run": run, "reply": True})
        told = await asking.read()
        asking.abort()
        return told, await asyncio.to_thread(hosts_at, scheduler, Access(None))

    told, state = talk(scheduler, None, converse)
    assert len(told["runs"]) == 1
    assert state.runs == []


class Trap:
    """An object whose unpickling creates a file."""

    def __init__(self, path):
        self._path = path

    def __reduce__(self):
        return os.mkdir, (str(self._path),)


def framed_pickle(trap):
    """Bytes of a message as Dask sends it, with a pickle in it."""
    from distributed.protocol import ToPickle, dumps
    from distributed.protocol.utils import pack_frames

    return pack_frames(dumps({"op": "identity", "more": ToPickle(trap)}))


def test_dask_itself_would_spring_the_trap(tmp_path):
    from distributed.protocol import loads
    from distributed.protocol.utils import unpack_frames

    path = tmp_path / "sprung"
    # What is declared to be accepted does not keep it from that.
    loads(unpack_frames(framed_pickle(Trap(path))), deserializers=["msgpack"])
    assert path.is_dir()


@pytest.mark.parametrize("op", ["run_function", "broadcast", "update-graph", "scatter", "proxy",
                                "register_scheduler_plugin", "gather", "feed"])  # fmt: skip
def test_calls_of_dask_that_run_functions_do_not_exist(scheduler, tmp_path, op):
    path = tmp_path / "sprung"
    trap = pickle.dumps(Trap(path))

    async def converse(comm):
        await comm.write({"op": op, "function": trap, "plugin": trap, "setup": trap})
        return await comm.read()

    assert talk(scheduler, None, converse) is None
    assert not path.exists()


def sized(data):
    """Bytes of a message as members of a fleet send it."""
    return wire._SIZE.pack(len(data)) + data


@pytest.mark.parametrize(
    "message",
    [
        framed_pickle,
        lambda trap: sized(framed_pickle(trap)),
        lambda trap: sized(pickle.dumps(trap)),
        lambda trap: sized(wire.packed({"op": "identity", "more": pickle.dumps(trap)})),
    ],
    ids=["as Dask sends it", "of Dask", "pickle", "pickle in a message"],
)
def test_a_scheduler_and_a_host_unpickle_nothing(scheduler, hosts, tmp_path, message):
    for address in (scheduler, hosts[0]):
        path = tmp_path / "sprung"

        async def converse(comm, path=path):
            await comm.stream.write(message(Trap(path)))
            with suppress(OSError):
                return await comm.read()

        talk(address, None, converse)
        assert not path.exists()


def test_nobody_calls_a_host(hosts, tmp_path):
    path = tmp_path / "sprung"

    async def converse(comm):
        await comm.write({"op": "run", "function": pickle.dumps(Trap(path))})
        return await comm.read()

    assert talk(hosts[0], None, converse) is None
    assert not path.exists()


@pytest.mark.parametrize(
    "answer",
    [
        lambda trap: {"done": trap},
        lambda trap: {"done": {"records": trap, "bricks": (), "budget_s": None, "failures": {},
                               "unread": (), "measured": 0, "seconds": 0.0, "warnings": ()}},
        lambda trap: {"error": trap},
        lambda trap: {"error": {"kind": trap, "message": trap, "hint": trap}},
        lambda trap: {"status": "error", "exception": trap, "traceback": trap},
        lambda trap: {"type": trap},
    ],
    ids=["done", "records", "error", "kind", "exception", "type"],
)  # fmt: skip
def test_a_pickle_of_a_rogue_host_runs_no_code_on_the_client(start, suite, tmp_path, answer):
    """The rogue joins, and answers each order with pickles wherever bytes may be."""
    address = start("scheduler", "--host", "127.0.0.1", "--port", "0")
    address = address.says("Scheduler at").split()[-1]
    path = tmp_path / "sprung"
    trap = pickle.dumps(Trap(path))
    received = []

    async def converse(comm):
        await comm.write(join(comm))
        assert (await comm.read())["status"] == "OK"
        run = start("run", "suite", "--scheduler", address, "--backend", "onnxruntime",
                    "--threads", "1", "--runs", "2", "--store", f"{tmp_path}/rogue.db",
                    "--wait", "1s", "--deadline", "5s")  # fmt: skip
        done = asyncio.create_task(asyncio.to_thread(run.done))
        while not done.done():
            reading = asyncio.create_task(comm.read())
            await asyncio.wait({reading, done}, return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                reading.cancel()
                break
            for message in reading.result():
                if message["op"] == calls.ORDER:
                    received.append(message)
                    # What looks like a message of Dask to a client comes along.
                    await comm.write([
                        {"op": calls.ANSWER, "key": message["key"], "answer": answer(trap)},
                    ])  # fmt: skip
        return await done

    status, out, err = talk(address, None, converse)
    assert received
    assert status in (2, 3), out + err
    assert "rogue" in err
    assert not path.exists()
    # It has seen the suite and the options of timing, and no store.
    assert "rogue.db" not in repr(received)


@pytest.fixture
def rogue_scheduler():
    """Starts a scheduler that answers calls, and sends its clients, what it was given."""
    scheduler_room = extra.load("scheduler")

    def begin(reply=None, sent=None):
        class State(scheduler_room.FleetState):
            async def state(self, **given):
                return await super().state(**given) if reply is None else reply

        class Rogue(scheduler_room.FleetScheduler):
            def _pass_order(self, client, **_order):
                self.client_comms[client].send(sent)

        async def serve():
            scheduler = Rogue(State(60.0), Access(None), "127.0.0.1", 0)
            await scheduler
            found.append(scheduler.address)
            begun.set()
            await asyncio.Event().wait()

        found, begun = [], threading.Event()
        threading.Thread(target=lambda: asyncio.run(serve()), daemon=True).start()
        assert begun.wait(30)
        return found[0]

    extra.load("settings").override(60.0)
    return begin


def test_the_reply_of_a_rogue_scheduler_is_not_unpickled(rogue_scheduler, tmp_path):
    """Dask unpickles the exception of a call that failed."""
    trap = pickle.dumps(Trap(tmp_path / "sprung"))
    address = rogue_scheduler({"status": "uncaught-error", "exception": trap, "traceback": trap})
    with pytest.raises(DLBricksError):
        client_room.FleetClient(address, Access(None))
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize(
    "sent",
    [
        lambda trap: {"status": "error", "exception": trap, "traceback": trap},
        lambda trap: {"status": b"error", "exception": trap},
        lambda trap: trap,
        lambda trap: {"key": trap},
        lambda trap: {"op": [trap]},
    ],
    ids=["error", "status of bytes", "bytes", "no call", "a list as a call"],
)
def test_what_a_rogue_scheduler_sends_a_client_is_not_unpickled(rogue_scheduler, tmp_path, sent):
    """An error of Dask, or no message: the call is lost, and the client ends without an error."""
    trap = pickle.dumps(Trap(tmp_path / "sprung"))
    client = client_room.FleetClient(rogue_scheduler(sent=sent(trap)), Access(None))
    host = SimpleNamespace(address="tcp://127.0.0.1:9")
    call = client.submit(host, "k", "have-done", {})
    end = time.monotonic() + 20
    while call.answer is None and time.monotonic() < end:
        time.sleep(0.02)
    client.close()
    assert not (tmp_path / "sprung").exists()
    assert call.is_lost


def test_all_connections_of_this_process_carry_plain_data():
    for scheme, original in (("tcp", TCPBackend), ("tls", TLSBackend)):
        backend = backends[scheme]
        assert type(backend) is not original
        for made in (backend._connector_class, backend._listener_class):
            assert issubclass(made.comm_class, wire._Plain)


@pytest.mark.parametrize("value", [Path("x"), object(), {"a": {"b": System()}}, 1j])
def test_what_is_not_plain_is_not_sent(value):
    with pytest.raises(TypeError):
        wire.packed(value)


@pytest.mark.parametrize("data", [b"\x81\x81\x01\x02\x03", b"\x81", b"\xc1", b"\x91" * 2000])
def test_bytes_that_are_no_message_are_one_error(data):
    """A key that is a mapping, an end that is missing, a code that is unused, depth."""
    with pytest.raises(ValueError):
        wire.unpacked(data)
