"""Errors that the bricks of one model have in common, against truths that have them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlbricks_core.bricks import BrickSet
from dlbricks_core.compose.base import common_error
from dlbricks_core.compose.learned import Learned
from dlbricks_core.figures import RESAMPLES, Measured, Predicted
from dlbricks_core.figures.figure import interval, relative_half_width
from dlbricks_core.figures.predicted import Discrepancy, Placed
from dlbricks_core.figures.protocols import PROTOCOLS

OPERATORS = ("Relu", "Tanh", "Abs", "Neg", "Exp", "Cos")
APART = Discrepancy(predicted=0.2, measured=0.05)
SPREAD = 0.03


def predicted(ms, seed=0, discrepancy=APART):
    draws = ms * np.exp(SPREAD * np.random.default_rng(seed).standard_normal(RESAMPLES))
    return Predicted(ms, draws, discrepancy=discrepancy)


def placed(figure):
    measured = Measured((figure.value,) * 5, PROTOCOLS["interleaved"])
    return Placed(measured, figure)


@pytest.fixture
def cut(builder):
    """A model with a brick for each operator, the first of which occurs twice."""
    b = builder()
    x = b.input
    for operator in (*OPERATORS, OPERATORS[0]):
        x = b.add(operator, x)
    (found,) = BrickSet.of([b.model()]).models
    assert sorted(found.counts.values()) == [1] * 5 + [2]
    return found


@pytest.mark.long
@pytest.mark.parametrize("timed", [0, 3, 6])
def test_nine_of_ten_intervals_hold_models_whose_bricks_err_together(cut, timed):
    """Each truth is a model of a family of its own; draws alone hold far fewer of them."""
    random = np.random.default_rng(timed)
    bricks = list(cut.counts)
    covered, alone = [], []
    for number in range(300):
        figures = {s: predicted(1.0 + i, 10 * number + i) for i, s in enumerate(bricks)}
        figures |= {s: placed(figures[s]) for s in bricks[:timed]}
        together, composing = random.standard_normal(2)
        true = sum(
            cut.counts[s]
            * each.value
            * np.exp(SPREAD * random.standard_normal())
            * (1 + each.common_error * together)
            for s, each in figures.items()
        ) * (1 + Learned.composing_error * composing)
        estimate = Learned().compose(cut, figures)
        low, high = estimate.interval
        covered.append(low <= true <= high)
        low, high = interval(estimate.draws)
        alone.append(low <= true <= high)
    assert 0.85 <= np.mean(covered) <= 0.95
    assert np.mean(alone) < 0.6


def test_they_shrink_with_each_brick_of_the_model_that_is_timed(cut):
    figures = {s: predicted(1.0, i) for i, s in enumerate(cut.counts)}
    widths, errors = [], []
    for signature in [None, *cut.counts]:
        if signature is not None:
            figures[signature] = placed(figures[signature])
        widths.append(relative_half_width(Learned().compose(cut, figures).interval))
        errors.append(common_error(cut, figures))
    assert widths == sorted(widths, reverse=True)
    assert errors[0] == pytest.approx(APART.predicted)
    assert errors[-1] == pytest.approx(APART.measured)
    assert np.diff(errors) == pytest.approx([-0.15 * n / 7 for n in cut.counts.values()])


def test_a_measured_whole_has_none_of_them(cut):
    figures = {s: predicted(1.0, i) for i, s in enumerate(cut.counts)}
    whole = Measured((7.0,) * 5, PROTOCOLS["interleaved"])
    estimate = Learned().compose(cut, {**figures, cut.whole.signature: whole})
    assert estimate.composing_error == 0
    assert relative_half_width(estimate.interval) < 1e-6


def test_figures_that_say_nothing_of_them_have_the_error_of_composing_alone(cut):
    figures = {s: predicted(1.0, i, Discrepancy()) for i, s in enumerate(cut.counts)}
    assert Learned().compose(cut, figures).composing_error == Learned.composing_error
    assert common_error(cut, {}) == 0


@given(
    st.lists(
        st.tuples(st.floats(0, 1e3, allow_subnormal=False), st.floats(0, 2), st.floats(0, 1)),
        min_size=6,
        max_size=6,
    ),
    st.sets(st.integers(0, 5)),
)
def test_a_model_is_off_by_no_more_than_its_bricks(parts, timed):
    counts = {str(i): i + 1 for i in range(6)}
    figures = {}
    for i, (ms, most, share) in enumerate(parts):
        figure = Predicted(ms, np.full(RESAMPLES, ms), discrepancy=Discrepancy(most, most * share))
        figures[str(i)] = placed(figure) if i in timed else figure

    class Cut:
        pass

    cut = Cut()
    cut.counts = counts
    errors = [each.common_error for each in figures.values() if each.own]
    found = common_error(cut, figures)
    if not errors:
        assert found == 0
    else:
        assert min(errors) - 1e-9 <= found <= max(errors) + 1e-9


@pytest.mark.parametrize("wrong", [-0.1, np.nan, np.inf])
def test_a_discrepancy_is_a_size(wrong):
    with pytest.raises(ValueError, match="negative or not finite"):
        Discrepancy(predicted=wrong)
    with pytest.raises(ValueError, match="negative or not finite"):
        Discrepancy(measured=wrong)
