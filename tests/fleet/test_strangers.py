"""What else listens at the scheduler's address is found out in seconds, and said."""

from __future__ import annotations

import asyncio
import re
import socket
import struct
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from dlbricks_fleet import extra
from dlbricks_fleet.access import Access
from dlbricks_fleet.certificates import make
from tornado.tcpclient import TCPClient

from dlbricks_core.errors import DLBricksError

client, wire, worker = (extra.load(room) for room in ("client", "wire", "worker"))

LIMIT_S = 60


@contextmanager
def silent():
    """A server that accepts connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@contextmanager
def spoken(says):
    """A server that says something and waits."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        kept = []

        def accept():
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                kept.append(connection)
                connection.sendall(says)
                if not says:
                    connection.close()

        threading.Thread(target=accept, daemon=True).start()
        yield server.getsockname()[1]


@contextmanager
def http():
    """A server of HTTP."""

    class Quiet(BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


STRANGERS = {
    "silent": (silent, "sends nothing for 3 s", "sends nothing for 3 s"),
    "http": (http, "an HTTP server answers there", "something answers there, but without TLS"),
    "ssh": (lambda: spoken(b"SSH-2.0-OpenSSH_9.2\r\n"), "begins with 'SSH-2.0-Open", "without TLS"),
    "closing": (lambda: spoken(b""), "closes it at once", "(closes it at once|without TLS)"),
}


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    make(folder, ["one"])
    return folder


@pytest.fixture
def hasty(monkeypatch, request):
    """Waits a tenth of the usual seconds for others that say nothing, and tries for a few."""
    monkeypatch.setattr(client, "_TRY_S", 4.0)
    if request.node.callspec.params["stranger"] == "silent":
        monkeypatch.setattr(wire, "LIMIT_S", 0.3)


def client_of(address, access):
    client.FleetClient(address, access)


def worker_of(address, access):
    asyncio.run(worker._reached(address, access, 0.0, lambda line: None))


@pytest.mark.parametrize("member", [client_of, worker_of])
@pytest.mark.parametrize("scheme", ["tcp", "tls"])
@pytest.mark.parametrize("stranger", STRANGERS)
def test_each_member_finds_out_what_a_stranger_is(hasty, keys, stranger, scheme, member):
    server, plain, encrypted = STRANGERS[stranger]
    role = {client_of: "client", worker_of: "hosts/one"}[member]
    access = Access(keys / role) if scheme == "tls" else Access()
    with server() as port:
        address = f"{scheme}://127.0.0.1:{port}"
        with pytest.raises(DLBricksError) as caught:
            member(address, access)
    assert re.search(plain if scheme == "tcp" else encrypted, str(caught.value))
    assert address in str(caught.value)


@pytest.mark.parametrize("ends", [ConnectionResetError(104, "reset"), None], ids=["reset", "end"])
@pytest.mark.parametrize("member", [client_of, worker_of])
def test_an_end_that_closes_before_the_connection_is_used_is_named(monkeypatch, ends, member):
    connect = TCPClient.connect

    async def closed(self, *args, **arguments):
        stream = await connect(self, *args, **arguments)
        stream.close(exc_info=ends or False)
        return stream

    monkeypatch.setattr(TCPClient, "connect", closed)
    with silent() as port, pytest.raises(DLBricksError, match="closes it at once"):
        member(f"tcp://127.0.0.1:{port}", Access())


@pytest.mark.parametrize(
    "says",
    [
        b"",
        struct.pack("!Q", 5),
        struct.pack("!Q", 2**36) + b"few",
        struct.pack("!Q", 2**40),
        struct.pack("!Q", 1) + b"\xc1",
    ],
    ids=["nothing", "size", "few of many", "too many", "no message"],
)
@pytest.mark.parametrize("member", [client_of, worker_of])
def test_an_end_that_begins_as_a_member_and_stops_is_named(monkeypatch, says, member):
    monkeypatch.setattr(client, "_TRY_S", 2.0)
    monkeypatch.setattr(wire, "LIMIT_S", 0.5)
    words = "something begins as a scheduler does, and sends (no message|bytes that are no message)"
    with spoken(wire.PREFACE + says) as port, pytest.raises(DLBricksError, match=words):
        member(f"tcp://127.0.0.1:{port}", Access())


@pytest.mark.parametrize(
    ("command", "stranger", "scheme"),
    [("status", "silent", "tls"), ("worker", "silent", "tcp"), ("worker", "closing", "tls")],
)
def test_a_stranger_at_the_address_is_one_line_within_seconds(
    start, keys, command, stranger, scheme
):
    server, plain, encrypted = STRANGERS[stranger]
    role = {"status": "client", "worker": "hosts/one"}[command]
    given = ("--certificates", keys / role) if scheme == "tls" else ()
    more = ("--patience", "1s", "--spool", "strangers") if command == "worker" else ()
    with server() as port:
        address = f"{scheme}://127.0.0.1:{port}"
        begin = time.monotonic()
        status, _, err = start(command, "--scheduler", address, *given, *more).done()
        assert time.monotonic() - begin < LIMIT_S
    assert status == 2
    assert re.search(plain if scheme == "tcp" else encrypted, " ".join(err.split())), err
    assert address in err
    assert "Traceback" not in err


def test_a_member_without_tls_and_a_scheduler_with_it_find_each_other_out(start, keys):
    scheduler = start("scheduler", "--host", "127.0.0.1", "--port", "0",
                      "--certificates", keys / "scheduler")  # fmt: skip
    address = scheduler.says("Scheduler at").split()[-1]
    plain = address.replace("tls://", "tcp://")
    status, _, err = start("status", "--scheduler", plain).done()
    assert status == 2
    assert f"{plain}: something accepts the connection and closes it at once" in err


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Access().listening_at("0.0.0.0"), "can be reached from other machines"),
        (lambda: Access().listening_at("192.0.2.1"), "can be reached from other machines"),
        (lambda: Access().check_scheduler("tcp://192.0.2.1:8786"), "can be reached from other"),
        (lambda: Access().check_scheduler("tls://192.0.2.1:8786"), "needs certificates"),
        (lambda: Access(insecure=True).check_scheduler("tls://h:1"), "needs certificates"),
    ],
)
def test_nothing_leaves_this_machine_in_plain_text_unasked(call, words):
    with pytest.raises(DLBricksError, match=words):
        call()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("scheduler", "--host", "192.0.2.1"), "can be reached from other machines"),
        (("worker", "--scheduler", "tcp://192.0.2.1:8786"), "can be reached from other machines"),
        (("worker", "--scheduler", "tcp://127.0.0.1:9", "--host", "192.0.2.1"), "can be reached"),
        (("status", "--scheduler", "tcp://192.0.2.1:8786"), "can be reached from other machines"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, tuple) else None,
)
def test_each_command_asks_before_plain_text_leaves_this_machine(start, arguments, words):
    status, _, err = start(*arguments).done()
    assert status == 2
    assert words in err


def test_certificates_and_no_protection_exclude_each_other(start, keys):
    given = ("--certificates", keys / "client")
    arguments = ("--scheduler", "tls://127.0.0.1:9", "--insecure", *given)
    status, _, err = start("status", *arguments).done()
    assert status == 2
    assert "exclude each other" in err
    with pytest.raises(DLBricksError, match="is not encrypted, in spite of"):
        Access(keys / "client").check_scheduler("tcp://127.0.0.1:9")
    with pytest.raises(DLBricksError, match=r"lacks authority\.pem"):
        Access(keys / "hosts")
