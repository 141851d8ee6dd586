"""Grouped covariances against the matrices that they stand for."""

from __future__ import annotations

import numpy as np
import pytest
from dlbricks_prediction.grouped import ErrorGroup, Grouped, padded, weighted
from scipy import sparse

RANDOM = np.random.default_rng(0)


def grouped(*sizes, shared=2):
    order = RANDOM.permutation(sum(sizes))
    places = np.split(order, np.cumsum(sizes)[:-1])
    roots = [RANDOM.standard_normal((len(each), len(each))) for each in places]
    groups = [ErrorGroup(each, root @ root.T) for each, root in zip(places, roots, strict=True)]
    return Grouped(tuple(groups), RANDOM.standard_normal((len(order), shared)))


@pytest.mark.parametrize("shared", [0, 2])
def test_all_products_are_those_of_the_matrix(shared):
    found = grouped(3, 4, 1, shared=shared)
    matrix, weights = found.matrix, RANDOM.standard_normal((5, 8)) * (RANDOM.random((5, 8)) < 0.4)
    sums = sparse.csr_array(weights)
    assert found.variances == pytest.approx(np.diag(matrix))
    assert found.times(weights[0]) == pytest.approx(matrix @ weights[0])
    assert found.to_layers(sums) == pytest.approx(weights @ matrix)
    assert found.between(sums) == pytest.approx(weights @ matrix @ weights.T)
    assert found.solved(weights @ matrix) == pytest.approx(weights, abs=1e-4)
    root = found.moved(np.eye(found.sources))
    assert root.T @ root == pytest.approx(matrix)
    assert found.traced(weights) == pytest.approx(weights @ root.T)


def test_sums_of_many_networks_are_formed_in_blocks(monkeypatch):
    monkeypatch.setattr("dlbricks_prediction.grouped._BLOCK", 3)
    found, weights = grouped(3, 4, 1), RANDOM.standard_normal((8, 8))
    exact = weights @ found.matrix @ weights.T
    assert found.between(sparse.csr_array(weights)) == pytest.approx(exact)
    single = found.single.below(sparse.csr_array(weights.astype(np.float32)))
    assert single.dtype == np.float32
    assert np.tril(single) == pytest.approx(np.tril(exact), rel=1e-3, abs=1e-3)


def test_a_part_a_sum_and_parts_side_by_side():
    found = grouped(3, 4, 1)
    some = np.array([6, 0, 3])
    assert found.of(some).matrix == pytest.approx(found.matrix[np.ix_(some, some)])
    twice = weighted([(1.5, found), (0.5, found)])
    assert twice.matrix == pytest.approx(2 * found.matrix)
    first, second = np.array([0, 2]), np.array([3, 1])
    both = padded([first, second], [found.of(first), found.of(second)]).matrix
    assert both[np.ix_(second, second)] == pytest.approx(found.of(second).matrix)
    assert both[np.ix_(first, second)] == pytest.approx(np.zeros((2, 2)))
