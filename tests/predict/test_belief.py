"""Beliefs against closed forms. Intervals are held against truths in ``test_sampling.py``."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from dlbricks_prediction.grouped import Grouped
from dlbricks_prediction.layer_posterior import LayerPosterior, Sessions, misfit_of, shares_of
from scipy import sparse

PRIOR = LayerPosterior.dense(
    np.log([1.0, 2.0, 4.0]), np.array([[0.3, 0.2, 0.1], [0.2, 0.4, 0.1], [0.1, 0.1, 0.2]])
)


def counts(*rows):
    return sparse.csr_array(np.array(rows, dtype=float))


def equal(one, other, rel=1e-9):
    assert one.mean == pytest.approx(other.mean, rel=rel)
    assert one.covariance == pytest.approx(other.covariance, rel=rel, abs=1e-12)


def conditioned(belief, design, values, noise):
    """What linear observations of a normal distribution make of it, by the textbook."""
    errors = np.diag(noise) if np.ndim(noise) == 1 else noise
    gain = belief.covariance @ design.T
    gain = gain @ np.linalg.inv(design @ belief.covariance @ design.T + errors)
    return LayerPosterior.dense(
        belief.mean + gain @ (values - design @ belief.mean),
        belief.covariance - gain @ design @ belief.covariance,
    )


def test_measured_layers_tell_what_the_closed_form_says():
    design = np.array([[1.0, 0, 0], [0, 0, 1.0]])
    values, noise = np.log([3.0, 2.5]), np.array([0.01, 0.02])
    equal(PRIOR.observed(counts(*design), values, noise), conditioned(PRIOR, design, values, noise))


def test_a_layer_that_occurs_often_takes_its_share():
    """Three equal layers take as long as three: the logarithm only shifts."""
    found = PRIOR.observed(counts([0, 3, 0]), np.log([9.0]), np.array([0.01]))
    equal(found, conditioned(PRIOR, np.array([[0, 1.0, 0]]), np.log([3.0]), np.array([0.01])))


def test_what_a_call_costs_is_taken_off():
    exact = np.array([1e-10])
    found = PRIOR.observed(counts([1, 0, 0]), np.log([3.5]), exact, np.array([0.5]))
    assert found.mean[0] == pytest.approx(np.log(3.0), abs=1e-6)


def test_a_layer_that_takes_less_than_a_call_tells_little():
    faint = PRIOR.observed(counts([1, 0, 0]), np.log([101.0]), np.array([1e-3]), np.array([100.0]))
    clear = PRIOR.observed(counts([1, 0, 0]), np.log([1.01]), np.array([1e-3]), np.array([0.01]))
    assert faint.covariance[0, 0] > 0.9 * PRIOR.covariance[0, 0]
    assert clear.covariance[0, 0] < 0.01 * PRIOR.covariance[0, 0]


def test_layers_in_turn_tell_the_same_as_at_once():
    one, other = counts([1, 0, 0]), counts([0, 1, 0])
    both = PRIOR.observed(counts([1, 0, 0], [0, 1, 0]), np.log([3.0, 2.0]), np.full(2, 0.01))
    turn = PRIOR.observed(one, np.log([3.0]), np.array([0.01]))
    equal(turn.observed(other, np.log([2.0]), np.array([0.01])), both)


def test_what_is_believed_of_a_network_is_the_most_probable():
    """The slope of the posterior's logarithm is zero there, for any sums of layers."""
    networks = counts([1, 1, 0], [2, 0, 1], [1, 1, 1])
    values, noise, call = np.log([5.0, 9.0, 8.0]), np.full(3, 0.02), np.full(3, 0.3)
    found = PRIOR.observed(networks, values, noise, call)
    shares, totals = shares_of(networks, found.mean, call)
    slope = shares.T @ ((values - np.log(totals)) / noise)
    slope = slope - np.linalg.solve(PRIOR.covariance, found.mean - PRIOR.mean)
    assert slope == pytest.approx(np.zeros(3), abs=0.05)


@pytest.mark.parametrize("log_ms", [-6.5, 0.0, 9.0])
def test_measurements_that_nobody_expected_are_explained(kernel, layers, log_ms):
    """At -6.5, layers take half as long as a call: full steps of Newton's method go astray."""
    prior = LayerPosterior.dense(np.zeros(30), 3 * kernel.covariance(layers(30), layers(30)))
    networks = sparse.csr_array(np.eye(10, 30) + np.ones((10, 30)))
    found = prior.observed(networks, np.full(10, log_ms), np.full(10, 1e-3), np.full(10, 1e-3))
    assert np.log(shares_of(networks, found.mean, 1e-3)[1]) == pytest.approx(log_ms, abs=0.05)


def test_measurements_below_the_cost_of_a_call_say_that_layers_take_next_to_nothing():
    found = PRIOR.observed(counts([1, 1, 1]), np.log([0.9]), np.array([1e-3]), np.array([1.0]))
    assert np.isfinite(found.mean).all()
    assert np.exp(found.mean).sum() < 1.0  # 7 before


def test_a_network_tells_what_its_layers_take_together():
    found = PRIOR.observed(counts([1, 1, 1]), np.log([10.0]), np.array([1e-6]))
    assert np.exp(found.mean).sum() == pytest.approx(10.0, rel=1e-3)
    # What one takes more, others take less.
    assert found.covariance[0, 1] < PRIOR.covariance[0, 1] - 0.1


def test_networks_of_one_session_share_an_error():
    design = np.array([[1.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0]])
    values, noise = np.log([3.0, 2.5, 5.0]), np.array([0.01, 0.02, 0.03])
    sessions = Sessions(np.array([1, 0, 1]), 0.04)
    together = np.diag(noise) + 0.04 * np.array([[1, 0, 1], [0, 1, 0], [1, 0, 1]])
    found = PRIOR.observed(counts(*design), values, noise, sessions=sessions)
    equal(found, conditioned(PRIOR, design, values, together))
    apart = np.array([0.5, -0.2, 0.1])
    shared = (together - np.diag(noise)) @ np.linalg.inv(together) @ apart
    assert sessions.shared(apart, noise) == pytest.approx(shared)
    misfit = apart @ np.linalg.inv(together) @ apart
    assert misfit_of(apart, noise, sessions) == pytest.approx(misfit)
    assert misfit_of(apart, noise, None) == pytest.approx((apart**2 / noise).sum())


def test_what_the_mean_accounts_for_only_narrows():
    given = counts([1, 1, 0]), np.log([5.0]), np.array([0.02])
    found = PRIOR.observed(*given)
    again = replace(PRIOR, mean=found.mean).narrowed(counts([1, 1, 0]), np.array([0.02]))
    assert again.covariance == pytest.approx(found.covariance, rel=0.02)
    assert PRIOR.likely(*given) == pytest.approx(found.mean)


def test_nothing_observed_changes_nothing():
    assert PRIOR.observed(counts(*np.zeros((0, 3))), np.zeros(0), np.zeros(0)) is PRIOR
    useless = PRIOR.observed(counts([1, 1, 1]), np.log([99.0]), np.array([1e9]))
    assert useless.mean == pytest.approx(PRIOR.mean, abs=1e-6)
    assert useless.covariance == pytest.approx(PRIOR.covariance, abs=1e-6)


def test_observations_make_nothing_less_certain(kernel, layers):
    covariance = kernel.covariance(layers(12), layers(12))
    belief = LayerPosterior.dense(np.zeros(12), covariance)
    random = np.random.default_rng(3)
    for number in range(1, 9):
        networks = sparse.csr_array(random.poisson(0.4, (number, 12)) + np.eye(number, 12))
        truth = belief.draws(1, seed=number)[0]
        log_ms = np.log(networks @ np.exp(truth))
        found = belief.observed(networks, log_ms, np.full(number, 1e-3)).covariance
        assert found == pytest.approx(found.T)
        assert np.linalg.eigvalsh(found).min() > -1e-9
        assert np.linalg.eigvalsh(covariance - found).min() > -1e-9


def test_the_same_network_measured_twice_is_known_as_one_of_half_the_noise():
    twice = PRIOR.observed(counts([1, 0, 0], [1, 0, 0]), np.log([3.0, 3.0]), np.full(2, 0.02))
    equal(twice, PRIOR.observed(counts([1, 0, 0]), np.log([3.0]), np.array([0.01])))


def test_shares_are_those_of_the_sum():
    shares, totals = shares_of(counts([2, 1, 0], [0, 0, 1]), np.log([1.0, 2.0, 5.0]), 1.0)
    assert totals == pytest.approx([5.0, 6.0])
    assert shares.toarray() == pytest.approx(np.array([[0.4, 0.4, 0], [0, 0, 5 / 6]]))


def test_a_part_of_the_layers_is_believed_as_before():
    part = PRIOR.of([2, 0])
    assert part.mean == pytest.approx(PRIOR.mean[[2, 0]])
    assert part.covariance == pytest.approx(np.array([[0.2, 0.1], [0.1, 0.3]]))


def test_a_further_error_widens_and_moves_nothing():
    found = PRIOR.widened(2.0, Grouped.dense(np.eye(3)))
    assert found.mean == pytest.approx(PRIOR.mean)
    assert found.covariance == pytest.approx(PRIOR.covariance + 2 * np.eye(3))


def test_draws_have_the_moments_of_the_belief_and_are_always_the_same():
    draws = PRIOR.draws(40_000)
    assert draws.shape == (40_000, 3)
    assert draws.mean(axis=0) == pytest.approx(PRIOR.mean, abs=0.02)
    assert np.cov(draws.T) == pytest.approx(PRIOR.covariance, abs=0.02)
    assert (PRIOR.draws(5) == PRIOR.draws(5)).all()
    assert (PRIOR.draws(5, seed=1) != PRIOR.draws(5)).all()


def test_draws_have_the_moments_of_what_observations_leave():
    found = PRIOR.observed(counts([1, 1, 0]), np.log([5.0]), np.array([0.02]))
    found = found.observed(counts([0, 1, 1]), np.log([5.0]), np.array([0.01]))
    draws = found.draws(40_000)
    assert draws.mean(axis=0) == pytest.approx(found.mean, abs=0.02)
    assert np.cov(draws.T) == pytest.approx(found.covariance, abs=0.01)
    part = found.of([2, 0])
    assert np.cov(part.draws(40_000).T) == pytest.approx(part.covariance, abs=0.01)


def test_what_is_certain_can_be_drawn():
    certain = LayerPosterior.dense(np.zeros(2), np.zeros((2, 2)))
    assert certain.draws(9) == pytest.approx(np.zeros((9, 2)), abs=1e-3)
