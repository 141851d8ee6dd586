"""Advice in words and pictures."""

import re
from types import SimpleNamespace

import numpy as np
import pytest

from dlbricks_core.facts import Setup
from dlbricks_core.figures.figure import RESAMPLES
from dlbricks_core.report.advice.terminal import print_advice
from dlbricks_core.report.advice.words import explained, money, share
from dlbricks_core.report.console import Console
from dlbricks_core.report.html.plots import Candidate, Point, pareto
from dlbricks_core.workflows.advice import Advice, Alternative, Wanted
from dlbricks_core.workflows.advise import rank
from dlbricks_core.workflows.places import Place
from dlbricks_core.workflows.requirements import Known, Requirement


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


@pytest.mark.parametrize(("ms", "tables"), [(1.0, 1), (400_000.0, 2)])
def test_bounds_have_a_table_of_their_own_where_figures_are_long(capsys, ms, tables):
    bounds = [Requirement.read(f"{name}<=900s") for name in ("load-time", "cold-start")]
    draws = ms * np.linspace(0.5, 1.5, RESAMPLES)
    known = [Known(each, ms, draws, "measured") for each in bounds]
    system = SimpleNamespace(cpu="A", fingerprint="47f667cd")
    place = Place(system, Setup("onnxruntime", "1.31.1", "{}", 2, "p", "1"))
    job = SimpleNamespace(name="a model")
    it = Alternative(job, place, ms, draws, "measured", {}, required=known)
    wanted = Wanted(requirements=bounds)
    advice = Advice(wanted, [rank("a model", [it], wanted)], [], [], [])
    print_advice(Console(width=80), advice)
    printed = capsys.readouterr().out
    assert len(re.findall("^ Place", printed, re.M)) == tables
    assert "First" in printed
    assert max(map(len, printed.splitlines())) <= 80
