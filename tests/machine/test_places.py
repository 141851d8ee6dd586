"""Cores of their own for instances."""

import pytest
from dlbricks_serving.core_sets import core_sets

from dlbricks_core.errors import DLBricksError


def test_each_thread_has_a_core_of_its_own(bare):
    machine = bare.topology([(0, 4), (1, 5), (2, 6), (3, 7)]).machine(*range(8))
    assert core_sets(2, 2, machine) == [(0, 1), (2, 3)]
    assert core_sets(4, 1, machine) == [(0,), (1,), (2,), (3,)]


def test_only_usable_cpus_are_places(bare):
    machine = bare.topology([(0, 4), (1, 5), (2, 6), (3, 7)]).machine(4, 6, 2, 3)
    assert core_sets(3, 1, machine) == [(2,), (3,), (4,)]


def test_too_many_instances_are_refused(bare):
    machine = bare.topology([(0, 1), (2, 3)]).machine(*range(4))
    with pytest.raises(DLBricksError, match="3 x 1 threads need 3 cores, and 2 are usable"):
        core_sets(3, 1, machine)
