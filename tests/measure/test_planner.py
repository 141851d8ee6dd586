"""What to time next: where the covariances are known, a closed form says."""

import numpy as np
import pytest

from dlbricks_core.measure.planner import Uncertain, half_widths, steps

DRAWS = 20_000
NORMAL = 1.645


def joint(covariance, means, seed=0):
    """Draws of bricks whose covariance is exactly the given one."""
    size = len(means)
    normal = np.random.default_rng(seed).standard_normal((DRAWS, size))
    normal -= normal.mean(axis=0)
    normal = normal @ np.linalg.inv(np.linalg.cholesky(normal.T @ normal / DRAWS)).T
    return np.array(means) + normal @ np.linalg.cholesky(np.array(covariance)).T


def uncertain(bricks, counts, seconds, error=0.0, own=0.0, falls=None):
    """Sums of bricks; each has an error of its own, of which a share is gone with each brick."""
    counts = np.array(counts, dtype=float)
    errors = error * bricks.mean(axis=0)
    sums = bricks @ counts.T
    normal = np.random.default_rng(7).standard_normal((DRAWS, len(counts)))
    every = np.column_stack([np.ones(DRAWS), bricks])
    normal -= every @ np.linalg.lstsq(every, normal, rcond=None)[0]
    normal /= normal.std(axis=0)
    common = np.full(len(counts), own)
    falls = np.zeros_like(counts) if falls is None else np.array(falls, dtype=float)
    seconds = np.array(seconds, dtype=float)
    return Uncertain(sums * (1 + common * normal), bricks, counts, seconds, errors, common, falls)


def test_the_brick_that_tells_most_in_a_second_comes_first():
    # Of the sum's variance 4*9 + 1 + 1, the bricks tell 36, 1 and 1; the last takes no time.
    bricks = joint(np.diag([9.0, 1.0, 1.0]), [100, 100, 100])
    dear = uncertain(bricks, [[2, 1, 1]], [50, 1, 1 / 50])
    cheap = uncertain(bricks, [[2, 1, 1]], [10, 1, 1 / 50])
    assert [step.network for step in steps(dear, 1e-4)] == [2, 1, 0]
    assert [step.network for step in steps(cheap, 1e-4)] == [2, 0, 1]


def test_what_bricks_have_in_common_is_told_by_one_of_them():
    shared = 4.0 * np.ones((4, 4)) + 0.01 * np.eye(4)
    alone = np.diag([0.01 * 4] * 4)
    together, apart = (
        uncertain(joint(c, [100] * 4), [[1, 1, 1, 1]], [1, 1, 1, 1]) for c in (shared, alone)
    )
    first = next(steps(together, 1e-5))
    assert first.half_widths[0] < 0.06 * half_widths(together.sums)[0]
    first = next(steps(apart, 1e-5))
    assert first.half_widths[0] > 0.8 * half_widths(apart.sums)[0]


def test_half_widths_are_those_of_conditional_normal_distributions():
    random = np.random.default_rng(3)
    factor = random.standard_normal((6, 6))
    covariance = factor @ factor.T + np.eye(6)
    counts = np.array([[1, 2, 0, 1, 3, 0], [0, 1, 1, 0, 0, 2]], dtype=float)
    bricks = joint(covariance, [200.0] * 6)
    asked = uncertain(bricks, counts, [1.0] * 6, error=0.002)
    known, seconds = [], 0.0
    for step in steps(asked, 1e-4):
        known.append(step.network)
        assert step.seconds == pytest.approx(seconds := seconds + 1)
        own = covariance[np.ix_(known, known)] + np.diag([(0.002 * 200) ** 2] * len(known))
        cross = covariance[:, known]
        left = covariance - cross @ np.linalg.solve(own, cross.T)
        expected = NORMAL * np.sqrt(np.diag(counts @ left @ counts.T)) / (counts @ ([200.0] * 6))
        assert step.half_widths == pytest.approx(expected, rel=0.01)
    assert sorted(known) == list(range(6))


def test_half_widths_fall_with_every_second():
    bricks = joint(np.eye(8) + 0.5, [50.0] * 8)
    planned = list(steps(uncertain(bricks, np.ones((3, 8)), np.arange(1, 9), 0.01), 1e-4))
    widths = [step.half_widths.max() for step in planned]
    assert widths == sorted(widths, reverse=True)
    assert [step.seconds for step in planned] == sorted(step.seconds for step in planned)


def test_it_ends_where_all_sums_are_precise():
    bricks = joint(np.eye(4), [50.0] * 4)
    asked = uncertain(bricks, [[1, 1, 1, 1], [0, 0, 0, 4]], [1] * 4)
    *_, last = steps(asked, 0.02)
    assert last.half_widths.max() <= 0.02
    assert list(steps(asked, 0.5)) == []


def test_no_sum_counts_beyond_the_precision_that_it_lacks():
    # The first brick would make the first sum far more precise than was asked for.
    bricks = joint(np.diag([100.0, 1.0, 16.0]), [1000.0, 1000.0, 100.0])
    asked = uncertain(bricks, [[1, 1, 0], [0, 0, 1]], [10.0, 10.0, 10.0])
    assert next(steps(asked, 0.014)).network == 2


def test_networks_of_no_sum_are_not_timed():
    bricks = joint(np.eye(3), [50.0] * 3)
    asked = uncertain(bricks, [[1, 1, 0]], [1.0, 1.0, 1e-3])
    assert {step.network for step in steps(asked, 1e-4)} == {0, 1}


def test_what_is_certain_has_no_half_width():
    assert half_widths(np.zeros((10, 2))).tolist() == [0.0, 0.0]
    assert half_widths(np.full((10, 1), 3.0)).tolist() == [0.0]


def test_an_error_that_a_sum_has_by_itself_falls_by_what_each_brick_takes_of_it():
    """Bricks do not show it, so that covariances alone would never tell that it falls."""
    bricks = joint(np.eye(4), [100.0] * 4)
    falls = [[0.03, 0.03, 0.01, 0.0]]
    asked = uncertain(bricks, [[1, 1, 1, 1]], [1, 1, 1, 1], own=0.07, falls=falls)
    common, of_bricks = 0.07, 4.0
    order = []
    for step in steps(asked, 1e-4):
        order.append(step.network)
        common, of_bricks = common - falls[0][step.network], of_bricks - 1
        expected = NORMAL * np.hypot(common, np.sqrt(of_bricks) / 400)
        assert step.half_widths[0] == pytest.approx(expected, rel=0.05, abs=2e-3)
    assert sorted(order[:2]) == [0, 1]
    assert common == pytest.approx(0)


def test_no_more_falls_than_there_is_and_each_sum_has_its_own():
    bricks = joint(np.eye(2), [100.0] * 2)
    falls = [[0.5, 0.0], [0.0, 0.02]]
    asked = uncertain(bricks, np.eye(2), [1, 1], own=0.05, falls=falls)
    first, last = steps(asked, 1e-4)
    assert (first.network, last.network) == (0, 1)
    assert first.half_widths == pytest.approx([0, NORMAL * np.hypot(0.05, 0.01)], abs=0.003)
    assert last.half_widths == pytest.approx([0, NORMAL * 0.03], abs=0.003)
    assert [step.network for step in steps(asked.about(np.array([1])), 1e-4)] == [1]
    assert [step.network for step in steps(asked.only(np.array([1])), 1e-4)] == [0]
