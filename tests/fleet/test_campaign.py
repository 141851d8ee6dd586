"""Whatever hosts do, every brick is measured once or named missing, and the run ends."""

from __future__ import annotations

from dataclasses import replace
from itertools import cycle

import pytest
from dlbricks_fleet.campaign import SHARE_S, Campaign, shares_of
from dlbricks_fleet.records import Asked, Done, Host
from dlbricks_fleet.shares import Priced
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dlbricks_core.facts import System

SYSTEMS = [System(cpu="one"), System(cpu="other")]
HOSTS = [Host(f"tcp://h{i}:1", f"h{i}", SYSTEMS[i % 2], "1", {}) for i in range(4)]
#: Where many tests run side by side, drawing examples takes its time.
CALM = settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow])
SECONDS = st.lists(st.integers(1, 100_000).map(lambda ms: ms / 1e3), max_size=12)


def priced(seconds):
    return [Priced(f"{i:08x}{0:016x}", "MatMul", each) for i, each in enumerate(seconds)]


def campaign(seconds, hosts=HOSTS[:1], **more):
    """A campaign whose hosts have cut the suite."""
    found = Campaign(Asked("suite", {}), 120.0, **more)
    for host in hosts:
        found.meet(host)
    for host in hosts:
        if order := found.next_for(host, "k"):
            if order.share is None:
                found.done(order.key, Done(b"", tuple(priced(seconds)), budget_s=120.0))
            else:
                found.lost(order.key, "", blames=False)
    return found


@settings(CALM)
@given(SECONDS, st.integers(1, 8))
def test_each_brick_is_in_one_share_and_no_share_is_longer_than_it_must_be(seconds, hosts):
    bricks = priced(seconds)
    shares = shares_of(bricks, hosts)
    assert sorted(b.signature for share in shares for b in share) == [b.signature for b in bricks]
    assert all(shares)
    if bricks:
        longest = max(sum(b.seconds for b in share) for share in shares)
        even = sum(seconds) / len(shares)
        assert longest <= even + max(seconds) + 1e-6
        assert even <= SHARE_S or len(shares) == len(bricks)


def test_bricks_that_take_no_time_get_shares_as_others_do():
    """A host may say so, of all of them."""
    found = campaign([0.0, 0.0])
    order = found.next_for(HOSTS[0], "k")
    assert order.share
    assert order.budget_s is None


@settings(CALM)
@given(st.data(), SECONDS)
def test_every_brick_is_done_or_named_missing_whatever_hosts_do(data, seconds):
    found, bricks = campaign(seconds, HOSTS), priced(seconds)
    got = {system.fingerprint: [] for system in SYSTEMS}
    for host in cycle(HOSTS):
        if not found.unfinished:
            break
        order = found.next_for(host, "k")
        if order is None:
            continue
        match data.draw(st.sampled_from(["done", "done", "lost", "refused"])):
            case "done":
                got[host.kind] += order.share
                found.done(order.key, Done(b"", measured=len(order.share)))
            case "lost":
                found.lost(order.key, "it vanished")
            case "refused":
                found.refused(order.key, "it cannot")
    missing = [each.where for each in found.failures]
    assert len(missing) == len(set(missing))
    for kind in found.kinds:
        own = got[kind.system.fingerprint]
        assert len(own) == len(set(own)) == kind.known == kind.measured
        named = [each for each in missing if kind.system.fingerprint in each]
        assert len(named) + kind.known == len(bricks)


def test_a_share_that_is_lost_goes_to_another_host_with_another_key():
    alike = [HOSTS[0], HOSTS[2]]
    found = campaign([1.0] * 2, alike)
    first = found.next_for(alike[0], "k")
    found.lost(first.key, "it vanished")
    second, third = found.next_for(alike[1], "k"), found.next_for(alike[1], "k")
    assert first.share in (second.share, third.share)
    assert first.key not in (second.key, third.key)


@pytest.mark.parametrize("comes", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
def test_a_run_that_is_started_again_gives_each_host_the_share_that_it_had(comes):
    # Otherwise what a host has measured of its share is measured again on another host.
    alike = [replace(HOSTS[0], address=f"tcp://h{i}:1", identity=f"id{i}") for i in range(3)]
    first = campaign([3.0, 2.0, 1.0], alike)
    had = {host.key: first.next_for(host, "k").share for host in alike}
    assert len(set(had.values())) == 3
    again = Campaign(Asked("suite", {}), 120.0)
    moved = [replace(alike[i], address=f"tcp://h{i}:2") for i in comes]
    for host in moved:
        again.meet(host)
    again.done(again.next_for(moved[0], "k").key, Done(b"", tuple(priced([3.0, 2.0, 1.0]))))
    assert {host.key: again.next_for(host, "k").share for host in moved} == had


def test_a_lost_scheduler_leaves_each_host_its_share():
    alike = [HOSTS[0], HOSTS[2]]
    found = campaign([1.0] * 2, alike)
    orders = {host.key: found.next_for(host, "k") for host in alike}
    for order in orders.values():
        found.lost(order.key, "the scheduler was lost", blames=False)
    for host in reversed(alike):
        assert found.next_for(host, "k").share == orders[host.key].share


def test_a_share_that_ends_every_host_is_given_up_and_named():
    found = campaign([1.0])
    for _ in range(3):
        found.lost(found.next_for(HOSTS[0], "k").key, "the job was killed (SIGKILL)")
    assert found.unfinished == []
    (failure,) = found.failures
    assert "SIGKILL" in failure.reason
    assert "tried 3 times" in failure.reason


def test_a_lost_scheduler_is_no_fault_of_a_share():
    found = campaign([1.0])
    for _ in range(20):
        found.lost(found.next_for(HOSTS[0], "k").key, "the scheduler was lost", blames=False)
    assert (found.failures, len(found.unfinished)) == ([], 1)


def test_the_budget_of_all_is_the_sum_of_those_of_the_shares():
    hosts = [HOSTS[0], HOSTS[2]]
    found = campaign([5.0, 1.0, 3.0, 2.0], hosts)
    orders = [found.next_for(host, "k") for host in hosts]
    assert sum(each.budget_s for each in orders) == pytest.approx(120.0)


def test_small_bricks_are_not_said_to_take_no_time():
    hosts = [HOSTS[0], HOSTS[2]]
    found = campaign([0.001] * 6, hosts)
    assert 4.0 < found.left_s(hosts) < 6.0
    found.next_for(hosts[0], "k")  # under way
    assert 4.0 < found.left_s(hosts) < 6.0


def test_the_time_that_is_left_follows_what_shares_have_taken():
    hosts = [HOSTS[0], HOSTS[2]]
    found = campaign([10.0, 10.0], hosts)
    assert found.left_s(hosts) == pytest.approx(10.0 + 5.0)  # each imports the framework first
    found.done(found.next_for(hosts[0], "k").key, Done(b"", seconds=40.0))
    assert found.left_s(hosts[:1]) == pytest.approx(40.0)
    assert found.left_s([]) is None
