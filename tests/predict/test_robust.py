"""Observations that contradict the others tell less."""

import numpy as np
import pytest
from dlbricks_prediction.layer_posterior import LayerPosterior
from dlbricks_prediction.robust import doubt
from scipy import sparse

SIZE = 8


@pytest.fixture
def belief():
    """Layers with most of their variance in common."""
    return LayerPosterior.dense(np.zeros(SIZE), 0.25 + 0.01 * np.eye(SIZE))


def observe(belief, log_ms):
    counts, noise = sparse.csr_array(np.eye(len(log_ms), SIZE)), np.full(len(log_ms), 1e-4)
    return counts, np.array(log_ms), noise


def test_observations_that_agree_are_believed(belief):
    assert doubt(belief, *observe(belief, [0.5, 0.52, 0.48, 0.5, 0.51])) == pytest.approx(
        0, abs=1e-4
    )


def test_one_that_contradicts_the_others_is_doubted_alone(belief):
    counts, log_ms, noise = observe(belief, [0.0, 0.02, -0.02, 0.01, 1.0])
    extra = doubt(belief, counts, log_ms, noise)
    assert extra[4] > 0.1
    assert extra[:4] == pytest.approx(0, abs=0.02)
    plain = belief.observed(counts, log_ms, noise)
    robust = belief.observed(counts, log_ms, noise + extra)
    assert plain.mean[SIZE - 1] > 0.15  # a layer that nobody observed
    assert robust.mean[SIZE - 1] < 0.05
    assert robust.covariance[-1, -1] > plain.covariance[-1, -1]


def test_one_alone_has_nothing_that_contradicts_it(belief):
    assert doubt(belief, *observe(belief, [3.0])) == pytest.approx([0.0])
    assert doubt(belief, *observe(belief, [])).shape == (0,)


def test_what_a_call_costs_is_no_contradiction(belief):
    counts, log_ms, noise = observe(belief, [0.0, 0.0, 0.0])
    call_ms = np.array([0.0, 0.0, 5.0])
    log_ms[2] = np.log(1 + 5.0)
    assert doubt(belief, counts, log_ms, noise, call_ms) == pytest.approx(0, abs=1e-6)


def test_doubt_is_that_of_inverses_of_the_whole_covariance(belief):
    counts, log_ms, noise = observe(belief, [0.0, 0.4, -0.02, 0.01, 1.0])
    covariance, extra = 0.25 + (0.01 + 1e-4) * np.eye(5), np.zeros(5)
    for _ in range(6):
        inverse = np.linalg.inv(covariance + np.diag(extra))
        scale = np.diag(inverse)
        deviation, variance = inverse @ log_ms / scale, 1 / scale - extra
        wanted = variance * np.maximum((deviation**2 / variance - 1) / 5, 0.0)
        extra = (extra + wanted) / 2
    assert doubt(belief, counts, log_ms, noise) == pytest.approx(extra)
