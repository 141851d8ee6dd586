"""What Dask would do to measurements, it does not do in a real worker of a fleet."""

from __future__ import annotations

import dask
import pytest
from distributed import Client
from dlbricks_fleet.settings import HEARTBEAT_S, OVERRIDES


@pytest.fixture
def ask(scheduler, hosts):
    """What a function returns in a running worker."""
    with Client(scheduler, set_as_default=False) as client:
        yield lambda function: client.run(function, workers=hosts[:1])[hosts[0]]


def test_every_override_has_its_value_in_a_running_worker(ask):
    names = list(OVERRIDES)

    def values():
        import dask

        return {name: dask.config.get(name) for name in names}

    assert ask(values) == {name: each.value for name, each in OVERRIDES.items()}


def test_every_override_is_a_setting_that_dask_has():
    import distributed  # noqa: F401 - brings its defaults

    known = dask.config.merge(*dask.config.defaults)
    missing = object()
    assert [n for n in OVERRIDES if dask.config.get(n, missing, config=known) is missing] == []


def test_nothing_in_a_running_worker_wakes_more_than_once_a_second(ask):
    def periods(dask_worker):
        return {name: pc.callback_time / 1e3 for name, pc in dask_worker.periodic_callbacks.items()}

    found = ask(periods)
    assert found["heartbeat"] == HEARTBEAT_S
    assert min(found.values()) >= 1.0
    assert "profile" not in found
    assert "memory_monitor" not in found


def test_a_running_worker_has_no_thread_that_samples_it(ask):
    def threads():
        import threading

        return [each.name for each in threading.enumerate()]

    assert not [name for name in ask(threads) if "profile" in name.lower()]


def test_a_running_worker_has_no_limit_of_memory_and_one_thread(ask):
    def limits(dask_worker):
        manager = dask_worker.memory_manager
        return manager.memory_limit, dask_worker.state.nthreads, dask_worker.nanny

    assert ask(limits) == (None, 1, None)


def test_jobs_have_the_environment_that_the_worker_was_started_with(ask):
    def environments():
        import os

        from dlbricks_fleet.jobs import ENVIRONMENT

        return dict(ENVIRONMENT), dict(os.environ)

    ours, dasks = ask(environments)
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MALLOC_TRIM_THRESHOLD_")
    for name in names:  # the fixture starts workers without them
        assert name not in ours
        assert name not in dasks


def test_a_running_scheduler_neither_steals_nor_tries_again(scheduler, hosts):
    with Client(scheduler, set_as_default=False) as client:

        def state(dask_scheduler):
            return (
                dask_scheduler.allowed_failures,
                dask_scheduler.worker_ttl,
                dask_scheduler.extensions["amm"].running,
                "stealing" in dask_scheduler.extensions,
            )

        assert client.run_on_scheduler(state) == (0, 60.0, False, False)
