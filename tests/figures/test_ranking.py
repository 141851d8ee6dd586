import numpy as np
import pytest
from dlbricks_compare.ranking import Ranking, Ratio

from dlbricks_core.figures.figure import Cost, Measured
from dlbricks_core.figures.protocols import PROTOCOLS

PROTOCOL = PROTOCOLS["interleaved"]


def cost(samples, overhead=0.0):
    return Cost.brick(Measured(tuple(samples), PROTOCOL, overhead))


def drifting(rounds=40, seed=0):
    """Half the rounds run on a machine that is twice as slow."""
    rng = np.random.default_rng(seed)
    return np.where(np.arange(rounds) % 2, 2.0, 1.0) * rng.normal(1, 0.01, rounds)


def test_intervals_hold_what_they_are_of():
    # A minimum of two runs: most replicates lie above it.
    slow, fast = Cost(7.0, np.linspace(7.5, 8.0, 1000)), Cost(2.0, np.full(1000, 2.0))
    ratio = Ratio.of(slow, fast)
    assert (ratio.low, ratio.value) == (3.5, 3.5)
    assert slow.interval_ms[0] == 7.0


def test_drift_that_both_share_leaves_their_ratio_unchanged():
    speed = drifting()
    noise = np.random.default_rng(1).normal(1, 0.01, speed.size)
    ratio = Ratio.of(cost(speed * 1.1 * noise), cost(speed))
    assert ratio.value == pytest.approx(1.1, rel=0.05)
    assert ratio.exceeds(1)
    assert ratio.low > 1.05
    assert ratio.high < 1.15
    shuffled = np.random.default_rng(2).permutation(speed * 1.1)
    assert not Ratio.of(cost(shuffled), cost(speed)).exceeds(1)


def test_noise_alone_makes_no_winner():
    ranking = Ranking.of({"a": cost(drifting(seed=1)), "b": cost(drifting(seed=2))})
    assert ranking.winner is None
    assert ranking.fastest in ("a", "b")
    assert ranking.margin.low <= 1 <= ranking.margin.high


def test_the_winner_must_beat_every_other():
    speed = drifting()
    rng = np.random.default_rng(3)
    near = speed * rng.normal(1.0005, 0.02, speed.size)
    ranking = Ranking.of({"slow": cost(3 * speed), "near": cost(near), "fast": cost(speed)})
    assert list(ranking.costs)[-1] == "slow"
    assert ranking.ratios["slow"].exceeds(1)
    assert ranking.winner is None
    assert Ranking.of({"slow": cost(3 * speed), "fast": cost(speed)}).winner == "fast"


def test_the_cost_of_a_call_does_not_count():
    quick = Ranking.of({"a": cost([1.2] * 5, overhead=0.2), "b": cost([2.9] * 5, overhead=0.4)})
    assert quick.costs["a"].ms == pytest.approx(1.0)
    assert quick.margin.value == pytest.approx(2.5)


def test_a_backend_below_the_cost_of_a_call_is_no_clear_winner():
    lost = Ranking.of({"a": cost([0.1] * 5, overhead=0.2), "b": cost([0.5] * 5, overhead=0.2)})
    assert lost.fastest == "a"
    assert lost.margin == Ratio(None, None, None)
    assert lost.winner is None
    both = Ranking.of({"a": cost([0.1] * 5, overhead=0.2), "b": cost([0.2] * 5, overhead=0.2)})
    assert both.margin == Ratio(1.0, 1.0, 1.0)


def test_a_single_backend_is_no_winner():
    alone = Ranking.of({"a": cost([1.0] * 3)})
    assert (alone.fastest, alone.winner, alone.margin) == ("a", None, None)
    assert Ranking.of({}).fastest is None


@pytest.mark.parametrize(("slowdown", "winner"), [(1.0, "a"), (1.9, "a"), (2.1, None)])
def test_a_difference_that_a_disturbance_explains_makes_no_winner(slowdown, winner):
    ranking = Ranking.of({"a": cost([1.0] * 5), "b": cost([2.0] * 5)}, slowdown)
    assert ranking.winner == winner
    assert ranking.is_disturbed == (winner is None)
    assert not Ranking.of({"a": cost([1.0] * 5), "b": cost([1.0] * 5)}, slowdown).is_disturbed


def test_a_total_varies_with_its_parts():
    one, other = cost([1.0, 1.1, 1.2] * 4), cost([3.0, 3.2, 3.1] * 4)
    total = Cost.total([(2, one), (1, other)])
    assert total.ms == pytest.approx(2 * one.ms + other.ms)
    assert total.replicates == pytest.approx(2 * one.replicates + other.replicates)
    assert Cost.total([]).interval_ms == (0.0, 0.0)
