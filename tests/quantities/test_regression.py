"""Regressions of quantities on sizes of networks."""

import numpy as np
import pytest
from dlbricks_prediction.features import NAMES, Features
from dlbricks_quantities.regression import FEWEST, Regression, size_of
from hypothesis import given, settings
from hypothesis import strategies as st

from dlbricks_core.figures.figure import interval

FAMILIES = ("ash", "birch", "cedar", "date", "elm", "fir")


def networks(count, seed=0):
    """Sizes of networks, and families that they take turns in."""
    random = np.random.default_rng(seed)
    sizes = np.exp(random.uniform(np.log([1e4, 1e4, 1]), np.log([1e8, 1e7, 50]), (count, 3)))
    return sizes, [FAMILIES[i % len(FAMILIES)] for i in range(count)]


@settings(max_examples=30)
@given(st.lists(st.floats(0, 10), min_size=4, max_size=4).filter(lambda each: sum(each) > 0.1))
def test_what_is_linear_is_found_again(coefficients):
    sizes, families = networks(30)
    constant, *factors = coefficients
    values = constant + sizes @ (np.array(factors) * [1e-6, 1e-6, 1e-1])
    fitted = Regression.fitted(sizes, values, families)
    for size, value in zip(sizes, values, strict=True):
        figure = fitted.predict(size, 5.0)
        assert figure.value == pytest.approx(5 + value, rel=0.01, abs=0.01)
        assert figure.overhead == 5.0
    assert fitted.spread < 0.05


@pytest.mark.long
@settings(max_examples=30)
@given(st.floats(1.5, 5), st.floats(0.5, 2))
def test_the_larger_of_a_sum_and_a_least_value_is_found_again(weights, maps):
    sizes, families = networks(60)
    values = np.maximum(
        1 + sizes @ [1e-6, maps * 1e-5, 0.1], weights * (sizes[:, 0] + sizes[:, 1]) * 1e-6
    )
    fitted = Regression.fitted(sizes, values, families, least=(0, 1))
    assert fitted.sums(sizes) == pytest.approx(values, rel=0.02, abs=0.02)
    alone = Regression.fitted(sizes, values, families)
    assert fitted.spread < 0.5 * alone.spread
    assert not alone.sums.least.any()


def test_a_least_value_that_no_network_reaches_changes_nothing():
    sizes, families = networks(30)
    values = 1 + sizes @ [3e-6, 1e-6, 1e-2]
    fitted = Regression.fitted(sizes, values, families, least=(0,))
    assert fitted.sums(sizes) == pytest.approx(values, rel=0.01)
    nothing = sizes * [0, 1, 1]
    empty = Regression.fitted(nothing, 1 + nothing.sum(axis=1), families, least=(0,))
    assert not empty.sums.least.any()


def test_too_few_networks_or_families_tell_nothing():
    sizes, families = networks(FEWEST)
    values = sizes[:, 0]
    assert Regression.fitted(sizes, values, families)
    assert Regression.fitted(sizes[1:], values[1:], families[1:]) is None
    assert Regression.fitted(sizes, values, ["ash", "birch"] * (FEWEST // 2)) is None


def test_intervals_hold_what_families_that_were_not_seen_take():
    held, count = 0, 200
    for seed in range(count):
        random = np.random.default_rng(seed)
        sizes, families = networks(36, seed)
        # A framework treats each family in its own way, and each network a little differently.
        own = dict(zip(FAMILIES, np.exp(0.3 * random.standard_normal(6)), strict=True))
        noise = np.exp(0.1 * random.standard_normal(36))
        truth = 1 + sizes @ [2e-6, 1e-6, 1e-2]
        values = truth * noise * [own[each] for each in families]
        new, off = sizes[0] * 1.1, np.exp(0.3 * random.standard_normal())
        figure = Regression.fitted(sizes, values, families).predict(new, 0.0)
        low, high = interval(figure.plausible)
        held += low <= off * (1 + new @ [2e-6, 1e-6, 1e-2]) <= high
    assert 0.8 <= held / count <= 0.99


def test_nothing_is_told_of_networks_that_are_much_larger():
    sizes, families = networks(24)
    fitted = Regression.fitted(sizes, sizes[:, 0], families)
    assert fitted.tells_of(sizes.max(axis=0))
    assert not fitted.tells_of(sizes.max(axis=0) * [1, 2.1, 1])


def test_ends_are_no_layers():
    row = np.zeros(len(NAMES))
    row[[NAMES.index("weight_bytes"), NAMES.index("written_bytes")]] = 10, 4
    features = Features(("enter:other", "elementwise", "leave:other"), np.array([row] * 3))
    assert size_of(features) == pytest.approx([2**10, 2**4, 1], rel=0.1)


def test_errors_are_those_of_families_that_were_left_out():
    # Each family varies in a feature of its own: together they are fitted exactly, and what the
    # others tell of one is nothing.
    amounts = np.linspace(1, 10, 5)
    sizes = np.vstack([np.outer(amounts, direction) for direction in np.eye(3)])
    families = [name for name in FAMILIES[:3] for _ in amounts]
    fitted = Regression.fitted(sizes, 1 + sizes.sum(axis=1), families)
    assert fitted.sums.coefficients == pytest.approx([1, 1, 1, 1])
    assert fitted.spread > 0.5
