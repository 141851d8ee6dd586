"""The choice of probes: what tells most per second, given those before."""

import numpy as np
import pytest
from dlbricks_prediction.layer_posterior import LayerPosterior
from dlbricks_survey.probes import OVERHEAD_S, choose_probes, gain, half_widths
from scipy import sparse

ONE = sparse.csr_array(np.ones((1, 4)))
EACH = sparse.csr_array(np.eye(4))


def chosen(covariance, most=1, ms=(1, 1, 1, 1), candidates=EACH, asked=ONE, noise=1e-6):
    covariance = np.array(covariance, dtype=float)
    belief = LayerPosterior.dense(
        np.log(np.array(ms, dtype=float)) - np.diag(covariance) / 2, covariance
    )
    return choose_probes(belief, candidates, asked, noise, 8, most)


def test_the_layer_with_the_largest_share_of_the_variance_is_first():
    assert chosen(np.diag([0.1, 0.4, 0.2, 0.3]), 4) == [1, 3, 2, 0]
    assert chosen(np.diag([0.1] * 4), 4, ms=(3, 9, 1, 2))[:2] == [1, 0]


def test_a_layer_that_stands_for_others_comes_before_one_that_stands_for_itself():
    alike = 0.1 * np.array([[1, 0.9, 0.9, 0], [0.9, 1, 0.8, 0], [0.9, 0.8, 1, 0], [0, 0, 0, 2]])
    assert chosen(alike, 2) == [0, 3]


def test_seconds_count():
    """Both layers tell the same of the sum; the runs of one of them take long."""
    same = 0.1 * np.ones((4, 4)) + 1e-6 * np.eye(4)
    slow = OVERHEAD_S * 1e3
    assert chosen(same, ms=(slow, slow, slow / 100, slow)) == [2]


@pytest.mark.parametrize("seed", range(5))
def test_each_is_what_a_closed_form_says_given_those_before(seed):
    random = np.random.default_rng(seed)
    half = random.normal(size=(4, 4))
    covariance, ms = 0.02 * half @ half.T, random.uniform(1, 5, 4)
    asked = sparse.csr_array(random.integers(0, 3, (3, 4)) + np.eye(3, 4))
    shares = asked.toarray() * ms / (asked @ ms)[:, None]

    def variance(known):
        """Of the sums, once these layers are known."""
        own, others = covariance[np.ix_(known, known)], covariance[:, known]
        left = covariance - others @ np.linalg.solve(own, others.T)
        return (shares @ left @ shares.T).trace()

    expected = []
    for _ in range(3):
        open_ = [i for i in range(4) if i not in expected]
        gain = {
            i: (variance(expected) - variance([*expected, i])) / (OVERHEAD_S + 8 * ms[i] / 1e3)
            for i in open_
        }
        expected.append(max(gain, key=gain.get))
    assert chosen(covariance, 3, ms, asked=asked, noise=1e-9) == expected


def test_none_is_chosen_twice_and_there_are_no_more_than_candidates():
    assert sorted(chosen(np.diag([0.1, 0.2, 0.3, 0.4]), 9)) == [0, 1, 2, 3]


def test_half_widths_are_those_of_the_sums():
    belief = LayerPosterior.dense(np.zeros(4), 0.01 * np.eye(4))
    found = half_widths(belief, sparse.csr_array([[4.0, 0, 0, 0], [1, 1, 1, 1]]))
    assert found == pytest.approx([0.165, 0.0823], rel=0.01)


def test_the_gain_of_probes_is_what_they_narrow_by():
    covariance = np.diag([0.1, 0.1, 0.1, 0.1])
    belief = LayerPosterior.dense(np.zeros(4), covariance)
    half = sparse.csr_array(np.eye(4)[:2])
    left = np.sinh(1.645 * np.sqrt(0.1 / 4 / 2)) / np.sinh(1.645 * np.sqrt(0.1 / 4))
    assert gain(belief, half, ONE, 1e-9) == pytest.approx((1 - left) / 2, rel=0.01)
    assert gain(belief, EACH, ONE, 1e-9) == pytest.approx(1 / 4, rel=0.01)
    assert gain(belief, half, ONE, 1e6) == pytest.approx(0.0, abs=1e-6)
