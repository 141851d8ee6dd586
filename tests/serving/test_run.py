"""What is asked of models under load, and which n x m is best."""

from __future__ import annotations

import numpy as np
import pytest
from dlbricks_serving.scenarios import Run, Scenario, answer_of
from dlbricks_serving.serving import run as module
from dlbricks_serving.serving.measured import Loaded
from dlbricks_serving.serving.run import LoadRequest, ModelUnderLoad, Placement, Row

from dlbricks_core.errors import DLBricksError


@pytest.fixture
def cores(monkeypatch):
    """Makes this machine one of so many usable cores."""
    return lambda number: monkeypatch.setattr(module, "physical_cores_available", lambda: number)


def placements(scenario, **more):
    return [str(each) for each in LoadRequest.of(scenario, **more).placements]


def test_all_that_fits_is_asked_unless_the_user_says_so(cores):
    cores(3)
    assert placements("offline") == ["1 x 1", "1 x 2", "1 x 3", "2 x 1", "3 x 1"]
    assert placements("offline", threads=[1]) == ["1 x 1", "2 x 1", "3 x 1"]
    assert placements("offline", instances=[1, 2], threads=[1, 2]) == ["1 x 1", "1 x 2", "2 x 1"]


def test_on_many_cores_powers_of_two_are_asked(cores):
    cores(12)
    found = LoadRequest.of("offline").placements
    assert {each.threads for each in found} == {1, 2, 4, 8, 12}
    assert max(each.instances * each.threads for each in found) == 12


def test_a_stream_has_no_more_instances_than_a_query_has_samples(cores):
    cores(16)
    assert {each.instances for each in LoadRequest.of("single-stream").placements} == {1}
    assert {each.instances for each in LoadRequest.of("multi-stream").placements} == {1, 2, 4, 8}
    assert placements("single-stream", instances=[2], threads=[3]) == ["2 x 3"]


@pytest.mark.parametrize("more", [{"instances": [1, 3]}, {"threads": [3]},
                                  {"instances": [2], "threads": [2]}])  # fmt: skip
def test_numbers_that_never_fit_are_refused(cores, more):
    cores(2)
    with pytest.raises(DLBricksError, match="more than the 2 that are usable"):
        LoadRequest.of("offline", **more)


def test_a_server_needs_a_bound():
    with pytest.raises(DLBricksError, match="needs a bound"):
        LoadRequest.of("server")


def row(scenario, instances, threads, throughput, ms, bound_ms=None, whole_ms=None):
    """An n x m whose bricks tell a latency, and whose whole model shows another if one is given."""
    found = [
        each and answer_of(scenario, instances, Run(np.full(100, each), throughput), bound_ms)
        for each in (ms, whole_ms)
    ]
    loaded = Loaded(None, found[1]) if whole_ms else None
    return Row(Placement(instances, threads), found[0], loaded, found[0])


def best(*rows):
    found = ModelUnderLoad(None, rows).best
    return found and str(found.placement)


def test_the_best_serves_most_of_those_that_keep_the_bound():
    slow = row(Scenario.OFFLINE, 4, 1, 100, 50.0, bound_ms=40)
    fast = row(Scenario.OFFLINE, 1, 4, 60, 20.0, bound_ms=40)
    slower = row(Scenario.OFFLINE, 2, 2, 80, 30.0, bound_ms=40)
    assert best(slow, fast, slower) == "2 x 2"
    assert best(slow) is None


def test_the_best_of_a_stream_has_the_lowest_percentile():
    assert best(
        row(Scenario.SINGLE_STREAM, 1, 1, 100, 10.0), row(Scenario.SINGLE_STREAM, 1, 2, 90, 6.0)
    ) == "1 x 2"  # fmt: skip


def test_of_equals_the_best_takes_the_fewest_cores():
    rows = [row(Scenario.OFFLINE, n, m, 100, 10.0) for n, m in ((2, 2), (1, 2), (4, 1))]
    assert best(*rows) == "1 x 2"


def test_what_was_measured_counts_more_than_what_was_composed():
    rows = [
        row(Scenario.SINGLE_STREAM, 1, 1, 100, 10.0, whole_ms=5.0),
        row(Scenario.SINGLE_STREAM, 1, 2, 100, 8.0, whole_ms=9.0),
    ]
    assert best(*rows) == "1 x 1"
    assert [each.tail_error for each in rows] == [1.0, pytest.approx(-1 / 9)]


def test_a_row_without_figures_is_no_choice():
    assert best(Row(Placement(1, 1), failures={"bricks": "crashed"})) is None
