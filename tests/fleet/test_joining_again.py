"""A host that leaves a fleet and joins again is one host."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
from dlbricks_fleet.access import Access
from dlbricks_fleet.campaign import Campaign
from dlbricks_fleet.client import FleetClient
from dlbricks_fleet.identity import identity
from dlbricks_fleet.records import Asked, Done, Fleet, Gone, Host
from dlbricks_fleet.scheduler import FleetState
from dlbricks_fleet.shares import Priced
from dlbricks_fleet.worker import FACTS

from dlbricks_core.facts import System

SYSTEM = System(cpu="one")
HERE, AGAIN, OTHER = (
    Host(f"tcp://h:{port}", "h", SYSTEM, "1", {}, identity=known)
    for port, known in ((1, "h-a"), (2, "h-a"), (3, "h-b"))
)
DEADLINE_S = 90


def test_an_identity_lasts_and_nobody_else_has_it_meanwhile(tmp_path):
    with identity(tmp_path) as first, identity(tmp_path) as second:
        assert first != second
    with identity(tmp_path) as again:
        assert again == first


@pytest.mark.process
def test_an_identity_is_free_again_when_its_process_was_killed(tmp_path):
    program = (
        "import sys, time; from pathlib import Path; from dlbricks_fleet.identity import "
        "identity\nwith identity(Path(sys.argv[1])) as known: print(known, flush=True), "
        "time.sleep(60)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    known = process.stdout.readline().strip()
    with identity(tmp_path) as second:
        assert second != known
    process.kill()
    process.communicate()
    with identity(tmp_path) as again:
        assert again == known


def test_a_host_that_took_part_under_two_addresses_counts_once():
    campaign = Campaign(Asked("suite", {}), 120.0)
    bricks = tuple(Priced(f"{i:08x}", "MatMul", 1.0) for i in range(3))
    campaign.meet(HERE)
    campaign.done(campaign.next_for(HERE, "k").key, Done(b"", bricks))
    campaign.meet(AGAIN)
    order = campaign.next_for(AGAIN, "k")
    assert len(order.share) == 3  # one share: there is one host
    campaign.done(order.key, Done(b"", measured=3))
    assert [kind.hosts for kind in campaign.kinds] == [1]


def test_hosts_that_are_there_again_are_not_absent_and_others_are_once():
    gone = [
        Gone("tcp://h:1", "h", "it died", "h-a"),
        Gone("tcp://h:3", "h", "it died", "h-b"),
        Gone("tcp://h:4", "h", "left the fleet", "h-b"),
        Gone("tcp://old:1", "old", "left the fleet"),
    ]
    fleet = Fleet("tcp://s:1", [AGAIN], gone)
    assert [(each.address, each.reason) for each in fleet.absent] == [
        ("tcp://h:4", "left the fleet"),
        ("tcp://old:1", "left the fleet"),
    ]


def test_a_host_that_joined_again_before_dask_missed_it_is_shown_once():
    state = FleetState(silence_s=10)
    workers = {
        each.address: SimpleNamespace(
            extra={FACTS: {"name": each.name, "identity": each.identity}}, metrics={}, last_seen=0.0
        )
        for each in (HERE, OTHER, AGAIN)
    }
    scheduler = SimpleNamespace(workers=workers, clients={})
    asyncio.run(state.start(scheduler))
    for address in workers:
        state.add_worker(scheduler, address)
    shown = asyncio.run(state.state())
    assert list(shown["hosts"]) == [OTHER.address, AGAIN.address]
    assert {a: gone["reason"] for a, gone in shown["gone"].items()} == {
        HERE.address: "its host joined again"
    }


@pytest.fixture
def lonely(start):
    """Address of a scheduler of its own."""
    process = start("scheduler", "--host", "127.0.0.1", "--port", "0")
    return process.says("Scheduler at").split()[-1]


def test_a_killed_worker_that_joins_again_is_one_host_of_run_and_status(start, lonely, suite):
    def state():
        status, *_ = start("status", "--scheduler", lonely, "--json", "again.json").done()
        assert status == 0
        return json.loads((start.folder / "again.json").read_text())

    def join():
        worker = start("worker", "--scheduler", lonely, "--spool", "again")
        worker.says("Joined")
        return worker

    worker = join()
    run = start(
        "run", "suite", "--scheduler", lonely, "--backend", "onnxruntime", "--threads", "1",
        "--runs", "3", "--store", "again.db", "--json", "run.json",
    )  # fmt: skip
    watching = FleetClient(lonely, Access())
    end = time.monotonic() + DEADLINE_S
    while not watching.state().runs:  # it has met the host, which has done nothing yet
        assert time.monotonic() < end
        time.sleep(0.05)
    worker.end(signal.SIGKILL)
    watching.close()
    join()
    shown = state()
    assert len(shown["hosts"]) == 1
    assert shown["gone"] == []
    status, out, _ = run.done()
    assert status == 0, out
    data = json.loads((start.folder / "run.json").read_text())
    (host,) = data["hosts"]
    assert (host["joined"], host["gone"]) == (2, None)
    assert host["identity"] == shown["hosts"][0]["identity"]
    assert [kind["hosts"] for kind in data["kinds"]] == [1]
    assert "joined 2 times" in out
    assert max(map(len, out.splitlines())) <= 80


def test_a_host_that_leaves_takes_no_other_along(start, lonely, wait_for):
    workers = [start("worker", "--scheduler", lonely, "--spool", f"stays{i}") for i in range(2)]
    addresses = [each.says("Joined").split(" as ")[1].split(";")[0] for each in workers]
    workers[0].end(signal.SIGKILL)
    fleet = wait_for(lonely, lambda fleet: len(fleet.hosts) == 1)
    time.sleep(2)  # the other one has heard of it
    fleet = wait_for(lonely, lambda fleet: len(fleet.hosts) == 1)
    assert [host.address for host in fleet.hosts] == addresses[1:]
    assert [each.address for each in fleet.gone] == addresses[:1]
