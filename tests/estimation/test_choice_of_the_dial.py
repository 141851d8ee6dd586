"""The choice of the dial: which networks are timed next, and what that costs."""

import numpy as np
import pytest

from dlbricks_core.estimation.adaptive.acquisition import Choice
from dlbricks_core.figures.figure import RESAMPLES
from dlbricks_core.measure.costs import Costs
from dlbricks_core.measure.planner import Uncertain


@pytest.fixture
def choice():
    """Two models, each of a brick of its own, which could be timed like the two wholes."""

    def made(half_widths, settled, seconds=(1.0, 1.0, 5.0, 5.0)):
        networks = np.exp(np.random.default_rng(0).normal(0, 0.2, (RESAMPLES, 2)))
        counts = np.array([[1.0, 0, 1, 0], [0, 1, 0, 1]])
        every = np.hstack([networks, networks])
        errors = np.full(4, 0.01)
        uncertain = Uncertain(
            networks, every, counts, np.array(seconds), errors, np.zeros(len(counts)), 0 * counts
        )
        names = ["a brick", "another brick", "one", "another"]
        halves, done = np.array(half_widths), np.array(settled)
        return Choice(names, uncertain, halves, names[2:], done)

    return made


@pytest.mark.parametrize(
    ("half_widths", "settled", "timed"),
    [((0.3, 0.3), (False, False), {"a brick", "another brick"}),
     ((0.3, 0.01), (False, False), {"a brick"}),
     ((0.3, 0.3), (False, True), {"a brick"}),
     ((0.3, 0.01), (True, False), set())],
)  # fmt: skip
def test_only_models_that_lack_precision_and_are_not_settled_count(
    choice, half_widths, settled, timed
):
    assert set(choice(half_widths, settled).batch(0.1, 100.0, 0.0)) == timed


def test_a_brick_that_takes_longer_than_the_only_model_it_serves_is_not_timed(choice):
    found = choice((0.3, 0.3), (False, False), seconds=(9.0, 1.0, 5.0, 5.0))
    assert set(found.batch(0.1, 100.0, 0.0)) == {"one", "another brick"}


def test_a_network_that_takes_longer_than_its_share_is_no_probe(choice):
    found = choice((0.3, 0.3), (False, False), seconds=(9.0, 1.0, 5.0, 5.0))
    assert found.first(4, 0.1, 2.0) == ["another brick"]
    assert found.first(1, 0.1, 100.0) == ["another brick"]
    assert found.first(4, 0.1, 0.5) == []


def test_networks_that_hardly_take_time_cost_little_more_than_loading(builder):
    b = builder((1, 4))
    b.relu(b.input)
    model = b.model()
    usual = Costs()
    assert usual.seconds(model, 0.0, 4) < usual.seconds(model, 10.0, 4) < 0.3
    assert Costs(3.0).seconds(model, 1.0, 4) == pytest.approx(3 * usual.seconds(model, 1.0, 4))
