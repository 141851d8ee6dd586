"""Intervals of sums against synthetic truths, and draws against closed forms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from dlbricks_prediction.layer_posterior import LayerPosterior
from dlbricks_prediction.sampling import agreeing_draws, centred
from scipy import sparse

from dlbricks_core.figures.figure import interval, relative_half_width

PRIOR = LayerPosterior.dense(np.log([1.0, 2.0]), np.array([[0.3, 0.2], [0.2, 0.4]]))


def counts(*rows):
    return sparse.csr_array(np.array(rows, dtype=float))


class Truths:
    """Systems whose layers' latencies are drawn from what is believed before anything runs.

    On each, some networks are measured, and the latencies of others are asked about.
    """

    LAYERS, ASKED, CALL_MS = 40, 3, 0.02

    def __init__(self, kernel, layers, systems):
        self.random = np.random.default_rng(5)
        features = layers(self.LAYERS, seed=9)
        mean = self.random.normal(-1.0, 1.0, self.LAYERS)
        self.prior = LayerPosterior.dense(mean, kernel.covariance(features, features))
        self.truths = self.prior.draws(systems, seed=11)
        self.noise = kernel.noise

    def networks(self, number):
        found = self.random.poisson(0.15, (number, self.LAYERS))
        found[np.arange(number), self.random.integers(self.LAYERS, size=number)] += 1
        return sparse.csr_array(found.astype(float))

    def predicted(self, measured, wholes=False):
        """True latency and draws of it, for each network that is asked about.

        Args:
            measured: Number of networks that were measured.
            wholes: Whether those that are asked about were measured too.
        """
        for number, truth in enumerate(self.truths):
            asked, known = self.networks(self.ASKED), self.networks(measured)
            if wholes:
                known = sparse.csr_array(sparse.vstack([known, asked]))
            size = known.shape[0]
            log_ms = np.log(known @ np.exp(truth) + self.CALL_MS)
            log_ms = log_ms + self.random.normal(0, self.noise**0.5, size)
            draws = agreeing_draws(
                self.prior, known, log_ms, np.full(size, self.noise), self.CALL_MS, 400, number
            )
            yield from zip(
                asked @ np.exp(truth), (np.exp(draws) @ asked.toarray().T).T, strict=True
            )


def covered(pairs):
    ends = [(interval(draws), true) for true, draws in pairs]
    return np.mean([low <= true <= high for (low, high), true in ends])


def widths(pairs):
    return [relative_half_width(interval(draws)) for _, draws in pairs]


@pytest.mark.long
@pytest.mark.parametrize("measured", [0, 12])
def test_nine_of_ten_intervals_of_sums_hold_the_truth(kernel, layers, measured):
    assert 0.85 <= covered(Truths(kernel, layers, 100).predicted(measured)) <= 0.95


@pytest.mark.long
@pytest.mark.parametrize("measured", [0, 12])
def test_what_was_measured_as_a_whole_is_in_its_interval(kernel, layers, measured):
    """However little is known of its parts: no interval is wider than the noise makes it."""
    pairs = list(Truths(kernel, layers, 100).predicted(measured, wholes=True))
    assert 0.85 <= covered(pairs) <= 0.95
    assert np.median(widths(pairs)) < 1.2 * 1.645 * kernel.noise**0.5
    assert np.mean([draws.mean() / true for true, draws in pairs]) == pytest.approx(1, abs=0.015)


@pytest.mark.long
def test_intervals_narrow_with_what_is_measured(kernel, layers):
    found = [np.median(widths(Truths(kernel, layers, 50).predicted(n))) for n in (0, 3, 30)]
    assert found == sorted(found, reverse=True)
    assert found[-1] < found[0] / 2


def test_errors_in_common_do_not_average_out(kernel, layers):
    """With the same errors layer by layer, but each by itself, intervals of sums are too narrow."""
    truths = Truths(replace(kernel, common=0.5), layers, 80)
    pairs = list(truths.predicted(0))
    assert 0.85 <= covered(pairs) <= 0.95
    alone = np.diag(np.diag(truths.prior.covariance))
    truths.prior = LayerPosterior.dense(truths.prior.mean, alone)
    assert covered(truths.predicted(0)) < 0.75


def test_of_single_layers_they_are_those_of_the_closed_form():
    """A layer's logarithm is linear, and a layer that occurs three times is shifted."""
    known, noise = counts([3, 0]), np.array([0.02])
    found = agreeing_draws(PRIOR, known, np.log([6.0]), noise, count=40_000)
    expected = PRIOR.observed(known, np.log([6.0]), noise)
    assert found.mean(axis=0) == pytest.approx(expected.mean, abs=0.01)
    assert np.cov(found.T) == pytest.approx(expected.covariance, abs=0.01)


def test_of_a_sum_they_are_those_that_the_prior_has_there():
    """Against draws of the prior, of which those are kept that come near to the measured sum."""
    noise = 0.05**2
    prior = PRIOR.draws(400_000, seed=3)
    sums = np.exp(prior).sum(axis=1)
    weights = np.exp(-((np.log(sums / 5.0)) ** 2) / noise / 2)
    found = agreeing_draws(PRIOR, counts([1, 1]), np.log([5.0]), np.array([noise]), count=20_000)
    exact = np.average(np.exp(prior), axis=0, weights=weights)
    assert np.exp(found).mean(axis=0) == pytest.approx(exact, rel=0.03)
    assert np.exp(found).sum(axis=1).mean() == pytest.approx(
        np.average(sums, weights=weights), rel=0.01
    )
    spread = np.sqrt(np.average((np.exp(prior[:, 0]) - exact[0]) ** 2, weights=weights))
    assert np.exp(found[:, 0]).std() == pytest.approx(spread, rel=0.1)


def test_a_centred_belief_has_the_likely_sums_as_medians(kernel, layers):
    """Here layers were only measured together, so that their sum is known better than they are."""
    features = layers(12)
    prior = LayerPosterior.dense(np.zeros(12), 3 * kernel.covariance(features, features))
    together = sparse.csr_array(np.kron(np.eye(4), np.ones((1, 3))))
    belief = prior.observed(together, np.log([3.0, 4.0, 5.0, 6.0]), np.full(4, 1e-4))
    own, other = (
        np.median(np.exp(each.draws(1000, seed=1)) @ together.T.toarray(), axis=0)
        for each in (belief, centred(belief, together))
    )
    assert (own / [3, 4, 5, 6] > 1.08).all()
    assert other == pytest.approx([3, 4, 5, 6], rel=0.06)


def test_centring_moves_nothing_else(kernel, layers):
    """Neither the covariance, nor layers that are in none of the networks, nor single layers."""
    networks = counts([1, 0], [2, 0])
    found = centred(PRIOR, networks)
    assert found.covariance == pytest.approx(PRIOR.covariance)
    assert found.mean == pytest.approx(PRIOR.mean, abs=0.01)
    assert found.mean[1] == PRIOR.mean[1]


def test_with_nothing_measured_they_are_draws_of_the_prior():
    found = agreeing_draws(PRIOR, counts(*np.zeros((0, 2))), np.zeros(0), np.zeros(0), count=7)
    assert (found == PRIOR.draws(7)).all()


def test_they_are_the_same_each_time():
    first, again, other = (
        agreeing_draws(PRIOR, counts([1, 2]), np.zeros(1), np.full(1, 0.1), seed=seed)
        for seed in (1, 1, 2)
    )
    assert (first == again).all()
    assert (first != other).any()


@pytest.mark.parametrize("log_ms", [-9.0, 0.0, 9.0])
def test_measurements_that_nobody_expected_do_no_harm(kernel, layers, log_ms):
    """Far from what is believed, corrections could grow without end."""
    features = layers(30)
    prior = LayerPosterior.dense(np.zeros(30), 3 * kernel.covariance(features, features))
    known = sparse.csr_array(np.eye(10, 30) + np.ones((10, 30)))
    found = agreeing_draws(prior, known, np.full(10, log_ms), np.full(10, 1e-3), 0.001)
    assert np.abs(found).max() < 30
