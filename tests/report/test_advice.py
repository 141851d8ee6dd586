"""Advice in words and pictures."""

import re

import pytest

from dlbricks_core.facts import Setup
from dlbricks_core.report.advice.words import explained, money, share
from dlbricks_core.report.html.plots import Candidate, Point, pareto
from dlbricks_core.workflows.advice import Wanted


@pytest.mark.parametrize(
    ("price", "text"),
    [
        (0.00123456, "0.00123"),
        (0.125, "0.125"),
        (1.0, "1.00"),
        (123.4, "123"),
        (999.4, "999"),
        (999.6, "1,000"),
        (1.2e6, "1,200,000"),
    ],
)
def test_a_price_has_three_digits(price, text):
    assert money(price) == text


@pytest.mark.parametrize(
    ("probability", "text"),
    [(0.0, "<1%"), (0.004, "<1%"), (0.5, "50%"), (0.99, "99%"), (0.999, ">99%"), (1.0, ">99%")],
)
def test_draws_cannot_tell_certainty(probability, text):
    assert share(probability) == text


def test_the_front_names_models_and_is_drawn_twice():
    candidates = [
        Candidate("cheap <b>", Point(1.0, (0.9, 1.1)), 60.0, True),
        Candidate("dear", Point(50.0), 80.0, True),
        Candidate("", Point(70.0, (60.0, 80.0)), 60.0, False),
    ]
    page = pareto("front", candidates, "price", "accuracy", "all of them")
    assert len(re.findall("<svg", page)) == 2
    assert page.count("dear") == 2
    assert "<b>" not in page


def test_inferences_per_second_are_explained_only_where_they_are_shown():
    assert any(each.startswith("Per s") for each in explained(Wanted()))
    assert not any(each.startswith("Per s") for each in explained(Wanted(), per_second=False))


@pytest.mark.parametrize(("threads", "told"), [(1, "1 thread"), (2, "2 threads")])
def test_one_thread_is_told_as_one(threads, told):
    assert Setup("a", "1", "{}", threads, "p", "1").told_threads == told
