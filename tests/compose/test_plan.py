"""Plans: what is timed, and what is known of bricks when some of it fails."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlbricks_core.bricks import Brick
from dlbricks_core.compose import OwnFigure, Plan, Scaled
from dlbricks_core.figures.figure import Measured
from dlbricks_core.figures.protocols import PROTOCOLS
from dlbricks_core.ir import CanonicalModel

NAMES = "abcd"


def figure(ms, overhead=0.0):
    return Measured((ms,) * 5, PROTOCOLS["interleaved"], overhead)


def bricks(names):
    model = CanonicalModel("nothing", (), (), (), {})
    return {name: Brick(name, model) for name in names}


def test_recipes_give_no_figure_if_a_source_has_none():
    for recipe in (OwnFigure("a"), Scaled("a", "b", 2.0, 0.1)):
        assert recipe.figure({"d": figure(1.0)}) is None


def test_overhead_is_not_scaled():
    known = {"b": figure(3.0, 1.0)}
    assert Scaled("a", "b", 0.25, 0.1).figure(known).value == pytest.approx(1 + 0.5)


def test_the_first_recipe_that_gives_a_figure_counts():
    several = (OwnFigure("a"), Scaled("a", "b", 2.0, 0.1), Scaled("a", "c", 3.0, 0.1))
    plan = Plan(bricks("bc"), {"a": several, "b": [OwnFigure("b")], "c": [OwnFigure("c")]})
    known = {name: figure(1.0) for name in "abc"}
    assert plan.figures(known) == known
    del known["a"]
    assert plan.figures(known)["a"].value == pytest.approx(2.0)
    del known["b"]
    assert plan.figures(known)["a"].value == pytest.approx(3.0)
    assert "b" not in plan.figures(known)
    assert plan.sources("a") == ("b",)
    assert plan.not_timed == {"a"}


def test_a_plan_that_times_something_else_than_bricks_is_refused():
    with pytest.raises(ValueError, match="1 networks to be timed are no bricks of the set"):
        Plan(bricks("ab"), {"a": [OwnFigure("a")]})


def test_a_plan_without_a_timed_source_for_a_brick_is_refused():
    with pytest.raises(ValueError, match="no timed brick gives a figure for brick a"):
        Plan(bricks("b"), {"a": [OwnFigure("a")], "b": [OwnFigure("b")]})


scaled = st.tuples(st.sampled_from(NAMES), st.floats(0.1, 10))


@given(st.dictionaries(st.sampled_from(NAMES), st.lists(scaled, min_size=1), min_size=1),
       st.dictionaries(st.sampled_from(NAMES), st.integers(1, 5)))  # fmt: skip
def test_a_sum_over_bricks_is_a_weighted_sum_over_timed_networks(others, counts):
    plan = Plan(
        bricks(NAMES),
        {name: [Scaled(name, *each, 0.0) for each in others.get(name, [])] or [OwnFigure(name)]
         for name in NAMES},
    )  # fmt: skip
    known = {name: figure(2.0**i) for i, name in enumerate(NAMES)}
    figures = plan.figures(known)
    weights = plan.weights(counts)
    assert sum(counts[name] * figures[name].own for name in counts) == pytest.approx(
        sum(weight * known[name].own for name, weight in weights.items())
    )
