"""Hosts on one machine behave as machines of their own."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psutil
import pytest

SERVER = """
import socketserver
class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.sendall(b"hello")
        while received := self.request.recv(100):
            self.request.sendall(received)
with socketserver.ThreadingTCPServer(("0.0.0.0", 7000), Echo) as server:
    print("listening", flush=True)
    server.serve_forever()
"""

CLIENT = """
import socket, sys
connection = socket.create_connection((sys.argv[1], 7000), timeout=2)
assert connection.recv(5) == b"hello"
print("connected", flush=True)
for number in range(10**6):
    try:
        connection.sendall(b"%09d" % number)
        received = connection.recv(9)
    except OSError as error:
        sys.exit(type(error).__name__)
    if not received:
        sys.exit("closed")
    print(number, flush=True)
"""

GREETED = """
import socket, sys
assert socket.create_connection((sys.argv[1], 7000), timeout=0.5).recv(5) == b"hello"
"""

FACTS = """
import json, os, socket
from dlbricks_core.machine.system import current_host, current_system
print(json.dumps({"host": current_host(), "name": socket.gethostname(), "pid": os.getpid(),
                  "fingerprint": current_system().fingerprint, "home": os.environ["HOME"],
                  "group": os.path.exists("/sys/fs/cgroup/memory")}))
"""


@pytest.fixture
def talking(network):
    """A server on one host and a client of it on another."""
    one, two = network.host("one"), network.host("two")
    server = one.python("-c", SERVER)
    server.wait_for("listening")
    client = two.python("-c", CLIENT, one.address)
    client.wait_for("connected")
    return one, two, server, client


def test_a_cable_that_is_put_back_connects_again(talking, hosts):
    one, two, _, client = talking
    client.kill()
    two.unplug()
    assert two.python("-c", GREETED, one.address).wait() == 1
    two.plug()
    # The kernel may still hold the other host for unreachable.
    hosts.wait_until(lambda: two.python("-c", GREETED, one.address).wait() == 0, 10)
    assert one.processes() != []


def test_who_talks_to_a_host_that_vanishes_waits_in_vain(talking):
    one, _, server, client = talking
    one.unplug()
    assert client.wait(10) == 1
    assert "TimeoutError" in client.said()
    assert server.process.poll() is None


def test_who_talks_to_a_killed_process_is_told(talking):
    _, _, server, client = talking
    server.kill()
    assert client.wait(10) == 1
    assert "closed" in client.said() or "ConnectionResetError" in client.said()


def test_a_host_that_is_switched_off_says_nothing_and_ends_what_it_ran(talking):
    one, _, server, client = talking
    one.power_off()
    assert client.wait(10) == 1
    assert "TimeoutError" in client.said()
    assert server.process.poll() is not None
    one.power_on()
    one.python("-c", SERVER).wait_for("listening")


def test_a_frozen_host_answers_once_it_thaws(network, hosts):
    one, two = network.host("one"), network.host("two")
    server = one.start("sh", "-c", f"{sys.executable} -c '{SERVER}' & wait")
    server.wait_for("listening")
    one.freeze()
    assert {each.status() for each in one.processes()} == {psutil.STATUS_STOPPED}
    # The kernel of the host takes the connection, and nobody there speaks.
    client = two.python("-c", CLIENT, one.address)
    assert client.wait(20) == 1
    assert "TimeoutError" in client.said()
    one.thaw()
    two.python("-c", CLIENT, one.address).wait_for("connected")
    server.kill()
    assert server.wait(10) != 0


def test_each_host_is_another_machine(network):
    found = {}
    for host in (network.host("one"), network.host("two"), network.host("three", {0})):
        told = host.python("-c", FACTS)
        assert told.wait() == 0, told.said()
        found[host.name] = json.loads(told.out.read_text())
    one, two, three = found["one"], found["two"], found["three"]
    assert [each["name"] for each in (one, two, three)] == ["one", "two", "three"]
    assert len({each["host"] for each in found.values()}) == 3
    assert len({each["home"] for each in found.values()}) == 3
    assert one["fingerprint"] == two["fingerprint"]
    if len(os.sched_getaffinity(0)) > 1:
        assert three["fingerprint"] != one["fingerprint"]


def test_nothing_stays_when_the_tests_are_killed(hosts, tmp_path):
    script = textwrap.dedent(f"""
        import sys, time
        sys.path.insert(0, {str(Path(hosts.__file__).parent)!r})
        import hosts
        network = hosts.Network({str(tmp_path)!r})
        one, two = network.host("one"), network.host("two")
        one.start("setsid", "sleep", "1234")
        hosts.wait_until(one.processes)
        two.start("setsid", "sleep", "1234")
        hosts.wait_until(two.processes)
        one.freeze()
        print(*(each.pid for host in network.hosts for each in host.processes()), flush=True)
        time.sleep(600)
    """)
    tests = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    processes = [psutil.Process(int(pid)) for pid in tests.stdout.readline().split()]
    assert len(processes) >= 2
    tests.send_signal(signal.SIGKILL)
    tests.wait()
    end = time.monotonic() + 10
    while any(each.is_running() for each in processes) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(each.is_running() for each in processes)


def test_a_host_that_was_killed_reaps_orphans(network, hosts):
    one = network.host("one")
    orphaned = one.start("sh", "-c", "sleep 0.1 & exec sleep 60")
    hosts.wait_until(lambda: len(one.processes()) == 2)
    orphaned.kill()
    assert orphaned.wait(5) != 0
    hosts.wait_until(lambda: not one.processes(), 5)
    assert one.processes() == []
