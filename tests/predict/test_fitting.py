"""Pulls from many networks against the belief after an observation of these."""

from __future__ import annotations

import numpy as np
import pytest
from dlbricks_prediction import fitting
from dlbricks_prediction.fitting import ObservedNetworks, fitted_pulls
from dlbricks_prediction.grouped import ErrorGroup, Grouped
from dlbricks_prediction.layer_posterior import LayerPosterior, Sessions
from scipy import sparse

LAYERS, NETWORKS = 60, 300
RANDOM = np.random.default_rng(3)


@pytest.fixture
def prior():
    groups = []
    for layers in np.split(RANDOM.permutation(LAYERS), [25]):
        root = RANDOM.standard_normal((len(layers), LAYERS)) / 8
        groups.append(ErrorGroup(layers, 0.05 * np.eye(len(layers)) + root @ root.T))
    return LayerPosterior.untold(
        np.zeros(LAYERS), Grouped(tuple(groups), np.full((LAYERS, 1), 0.4))
    )


def observed(noise, sessions=None):
    counts = (RANDOM.random((NETWORKS, LAYERS)) < 0.04) + np.eye(NETWORKS, LAYERS)
    counts[np.arange(NETWORKS), RANDOM.integers(LAYERS, size=NETWORKS)] += 1
    layers = RANDOM.standard_normal(LAYERS) / 2
    log_ms = np.log(counts @ np.exp(layers) + 0.1)
    log_ms += np.sqrt(noise) * RANDOM.standard_normal(NETWORKS)
    variances, call_ms = np.full(NETWORKS, noise), np.full(NETWORKS, 0.1)
    return ObservedNetworks(sparse.csr_array(counts), log_ms, variances, call_ms, sessions)


def mean_of(prior, it):
    """The mean after an observation, by steps that each have a factor of their own."""
    return prior.observed(it.counts, it.log_ms, it.noise, it.call_ms, it.sessions).mean


@pytest.mark.parametrize("few", [30, 1000])
@pytest.mark.parametrize("in_sessions", [False, True])
def test_pulls_say_how_far_the_mean_of_any_layer_moves(prior, monkeypatch, few, in_sessions):
    monkeypatch.setattr(fitting, "_FEW", few)
    sessions = Sessions(np.arange(NETWORKS) % 3, 0.02) if in_sessions else None
    it = observed(0.01, sessions)
    pulls = fitted_pulls(prior, it)
    moved = prior.mean + prior.covariance @ pulls
    assert moved == pytest.approx(mean_of(prior, it), abs=0.02)
    near = fitted_pulls(prior, it, 0.98 * pulls)
    assert prior.covariance @ (near - pulls) == pytest.approx(0, abs=0.02)


def test_networks_without_errors_are_factored_in_double_precision(prior, monkeypatch):
    used = []

    def factor(spread, shares, it):
        used.append(spread.shared.dtype)
        if used[-1] == np.float32:
            raise np.linalg.LinAlgError
        return original(spread, shares, it)

    original = fitting._factor
    monkeypatch.setattr(fitting, "_factor", factor)
    it = observed(0.01)
    moved = prior.mean + prior.covariance @ fitted_pulls(prior, it)
    assert moved == pytest.approx(mean_of(prior, it), abs=0.02)
    assert used[:2] == [np.float32, np.float64]
