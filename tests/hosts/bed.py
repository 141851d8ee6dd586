"""A fleet on hosts of one machine: a scheduler, three equal hosts with workers, a desk, a database.

Whoever uses ``dlbricks fleet`` sits at the desk. The result store is a PostgreSQL server. Each of
these is a host of its own.
"""

import itertools
import sqlite3
from contextlib import closing
from typing import NamedTuple

import numpy as np
import onnx
from dlbricks_fleet.certificates import make
from dlbricks_suite import generate
from hosts import wait_until
from onnx import TensorProto, helper, numpy_helper

from dlbricks_core.store import ResultStore

BRICKS = 6
RUNS = 60
SILENCE_S = 10
_MEASURED = ("--backend", "onnxruntime", "--threads", "1")

_ASKED = """
import json, sys
from pathlib import Path
from dlbricks_fleet import extra
from dlbricks_fleet.access import Access
from dlbricks_fleet.report import fleet_data

client, fleet = extra.load("client"), None
for line in sys.stdin:
    try:
        fleet = fleet or client.FleetClient(sys.argv[1], Access(Path(sys.argv[2])))
        told = fleet_data(fleet.state())
    except (client.LostError, OSError):
        fleet = told = None
    print(json.dumps(told), flush=True)
"""
"""Answers what ``fleet status --json`` writes; null if somebody is lost meanwhile. One process that
stays takes a hundredth of the time of a command for each question."""

_ROUNDS = """
SELECT m.signature, m.system, o.session, o.round, o.taken_at
FROM observations o JOIN measurements m ON m.id = o.measurement_id
WHERE m.kind = 'brick' AND m.quantity = 'latency'
"""


class Round(NamedTuple):
    """Values that were taken together, of one brick."""

    signature: str
    system: str
    session: str
    number: int
    taken_at: str


class Bed:
    """The fleet's hosts, and what runs on them.

    Args:
        network: Network of the hosts.
        server: PostgreSQL server on one of them.

    Attributes:
        hub: Host of the scheduler.
        desk: Host of the user.
        workers: Hosts with a worker.
        scheduler: Command of the scheduler.
        joined: Command of each worker by its host's name.
    """

    def __init__(self, network, server):
        self.server = server
        self.hub, self.desk = network.host("hub"), network.host("desk")
        self.workers = [network.host(name) for name in ("one", "two", "three")]
        self.address = f"tls://{self.hub.address}:8786"
        self.keys = network.folder / "keys"
        make(self.keys, ["one", "two", "three", "small"])
        self._ask = self.desk.answering(_ASKED, self.address, str(self.keys / "client"))
        self.scheduler, self.joined = None, {}
        self._numbers = itertools.count()
        self._template = server.create()
        # These tests reach no host by its address: the server's socket is a file.
        ResultStore.open(f"{self._template}?host={server.folder}").close()

    def restore(self):
        """Brings the fleet to its usual state: a scheduler, and three hosts that do nothing."""
        if not _runs(self.scheduler):
            self.start_scheduler()
        for host in self.workers:
            if not _runs(self.joined.get(host.name)):
                self.join(host)
        self.wait_for_hosts(len(self.workers))

    def start_scheduler(self):
        """Starts the scheduler, for which a host is gone after a short silence."""
        self.scheduler = self._dlbricks(
            self.hub, "fleet", "scheduler", "--host", self.hub.address, "--silence", SILENCE_S,
            "--certificates", self.keys / "scheduler",
        )  # fmt: skip

    def join(self, host):
        """Starts the worker of a host."""
        self.joined[host.name] = self._dlbricks(
            host, "fleet", "worker", "--scheduler", self.address,
            "--certificates", self.keys / "hosts" / host.name,
        )  # fmt: skip

    def wait_for_hosts(self, number, timeout_s=180):
        """Waits until so many hosts do nothing, and no run goes on."""
        wait_until(lambda: self._rests(number), timeout_s, interval_s=0.25)

    def _rests(self, number):
        told = self.status()
        return (told is not None and len(told["hosts"]) == number and not told["runs"]
                and not any(each["doing"] for each in told["hosts"]))  # fmt: skip

    def status(self):
        """What ``fleet status`` tells; ``None`` if no scheduler answers."""
        return self._ask("")

    def suite(self):
        """A new suite, whose bricks no host has ever seen."""
        number = next(self._numbers)
        widths = [256 + 8 * (each + BRICKS * number) for each in range(BRICKS + 1)]
        path = self.desk.folder / f"layers{number}.onnx"
        onnx.save(_products(widths), path)
        folder = self.desk.folder / f"suite{number}"
        generate([str(path)], folder, granularity=1)
        return folder

    def run(self, suite, url, *more):
        """Starts a run of a suite whose results go to a database."""
        return self._dlbricks(self.desk, "fleet", "run", suite, "--scheduler", self.address,
                              "--certificates", self.keys / "client",
                              "--store", url, *_MEASURED, "--runs", RUNS, *more)  # fmt: skip

    def bench(self, host, suite, path):
        """Starts a measurement on a host that is not part of the fleet, and lasts for long."""
        return self._dlbricks(host, "suite", "time", suite, "--store", path, *_MEASURED,
                              "--runs", 10**6)  # fmt: skip

    def database(self):
        """URL of a new result store."""
        return self.server.create(template=self._template.rpartition("/")[2])

    def rounds(self, url):
        """Rounds of all bricks in a database."""
        return [Round(*each) for each in self.server.execute(_ROUNDS, of=url)]

    def spooled(self, host):
        """Rounds of all bricks that a host keeps."""
        return self.rounds_in(_spool(host))

    def rounds_in(self, path):
        """Rounds of all bricks in a store that is a file; none where it is not there yet."""
        return [Round(*each) for each in _asked(path, _ROUNDS)]

    def wait_until_measuring(self, *hosts):
        """Waits until each of some hosts has measured something new."""
        hosts = hosts or self.workers
        before = {host: self._number(host) for host in hosts}
        wait_until(lambda: all(self._number(host) > before[host] for host in hosts))

    def _number(self, host):
        """Number of rounds of all bricks that a host keeps; they are many in the end."""
        return sum(
            number for (number,) in _asked(_spool(host), f"SELECT count(*) FROM ({_ROUNDS})")
        )

    def _dlbricks(self, host, *words):
        # Hosts have a lock each, as machines have: they measure at the same time.
        return host.python("-m", "dlbricks_core.cli", *words,
                           DLBRICKS_TURNS="/run/lock/turns", COLUMNS="80")  # fmt: skip


def _spool(host):
    return host.folder / "data" / "dlbricks" / "fleet" / "results.db"


def _asked(path, statement):
    """Rows of a store that is a file; none where it is not there yet."""
    if not path.exists():
        return []
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as store:
        try:
            return store.execute(statement).fetchall()
        except sqlite3.OperationalError:  # it is being made
            return []


def _runs(command):
    return command is not None and command.process.poll() is None


def _products(widths):
    """A model of matrix products, each of other sizes than all others."""
    nodes, weights, last = [], [], "input"
    for each, (rows, columns) in enumerate(itertools.pairwise(widths)):
        weight = np.zeros((rows, columns), np.float32)
        weights.append(numpy_helper.from_array(weight, f"weight{each}"))
        nodes.append(helper.make_node("MatMul", [last, f"weight{each}"], [f"product{each}"]))
        last = f"product{each}"
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [64, width])
            for name, width in (("input", widths[0]), (last, widths[-1]))]  # fmt: skip
    graph = helper.make_graph(nodes, "products", ends[:1], ends[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
