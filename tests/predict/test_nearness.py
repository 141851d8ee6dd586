"""The distance between systems is a metric, and its order is what one expects."""

from __future__ import annotations

from itertools import permutations, product

import pytest
from dlbricks_prediction.nearness import distance, distances

from dlbricks_core.facts.system import Cache


def caches(second, third):
    return (Cache(1, "data", 2**15, 1), Cache(2, "unified", second, 1),
            Cache(3, "unified", third, 8))  # fmt: skip


@pytest.fixture(scope="module")
def systems(system):
    """Processors of two makers with other families, models, vectors and caches, and an unknown."""
    facts = product(("A", "B"), ("25", "26"), ("1", "2"), (("avx2",), ("avx512f",)),
                    (caches(2**19, 2**24), caches(2**20, 2**27)))  # fmt: skip
    found = [
        system(vendor=vendor, family=family, model=model, isa=isa, caches=sizes)
        for vendor, family, model, isa, sizes in facts
    ]
    return [*found[::3], system(caches=(), vendor="", family="", model="", isa=())]


def test_it_is_zero_for_the_same_system_alone(systems):
    for one, other in product(systems, systems):
        same = one.fingerprint == other.fingerprint
        assert (distance(one, other) == 0) == same
        assert distance(one, other) >= 0


def test_it_is_the_same_both_ways(systems):
    for one, other in permutations(systems, 2):
        assert distance(one, other) == pytest.approx(distance(other, one))


def test_no_way_round_is_shorter(systems):
    for one, other, between in permutations(systems, 3):
        detour = distance(one, between) + distance(between, other)
        assert distance(one, other) <= detour + 1e-12


def test_machines_that_are_only_set_up_otherwise_are_nearest(system):
    here = system()
    set_up_otherwise = system(boost=False)
    other_model = system(model="2")
    other_family = system(family="26")
    other_maker = system(vendor="B", family="6")
    found = [
        distance(here, each) for each in (set_up_otherwise, other_model, other_family, other_maker)
    ]
    assert found == sorted(found)
    assert len(set(found)) == 4


def test_another_architecture_is_farther_than_another_maker(system):
    here, maker = system(), system(vendor="B", family="6")
    assert distance(here, system(vendor="B", family="6", architecture="aarch64")) == pytest.approx(
        distance(here, maker) + distances().architectures
    )


def test_larger_caches_and_longer_vectors_are_farther(system):
    here = system(caches=caches(2**20, 2**24))
    assert distance(here, system(caches=caches(2**21, 2**24))) < distance(
        here, system(caches=caches(2**22, 2**24))
    )
    assert distance(here, system(caches=here.caches, isa=("avx512f",))) > distance(
        here, system(caches=here.caches, boost=False)
    )


def test_instructions_have_a_cache_that_does_not_count(system):
    here = system(caches=caches(2**20, 2**24))
    more = (*here.caches, Cache(2, "instruction", 2**26, 1))
    assert distance(here, system(caches=more)) == distance(here, system(
        caches=here.caches, boost=False))  # fmt: skip


def test_systems_of_which_nothing_is_known_are_compared(system):
    nothing = type(system())()
    assert distance(nothing, system()) > 0.5
    unknown_sizes = system(caches=(Cache(2, "unified", 0, 1), Cache(3, "unified", 0, 1)))
    assert distance(unknown_sizes, system()) >= 0


def test_the_cache_that_a_machine_shares_with_unseen_neighbours_does_not_count(system):
    here, more = (system(caches=caches(2**20, third)) for third in (2**24, 2**29))
    assert distance(here, more) == distance(here, system(caches=here.caches, boost=False))
