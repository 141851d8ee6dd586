import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlbricks_core.figures.statistics import (
    FASTER_HALF_VARIANCE,
    faster_half,
    median,
    trimmed_mean,
    warnings_for,
)
from dlbricks_core.report.notes import text

latencies = st.lists(st.floats(1e-3, 1e5), min_size=1, max_size=120)


def test_trimmed_mean_drops_the_lowest_and_the_highest_fifth():
    assert trimmed_mean([1, 2, 3, 4, 1000]) == 3
    assert trimmed_mean([5, 1, 4, 2, 3, 1000, -1000, 3, 3, 3]) == pytest.approx(18 / 6)
    hundred = [*range(80), *[10**9] * 20]
    assert trimmed_mean(hundred) == np.mean(range(20, 80))


def test_trimmed_mean_keeps_all_of_four_samples():
    assert trimmed_mean([1, 2, 3, 10]) == 4
    assert trimmed_mean([7]) == 7


@given(latencies, st.floats(0, 0.49))
def test_trimmed_mean_is_between_extremes_whatever_the_order(samples, fraction):
    found = trimmed_mean(samples, fraction)
    assert found == trimmed_mean(samples[::-1], fraction)
    assert min(samples) <= found * (1 + 1e-12)
    assert found <= max(samples) * (1 + 1e-12)


@given(latencies)
def test_trimmed_mean_goes_from_the_mean_to_the_median(samples):
    assert trimmed_mean(samples, 0) == pytest.approx(np.mean(samples))
    if len(samples) % 2:
        almost_half = (len(samples) // 2 + 0.5) / len(samples)
        assert trimmed_mean(samples, min(almost_half, 0.4999)) == pytest.approx(median(samples))


def test_faster_half_takes_half_of_the_middle_sample_of_an_odd_number():
    assert faster_half([4, 1, 1000, 3]) == 2
    assert faster_half([3, 1, 1000]) == pytest.approx((1 + 0.5 * 3) / 1.5)
    assert faster_half([7]) == 7


@given(latencies, st.floats(0, 1e9))
def test_faster_half_ignores_how_slow_the_slower_half_is(samples, slower):
    ordered = sorted(samples)
    half = (len(samples) + 1) // 2
    disturbed = ordered[:half] + [ms + slower for ms in ordered[half:]]
    assert faster_half(disturbed) == pytest.approx(faster_half(samples))
    assert min(samples) <= faster_half(samples) * (1 + 1e-12)
    assert faster_half(samples) <= median(samples) * (1 + 1e-12)


def test_faster_half_of_normal_samples_has_the_stated_mean_and_variance():
    found = faster_half(np.random.default_rng(2).normal(0, 1, (4000, 200)))
    assert found.mean() == pytest.approx(-np.sqrt(2 / np.pi), abs=0.01)
    assert 200 * found.var() == pytest.approx(FASTER_HALF_VARIANCE, rel=0.1)


def test_locations_are_taken_along_the_last_axis():
    table = np.random.default_rng(0).random((3, 4, 15))
    for statistic in (median, trimmed_mean, faster_half):
        found = statistic(table)
        assert found.shape == (3, 4)
        assert found[1, 2] == pytest.approx(float(statistic(table[1, 2])))


@pytest.mark.parametrize("statistic", [median, trimmed_mean, faster_half, warnings_for])
def test_locations_of_no_samples_are_refused(statistic):
    with pytest.raises(ValueError, match="no samples"):
        statistic([])


def test_steady_samples_give_no_warning():
    assert warnings_for([5.0, 5.1, 4.9, 5.05]) == []


@pytest.mark.parametrize(
    ("samples", "words"),
    [
        ([5.0, 6.0, 4.0, 5.5], ["standard deviation"]),
        ([5.0] * 99 + [7.6], ["maximum"]),
        ([5.0] * 99 + [2.4], ["minimum"]),
        ([0.9, 0.91, 0.9], ["shortest"]),
        ([0.0, 0.0], ["shortest"]),
        ([5.0, 0.5, 20.0], ["standard deviation", "minimum", "maximum", "shortest"]),
        ([3.0], []),
    ],
)
def test_unstable_samples_give_the_warnings_of_pyperf(samples, words):
    found = warnings_for(samples)
    assert len(found) == len(words)
    assert all(word in text(each) for word, each in zip(words, found, strict=True))


def test_warnings_state_the_numbers_that_they_rest_on():
    assert list(map(text, warnings_for([1.0, 1.0, 4.0]))) == [
        "the standard deviation (1.73 ms) is 87% of the mean (2 ms)",
        "the minimum (1 ms) is 50% smaller than the mean (2 ms)",
        "the maximum (4 ms) is 100% greater than the mean (2 ms)",
    ]
    (short,) = warnings_for([0.0123])
    assert text(short) == "the shortest sample took only 12.3 µs"


@given(latencies, st.floats(1.5, 100))
def test_only_the_warning_about_short_samples_depends_on_the_unit(samples, factor):
    def kinds(values):
        found = [(each.code, each.values.get("which")) for each in warnings_for(values)]
        return [each for each in found if each[0] != "short-sample"]

    mean, deviation = np.mean(samples), np.std(samples, ddof=1) if len(samples) > 1 else 0
    close = [abs(deviation / mean - 0.1), *(abs(abs(np.array(samples) / mean - 1) - 0.5))]
    if min(close) > 1e-6:
        assert kinds(samples) == kinds([ms * factor for ms in samples])
