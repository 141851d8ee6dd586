"""What Dask would do to measurements, it does not do in a real worker of a fleet."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import dask
import pytest
from dlbricks_fleet.settings import HEARTBEAT_S, OVERRIDES

NAMES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MALLOC_TRIM_THRESHOLD_")

RUNNING = """
import asyncio, json, os, sys, threading
from pathlib import Path
from dlbricks_fleet import extra
from dlbricks_fleet.access import Access
from dlbricks_fleet.settings import OVERRIDES, override, scratch
scheduling, working = extra.load("scheduler"), extra.load("worker")
import dask
from dlbricks_fleet.jobs import ENVIRONMENT

async def main():
    override()
    here = Access(), "127.0.0.1"
    async with scheduling.FleetScheduler(scheduling.FleetState(60.0), *here, 0) as scheduler:
        given = scheduler.address, Path(sys.argv[1]), working.facts_of_host("h"), here[0]
        async with working.FleetWorker(*given, here[1]) as worker:
            await worker.heartbeat()
            callbacks = worker.periodic_callbacks.items()
            manager = worker.memory_manager
            print(json.dumps({
                "settings": {name: dask.config.get(name) for name in OVERRIDES},
                "periods": {name: each.callback_time / 1e3 for name, each in callbacks},
                "threads": [each.name for each in threading.enumerate()],
                "limits": [manager.memory_limit, worker.state.nthreads, worker.nanny],
                "jobs": dict(ENVIRONMENT),
                "worker": dict(os.environ),
                "scheduler": [scheduler.allowed_failures, scheduler.worker_ttl,
                              sorted(scheduler.extensions)],
            }))

with scratch():
    asyncio.run(main())
"""


@pytest.fixture(scope="module")
def found(processes, tmp_path_factory):
    """Facts about a running scheduler and a running worker, which run no functions of others."""
    environment = {name: value for name, value in os.environ.items() if name not in NAMES}
    done = subprocess.run(
        [sys.executable, "-c", RUNNING, str(tmp_path_factory.mktemp("spool"))],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.process
def test_every_override_has_its_value_in_a_running_worker(found):
    assert found["settings"] == {name: each.value for name, each in OVERRIDES.items()}


def test_every_override_is_a_setting_that_dask_has():
    import distributed  # noqa: F401 - brings its defaults

    known = dask.config.merge(*dask.config.defaults)
    missing = object()
    assert [n for n in OVERRIDES if dask.config.get(n, missing, config=known) is missing] == []


def test_nothing_in_a_running_worker_wakes_more_than_once_a_second(found):
    periods = found["periods"]
    assert periods["heartbeat"] == HEARTBEAT_S
    assert min(periods.values()) >= 1.0
    assert "profile" not in periods
    assert "memory_monitor" not in periods


def test_a_running_worker_has_no_thread_that_samples_it(found):
    assert not [name for name in found["threads"] if "profile" in name.lower()]


def test_a_running_worker_has_no_limit_of_memory_and_one_thread(found):
    assert found["limits"] == [None, 1, None]


@pytest.mark.parametrize("name", NAMES)
def test_jobs_have_the_environment_that_the_worker_was_started_with(found, name):
    assert name not in found["jobs"]
    assert name not in found["worker"]


def test_a_running_scheduler_neither_steals_nor_tries_again(found):
    assert found["scheduler"] == [0, 60.0, []]
