"""A scheduler that is lost for longer than Dask's client tries costs a run nothing."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest
from dlbricks_fleet.access import Access
from dlbricks_fleet.client import Call, FleetClient, LostError
from dlbricks_fleet.records import Done, Fleet, Host
from dlbricks_fleet.run import Command, _Runner
from dlbricks_fleet.shares import Priced

from dlbricks_core.facts import System
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore
from dlbricks_core.version import __version__

HERE = Host("tcp://h:1", "h", System(cpu="one"), __version__, {}, identity="h-a")


@pytest.fixture
def given_up(scheduler):
    """A client that Dask has closed, as it does after some seconds without an answer."""
    client = FleetClient(scheduler, Access())
    waiting = client.submit(HERE, "waiting", "keep-suite", {})
    client._client.sync(client._client._close)
    yield client, waiting
    client.close()


def test_a_client_that_dask_has_closed_says_that_the_scheduler_is_lost(given_up):
    client, waiting = given_up
    with pytest.raises(LostError, match="does not answer"):
        client.submit(HERE, "new", "keep-suite", {})
    with pytest.raises(LostError, match="does not answer"):
        client.state()
    client.cancel(waiting)  # the host knows


class GivenUp:
    """A client whose scheduler is lost."""

    def submit(self, *_):
        raise LostError("the scheduler does not answer")


def test_work_that_a_lost_scheduler_did_not_take_is_given_out_again(tmp_path):
    options = {"backend": "onnxruntime", "timeout_s": 120.0}
    with ResultStore.open(tmp_path / "s.db") as store:
        runner = _Runner(
            Command(Path("suite"), "tcp://s:1", Access(), options, 1.0),
            {},
            GivenUp(),
            store,
            Observer(),
        )
        fleet = Fleet("tcp://s:1", [HERE], [])
        runner._meet(HERE)
        runner._assign(fleet)  # the suite
        assert runner._ready == set()
        runner._ready.add((HERE.address, False))
        for _ in range(5):  # no try counts
            runner._assign(fleet)
        order = runner._campaign.next_for(HERE, "k")
        assert order.share is None
        runner._campaign.done(order.key, Done(b"", (Priced("a", "MatMul", 1.0),)))
        runner._ready.add((HERE.address, True))
        for _ in range(5):
            runner._assign(fleet)
        assert runner._campaign.next_for(HERE, "k").share == ("a",)
        assert runner._campaign.failures == []


def test_calls_end_with_the_connection_to_the_scheduler(start):
    process = start("scheduler", "--host", "127.0.0.1", "--port", "0")
    address = process.says("Scheduler at").split()[-1]
    client = FleetClient(address, Access())
    call = client._client.calls["waiting"] = Call("waiting")
    process.end(signal.SIGKILL)
    end = time.monotonic() + 10
    while call.answer is None:
        assert time.monotonic() < end
        time.sleep(0.05)
    assert call.is_lost
    client.close()


def test_a_host_that_is_not_there_loses_the_call(scheduler):
    client = FleetClient(scheduler, Access())
    call = client.submit(HERE, "absent", "keep-suite", {})
    end = time.monotonic() + 10
    while call.answer is None:
        assert time.monotonic() < end
        time.sleep(0.05)
    assert call.is_lost
    client.close()
