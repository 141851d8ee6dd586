"""A fleet loses and doubles nothing, whatever happens to its hosts and programs in mid-run."""

import os
import signal
from collections import Counter

import pytest

pytest.importorskip("distributed")
pytest.importorskip("onnxruntime")

BRICKS, RUNS = 6, 60


@pytest.fixture
def started(bed):
    """A run on three hosts, each of which has measured something."""
    url = bed.database()
    command = bed.run(bed.suite(), url)
    bed.wait_until_measuring()
    return bed, command, url


@pytest.fixture
def small(bed, whole_network):
    """A host that has one CPU only, in a fleet of larger ones."""
    host = whole_network.host("small", {min(os.sched_getaffinity(0))})
    bed.join(host)
    bed.wait_for_hosts(4)
    yield host
    bed.joined[host.name].kill(signal.SIGTERM)
    bed.joined[host.name].wait()
    host.power_off()


def check_complete(bed, url, command, kinds=1, runs=RUNS):
    """Every brick has all its rounds, once, of one session."""
    assert command.wait(240) == 0, command.said()
    rounds = bed.rounds(url)
    by_network = Counter((each.signature, each.system) for each in rounds)
    assert len(by_network) == kinds * BRICKS, command.said()
    assert set(by_network.values()) == {runs}
    assert len({each[:4] for each in rounds}) == len(rounds)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="all hosts here have one CPU")
def test_each_kind_of_host_measures_the_suite_once(bed, small):
    url = bed.database()
    command = bed.run(bed.suite(), url)
    check_complete(bed, url, command, kinds=2)
    assert len({each.system for each in bed.rounds(url)}) == 2
    assert command.says("2 kinds of host"), command.said()
    rounds = bed.spooled(small)
    assert len({each.signature for each in rounds}) == BRICKS


def test_a_host_that_measures_for_its_user_joins_in_afterwards(bed, hosts):
    url, two = bed.database(), bed.workers[1]
    local, before = two.folder / "local.db", bed.spooled(two)
    user = bed.bench(two, bed.suite(), local)
    hosts.wait_until(lambda: bed.rounds_in(local))
    # It has its turn, and keeps it without taking time from the hosts that measure.
    user.kill(signal.SIGSTOP)
    command = bed.run(bed.suite(), url)

    def waits():
        told = bed.status()
        doing = {each["name"]: each["doing"] for each in told["hosts"]}
        assert command.process.poll() is None, command.said()
        is_so = "waits" in (doing["two"] or "") and not doing["one"] and not doing["three"]
        return [each for each in told["runs"] if is_so and each["done"] == 2 * BRICKS // 3]

    (run,) = hosts.wait_until(waits)
    assert run["bricks"] == BRICKS
    assert run["seconds"] > 0
    assert bed.spooled(two) == before
    user.kill(signal.SIGINT)
    user.go_on()
    check_complete(bed, url, command)
    assert user.wait() == 130
    last = max(each.taken_at for each in bed.rounds_in(local))
    assert all(each.taken_at > last for each in bed.spooled(two) if each not in before)


def test_jobs_and_workers_that_are_killed_or_interrupted_cost_nothing(bed):
    url, (one, two, three) = bed.database(), bed.workers
    # The others may be slower: the job is not to be done when they begin, nor soon.
    command = bed.run(bed.suite(), url, "--runs", 5 * RUNS)
    bed.wait_until_measuring(two)
    bed.joined[two.name].inside.children()[0].kill()
    bed.joined[one.name].kill()
    bed.joined[three.name].kill(signal.SIGTERM)
    assert bed.joined[three.name].wait(180) != 0
    check_complete(bed, url, command, runs=5 * RUNS)
    for word in ("SIGKILL", "one", "died"):
        assert command.says(word), command.said()


def test_a_scheduler_and_a_database_that_stop_and_start_cost_nothing(started):
    bed, command, url = started
    bed.scheduler.kill()
    bed.scheduler.wait()
    bed.start_scheduler()
    command.wait_for("has joined again")
    bed.server.stop("immediate")
    command.wait_for("server was lost")
    bed.server.start()
    check_complete(bed, url, command)


def test_a_run_that_is_killed_goes_on_where_it_was(bed):
    # That a run of a whole suite measures nothing is tested in tests/fleet/test_run.py.
    url, suite = bed.database(), bed.suite()
    command = bed.run(suite, url)
    bed.wait_until_measuring()
    command.kill()
    command.wait()
    bed.wait_for_hosts(3)
    kept = {host.name: set(bed.spooled(host)) for host in bed.workers}
    check_complete(bed, url, bed.run(suite, url))
    for host in bed.workers:
        assert kept[host.name] <= set(bed.spooled(host))
    suite_only = {each.signature for each in bed.rounds(url)}
    everywhere = [each for host in bed.workers for each in bed.spooled(host)]
    times = Counter(each.signature for each in everywhere if each.signature in suite_only)
    assert set(times.values()) == {RUNS}
    told = bed.status()
    assert told["runs"] == []
    assert {each["name"] for each in told["hosts"]} == {"one", "two", "three"}


def test_hosts_that_are_lost_cost_nothing(started):
    bed, command, url = started
    one, two, three = bed.workers
    two.freeze()
    three.power_off()
    try:
        check_complete(bed, url, command)
        assert all(command.says(host.name) for host in (two, three)), command.said()
        assert {each["name"] for each in bed.status()["hosts"]} == {one.name}
    finally:
        two.thaw()
        three.power_on()
    bed.restore()


def test_a_run_whose_hosts_are_all_gone_names_what_is_missing(bed):
    url, (one, two, three) = bed.database(), bed.workers
    command = bed.run(bed.suite(), url, "--wait", "3s")
    bed.wait_until_measuring()
    one.unplug()
    try:
        for host in (two, three):
            bed.joined[host.name].kill()
        assert command.wait(180) == 3, command.said()
        assert command.says("no host of its kind is left"), command.said()
        assert command.says("MatMul"), command.said()
    finally:
        one.plug()
    bed.restore()
