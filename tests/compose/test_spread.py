"""The spread of models that are predicted, as models left out proved to need it."""

import numpy as np
import pytest

from dlbricks_core.bricks import BrickSet
from dlbricks_core.compose.learned import Learned
from dlbricks_core.figures import RESAMPLES, Measured, Predicted
from dlbricks_core.figures.predicted import Discrepancy, Placed, SpreadFactor
from dlbricks_core.figures.protocols import PROTOCOLS

SPREAD = 0.1
FACTOR = SpreadFactor(0.5, 0.25)


@pytest.fixture
def cut(builder):
    """A model of two bricks."""
    b = builder()
    (found,) = BrickSet.of([b.model(b.add("Tanh", b.add("Relu", b.input)))]).models
    assert len(found.counts) == 2
    return found


def predicted(ms, factor=FACTOR):
    draws = ms * np.exp(SPREAD * np.random.default_rng(0).standard_normal(RESAMPLES))
    return Predicted(ms, draws, discrepancy=Discrepancy(spread=factor))


def deviation(estimate):
    return np.std(np.log(estimate.draws)) / SPREAD


def test_the_factor_falls_with_the_latency_within_what_it_was_fitted_to():
    assert FACTOR.of(20) == pytest.approx(0.5)
    assert FACTOR.of(320) == pytest.approx(0.25)
    assert FACTOR.of(1.25) == pytest.approx(1.0)
    assert FACTOR.of(0.001) == FACTOR.of(1)
    assert FACTOR.of(1e6) == FACTOR.of(400) < FACTOR.of(300)
    assert SpreadFactor().of(7.0) == 1


@pytest.mark.parametrize(("half_ms", "factor"), [(10.0, 0.5), (160.0, 0.25), (0.625, 1.0)])
def test_draws_of_a_predicted_model_scatter_by_the_factor(cut, half_ms, factor):
    figures = {s: predicted(half_ms) for s in cut.counts}
    plain = Learned().compose(cut, {s: predicted(half_ms, SpreadFactor()) for s in cut.counts})
    found = Learned().compose(cut, figures)
    assert deviation(found) == pytest.approx(factor * deviation(plain), rel=0.02)
    assert found.value == plain.value
    assert np.median(found.draws) == pytest.approx(np.median(plain.draws))


def test_measured_bricks_need_no_factor(cut):
    first, last = cut.counts
    figures = {first: predicted(10.0), last: predicted(10.0)}
    measured = Placed(Measured((10.0,) * 5, PROTOCOLS["interleaved"]), predicted(10.0))
    half = deviation(Learned().compose(cut, figures | {last: measured}))
    every = deviation(Learned().compose(cut, {first: measured, last: measured}))
    assert (half, every) == pytest.approx((0.75, 1.0), rel=0.05)
