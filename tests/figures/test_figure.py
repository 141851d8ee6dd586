"""Bootstrap replicates of samples that were taken in rounds."""

import numpy as np
import pytest

from dlbricks_core.facts import LATENCY, Measurement, Observation, Question, Setup, Subject
from dlbricks_core.figures.figure import RESAMPLES, Measured, interval
from dlbricks_core.figures.protocols import PROTOCOLS, _weights
from dlbricks_core.figures.statistics import faster_half

PROTOCOL = PROTOCOLS["interleaved"]
KEY = Question(
    Subject("a", "brick"), LATENCY, Setup("b", "1", "{}", 1, "interleaved", "0.1.0"), "here"
)
RANDOM = np.random.default_rng(0)
DRIFT = 1 + 0.2 * RANDOM.random(60)


def latency(samples, rounds, session="s"):
    taken = tuple(
        Observation(session, int(number), (float(ms),))
        for number, ms in zip(rounds, samples, strict=True)
    )
    return Measured.of(Measurement(KEY, observations=taken), PROTOCOL)


def half_width(replicates):
    low, high = interval(replicates)
    return (high - low) / 2


def test_disturbed_samples_count_only_if_too_few_others_are_left():
    def taken(*samples):
        sets = (
            Observation("s", number, (ms,), overhead=ms / 100, flags=("far",) if ms > 9 else ())
            for number, ms in enumerate(samples)
        )
        return Measured.of(Measurement(KEY, observations=tuple(sets)), PROTOCOL)

    found = taken(10.0, 5.0, 11.0, 6.0, 10.0, 7.0, 10.0, 12.0)
    assert found.samples == (5.0, 6.0, 7.0)
    assert [number for _, number in found.rounds] == [1, 3, 5]
    assert found.value == pytest.approx(16 / 3)
    assert found.overhead == pytest.approx(0.16 / 3)
    assert taken(10.0, 5.0, 11.0, 6.0).samples == (10.0, 5.0, 11.0, 6.0)


def test_drift_stays_common_to_networks_that_share_only_some_rounds():
    every, some = np.arange(60), np.arange(0, 60, 2)
    whole, brick = latency(DRIFT, every), latency(DRIFT[some], some)
    apart = latency(DRIFT[some], some, session="another")
    together = half_width(whole.replicates - brick.replicates)
    assert together < 0.8 * half_width(whole.replicates - apart.replicates)
    same = latency(2 * DRIFT, every)
    assert same.replicates == pytest.approx(2 * whole.replicates)


def test_a_round_has_the_same_weight_in_every_process_and_order():
    first = latency(DRIFT[:8], range(8)).replicates
    assert len(first) == RESAMPLES
    _weights.cache_clear()
    shuffled = RANDOM.permutation(8)
    assert np.array_equal(latency(DRIFT[shuffled], shuffled).replicates, first)


@pytest.mark.long
@pytest.mark.parametrize("count", [7, 8, 40])
def test_replicates_scatter_as_the_figure_does(count):
    samples = RANDOM.normal(100, 5, (200, count))
    found = [latency(each, range(count), str(i)).replicates for i, each in enumerate(samples)]
    true = faster_half(samples).std()
    assert np.mean([each.std() for each in found]) == pytest.approx(true, rel=0.2)
    bias = np.mean([each.mean() for each in found]) - faster_half(samples).mean()
    assert abs(bias) < 0.25 * true


def test_replicates_of_a_single_sample_are_that_sample():
    assert set(latency([3.0], [0]).replicates) == {3.0}


@pytest.mark.parametrize("spread", [0.01, 0.1])
def test_the_variance_of_the_logarithm_is_that_of_the_relative_scatter(spread):
    found = latency(np.exp(spread * RANDOM.standard_normal(40)), range(40))
    assert found.log_variance == pytest.approx(np.var(found.replicates) / found.value**2, rel=0.3)


def test_one_slow_sample_of_few_leaves_a_usable_interval():
    found = latency([1.0, 1.0, 100.0], range(3))
    assert np.log(100) / 4 < found.log_variance**0.5 < np.log(100) / 2


def test_a_figure_of_zero_has_a_variance():
    assert latency([0.0, 0.0], range(2)).log_variance == pytest.approx(0.0)


@pytest.mark.parametrize("number", [1, 2, 3, 8, 200, 401])
def test_ends_of_an_interval_are_numpy_s_percentiles(number):
    replicates = np.random.default_rng(number).lognormal(size=number)
    assert interval(replicates) == tuple(np.percentile(replicates, [5, 95]))
