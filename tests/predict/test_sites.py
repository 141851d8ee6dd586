"""Sites against what the networks themselves tell."""

from __future__ import annotations

import numpy as np
import pytest
from dlbricks_prediction.grouped import ErrorGroup, Grouped
from dlbricks_prediction.layer_posterior import LayerPosterior
from dlbricks_prediction.sites import sites_of
from scipy import sparse


def prior(layers):
    groups = [ErrorGroup(each, np.eye(len(each)) + 0.2) for each in np.split(np.arange(layers), 2)]
    return LayerPosterior.untold(
        np.zeros(layers), Grouped(tuple(groups), np.full((layers, 1), 0.3))
    )


def test_the_site_of_a_layer_that_was_timed_alone_is_its_noise():
    counts, noise = sparse.csr_array(np.eye(6)), np.linspace(0.02, 0.1, 6)
    found = sites_of(prior(6), counts, noise, np.zeros(6), np.zeros(6))
    assert found.variances == pytest.approx(noise, rel=0.15)


def test_conditioned_on_sites_layers_are_as_certain_as_on_the_networks():
    belief, random = prior(40), np.random.default_rng(2)
    counts = sparse.csr_array((random.random((60, 40)) < 0.05) + np.eye(60, 40))
    counts, noise = counts[np.diff(counts.indptr) > 0], 0.01
    size = counts.shape[0]
    found = sites_of(belief, counts, np.full(size, noise), np.zeros(size), np.zeros(40))
    exact = belief.narrowed(counts, np.full(size, noise)).variances
    sited = belief.narrowed(sparse.csr_array(np.eye(40)), found.variances).variances
    assert np.median(np.abs(np.log(sited / exact))) < 0.15


def test_a_layer_that_no_network_holds_has_a_site_that_tells_nothing():
    counts = sparse.csr_array(np.eye(3, 4))
    found = sites_of(prior(4), counts, np.full(3, 0.01), np.zeros(3), np.zeros(4))
    assert found.variances[3] > 1e3
    assert 0 < found.common < 1
