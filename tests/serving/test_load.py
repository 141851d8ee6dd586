"""The load generator, in real time, on a backend whose operators take a known time."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter, perf_counter_ns, sleep

import numpy as np
import pytest
from dlbricks_serving.load import LoadGenerator, ServingWorker
from dlbricks_serving.load.line import Rules, ServiceLine, opened_line, serve, wait_until
from dlbricks_serving.scenarios import Scenario, poisson_arrivals
from dlbricks_serving.scenarios.queueing import completions

from dlbricks_core.backends import BackendSettings
from dlbricks_core.errors import BackendError
from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec
from dlbricks_core.measure.worker import WorkerSettings

MS = 5.0
"""Time of an inference in milliseconds."""


@pytest.fixture(scope="module")
def instances():
    """Starts so many instances with a network loaded, on whatever CPUs there are."""
    with pytest.MonkeyPatch.context() as patch, ExitStack() as opened:
        patch.syspath_prepend(str(Path(__file__).parents[1] / "helpers"))
        import synthetic_backend

        spec = TensorSpec("float32", (1, int(MS * 1e6 / 100)))
        model = CanonicalModel(
            "relu", (Layer("Relu", ("x",), ("y",), name="relu"),), ("x",), ("y",),
            dict.fromkeys("xy", spec),
        )  # fmt: skip
        cpus = sorted(os.sched_getaffinity(0))
        settings = WorkerSettings(BackendSettings(1, {"clock": "busy"}), memory_bytes=1 << 30)
        backend = synthetic_backend.SyntheticBackend()

        def started(number):
            workers = [
                opened.enter_context(
                    ServingWorker(
                        synthetic_backend.TARGET, backend, settings, (cpus[i % len(cpus)],)
                    )
                )
                for i in range(number)
            ]
            assert LoadGenerator(workers).load(model) >= MS
            return workers

        yield started


@pytest.fixture(scope="module")
def generator(instances):
    """Makes load generators of one or two instances."""
    workers = instances(2)
    return lambda number: LoadGenerator(workers[:number])


@pytest.mark.process
def test_each_scenario_shows_what_its_instances_can_do(generator):
    two = generator(2)
    offline = two.offline(0.4)
    assert offline.run.throughput == pytest.approx(2e3 / offline.service_ms.mean(), rel=0.1)
    assert offline.service_ms.min() >= MS
    single = two.stream(Scenario.SINGLE_STREAM, 0.5)
    assert len(single.run.latency_ms) == len(single.service_ms)
    assert np.all(single.run.latency_ms >= single.service_ms)
    multi = two.stream(Scenario.MULTI_STREAM, 1.0)
    assert np.all(multi.run.latency_ms >= 4 * MS)
    # Means: beside other programs, half of the runs may take five times as long.
    assert multi.run.latency_ms.mean() < 8 * multi.service_ms.mean()
    assert multi.run.throughput == pytest.approx(1e3 / multi.run.latency_ms.mean())
    assert max(each.generator_share for each in (offline, single, multi)) < 0.2


@pytest.mark.process
@pytest.mark.parametrize("number", [1, 2])
def test_a_server_serves_queries_as_they_arrive(generator, number):
    qps, queries = 0.6 * number * 1e3 / MS, 100
    found = generator(number).server(qps, queries, 1e6, np.random.default_rng(3))
    assert found.complete
    arrivals_ms = poisson_arrivals(queries, np.random.default_rng(3)) / qps * 1e3
    assert np.all(found.run.latency_ms >= found.service_ms)
    assert np.all(found.dispatch_ms >= 0)
    # What the theory of queues makes of the same arrivals and times of service.
    taken = found.service_ms + found.dispatch_ms
    expected = completions(arrivals_ms, taken, number) - arrivals_ms
    off = np.abs(found.run.latency_ms - expected)
    # An instance that is interrupted before it takes its sample lets the next one go first.
    assert np.quantile(off, 0.75) < 0.1
    assert off.mean() < 0.1 * found.run.latency_ms.mean()


@pytest.mark.process
def test_a_server_that_cannot_keep_up_is_given_up_early(generator):
    begin = perf_counter()
    found = generator(1).server(10e3 / MS, 20_000, 4 * MS, np.random.default_rng(3))
    assert not found.complete
    assert len(found.run.latency_ms) < 2_000
    assert perf_counter() - begin < 30


@pytest.mark.process
@pytest.mark.parametrize(
    "run",
    [
        lambda each: each.offline(0.0),
        lambda each: each.stream(Scenario.SINGLE_STREAM, 0.0),
        lambda each: each.stream(Scenario.MULTI_STREAM, 0.0),
    ],
)
def test_a_load_in_which_no_query_completes_says_so(generator, run):
    with pytest.raises(BackendError, match="no query was completed"):
        run(generator(1))


@pytest.mark.process
def test_an_instance_that_dies_ends_the_load(instances):
    workers = instances(2)
    victim = workers[1]._worker._pid
    killer = threading.Timer(0.5, os.kill, (victim, signal.SIGKILL))
    killer.start()
    begin = perf_counter()
    with pytest.raises(BackendError, match=r"killed|crashed"):
        LoadGenerator(workers).stream(Scenario.MULTI_STREAM, 60)
    assert perf_counter() - begin < 40


def served(rules, instances, samples=None, ms=0.2):
    """What instances serve of a line, each a thread."""
    found = [None] * instances
    with opened_line(instances, samples) as (folder, _):
        line = ServiceLine(folder, perf_counter_ns() + 50_000_000, rules)

        def infer():
            sleep(ms / 1e3)
            return perf_counter_ns()

        def work(i):
            found[i] = serve(line, infer, lambda: None)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(instances)]
        for each in threads:
            each.start()
        for each in threads:
            each.join(20)
    return line, found


@pytest.mark.parametrize("number", [1, 3])
def test_every_sample_is_served_once_and_in_its_turn(number):
    arrivals = (poisson_arrivals(60, np.random.default_rng(0)) * 1e6).astype(np.int64)
    rules = Rules(arrivals_ns=arrivals, bound_ns=10**12)
    line, found = served(rules, number, 60)
    numbers = np.concatenate([each.numbers for each in found])
    assert sorted(numbers) == list(range(60))
    for each in found:
        assert np.all(np.diff(each.numbers) > 0)
        assert np.all(each.begin_ns >= line.begin_ns + arrivals[each.numbers])
        assert np.all(each.begin_ns >= each.ready_ns)
        assert np.all(each.ready_ns[1:] >= each.end_ns[:-1])


@pytest.mark.parametrize("number", [1, 3])
def test_a_query_waits_until_the_one_before_is_done(number):
    _, found = served(Rules(seconds=0.5, samples=8), number)
    numbers, begins, ends = (
        np.concatenate([getattr(each, name) for each in found])
        for name in ("numbers", "begin_ns", "end_ns")
    )
    order = np.argsort(numbers)
    whole = len(order) // 8 * 8
    begins, ends = (times[order][:whole].reshape(-1, 8) for times in (begins, ends))
    assert len(begins) > 1
    assert np.all(begins[1:].min(axis=1) >= ends[:-1].max(axis=1))


def test_a_query_that_was_begun_is_done_with():
    # The time is over in the middle of the first query, and not before it began on a busy machine.
    _, found = served(Rules(seconds=0.2, samples=8), 1, ms=50)
    assert list(found[0].numbers) == list(range(8))


def test_a_line_that_began_before_an_instance_is_no_measurement():
    with (
        opened_line(1, 1) as (folder, _),
        pytest.raises(BackendError, match="before all instances were ready"),
    ):
        serve(ServiceLine(folder, perf_counter_ns() - 1, Rules()), perf_counter_ns, lambda: None)


def test_a_line_holds_what_a_pipe_does_and_leaves_nothing_behind():
    with opened_line(3) as (folder, held):
        assert held >= 4096 // 8 - 3
        assert Path(folder, "marks").stat().st_size == held + 1
    assert not Path(folder).exists()


def test_waiting_ends_in_time():
    moment = perf_counter_ns() + 3_000_000
    wait_until(moment)
    assert perf_counter_ns() >= moment
