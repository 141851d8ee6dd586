"""Which alternative is first, how probable that is, and what is on a Pareto front."""

import numpy as np
import pytest
from dlbricks_serving.advice.choice import coupled, first_shares, on_front
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

DRAWS = 4000
SMALL = st.integers(0, 4).map(float)


def everywhere(costs):
    return np.ones(np.shape(costs), dtype=bool)


def tables(values):
    """Arrays of some alternatives and some draws."""
    shapes = st.tuples(st.integers(1, 5), st.integers(1, 6))
    return shapes.flatmap(lambda shape: arrays(np.float64, shape, elements=values))


@st.composite
def choices(draw):
    costs = draw(tables(SMALL))
    return (
        costs,
        draw(arrays(np.bool_, costs.shape)),
        draw(arrays(np.float64, len(costs), elements=SMALL)),
    )


@given(choices())
def test_probabilities_sum_to_that_of_a_choice(choice):
    costs, admitted, _ = choice
    shares = first_shares(costs, admitted)
    assert (shares >= 0).all()
    assert shares.sum() == pytest.approx(admitted.any(axis=0).mean())


@given(choices())
def test_nothing_admitted_costs_less_than_the_first(choice):
    costs, admitted, _ = choice
    for i in range(costs.shape[1]):
        one = first_shares(costs[:, i : i + 1], admitted[:, i : i + 1])
        for j in np.flatnonzero(one):
            assert admitted[j, i]
            assert costs[j, i] == costs[admitted[:, i], i].min()


@given(choices())
def test_the_front_is_what_nothing_dominates(choice):
    costs, admitted, merits = choice
    front = on_front(costs, merits, admitted)
    for (i, draw), is_on in np.ndenumerate(front):
        dominated = any(
            admitted[j, draw]
            and merits[j] >= merits[i]
            and costs[j, draw] <= costs[i, draw]
            and (merits[j] > merits[i] or costs[j, draw] < costs[i, draw])
            for j in range(len(costs))
        )
        assert is_on == (admitted[i, draw] and not dominated)


def test_the_probability_is_that_of_the_distributions():
    random = np.random.default_rng(0)
    costs = np.array([10 + random.standard_normal(DRAWS), 11 + random.standard_normal(DRAWS)])
    first, _ = first_shares(costs, everywhere(costs))
    assert first == pytest.approx(stats.norm.cdf(1 / np.sqrt(2)), abs=0.02)


def test_an_error_in_common_does_not_make_the_first_doubtful():
    error = np.exp(0.5 * np.random.default_rng(0).standard_normal(DRAWS))
    costs = np.array([10 * error, 11 * error])
    assert first_shares(costs, everywhere(costs)).tolist() == [1.0, 0.0]


def drawn(seed, rows=2):
    random = np.random.default_rng(seed)
    common = random.standard_normal(DRAWS)
    return np.exp(common + 0.3 * random.standard_normal((rows, DRAWS)))


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
def test_coupled_errors_are_as_correlated_as_is_said(correlation):
    wanted = np.array([[1, correlation], [correlation, 1]])
    one, other = coupled([drawn(0, 1), drawn(1, 1)], wanted)
    found = np.corrcoef(np.log(one[0]), np.log(other[0]))[0, 1]
    assert found == pytest.approx(correlation, abs=0.05)


def test_coupling_keeps_what_belongs_together():
    before = [drawn(0), drawn(0)]
    after = coupled(before, np.eye(2))
    for one, other in zip(before, after, strict=True):
        assert sorted(map(tuple, one.T)) == sorted(map(tuple, other.T))
    assert coupled([], np.zeros((0, 0))) == []


def said_and_true(told):
    """Mean probability that the first is first, and how often it is, over synthetic worlds.

    Errors of two alternatives have the correlation 0.8; draws are told one.
    """
    random = np.random.default_rng(5)
    real, wanted = np.array([[1, 0.8], [0.8, 1]]), np.array([[1, told], [told, 1]])
    factor = np.linalg.cholesky(real)
    said, true = [], []
    for seed in range(400):
        expected = np.array([10.0, 10.0 * np.exp(0.15 * random.standard_normal())])
        truth = expected * np.exp(0.3 * factor @ random.standard_normal(2))
        noise = np.exp(0.3 * np.random.default_rng((9, seed)).standard_normal((2, 1, 500)))
        costs = np.vstack(coupled(list(expected[:, None, None] * noise), wanted, seed))
        first = int(np.argmin(expected))
        said.append(first_shares(costs, everywhere(costs))[first])
        true.append(int(np.argmin(truth)) == first)
    return np.mean(said), np.mean(true)


def test_probabilities_come_true_where_the_correlation_is_known():
    said, true = said_and_true(0.8)
    assert said == pytest.approx(true, abs=0.06)


def test_probabilities_are_too_low_where_common_errors_are_taken_for_independent():
    said, true = said_and_true(0.0)
    assert said < true - 0.06
