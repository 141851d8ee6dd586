"""Advice in words and pictures."""

import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from dlbricks_pages.html.plots import MOST_SERIES, Point, dots
from dlbricks_serving.advice.advice import Advice, AdviceRequest, Alternative
from dlbricks_serving.advice.places import Place
from dlbricks_serving.advice.report.data import advice_data
from dlbricks_serving.advice.report.front import Candidate, pareto
from dlbricks_serving.advice.report.page import advice_page
from dlbricks_serving.advice.report.terminal import print_advice
from dlbricks_serving.advice.report.words import explained, money, share
from dlbricks_serving.advice.requirements import RequiredFigure, Requirement
from dlbricks_serving.advice.search import rank

from dlbricks_core.facts import Setup, System
from dlbricks_core.figures.figure import RESAMPLES
from dlbricks_core.report.tables import Console


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
    assert any(each.startswith("Per s") for each in explained(AdviceRequest()))
    assert not any(
        each.startswith("Per s") for each in explained(AdviceRequest(), per_second=False)
    )


@pytest.mark.parametrize(("ms", "tables"), [(1.0, 1), (400_000.0, 2)])
def test_bounds_have_a_table_of_their_own_where_figures_are_long(capsys, ms, tables):
    bounds = [Requirement.read(f"{name}<=900s") for name in ("load-time", "cold-start")]
    draws = ms * np.linspace(0.5, 1.5, RESAMPLES)
    known = [RequiredFigure(each, ms, draws, "measured") for each in bounds]
    system = SimpleNamespace(cpu="A", fingerprint="47f667cd")
    place = Place(system, Setup("onnxruntime", "1.31.1", "{}", 2, "p", "1"))
    job = SimpleNamespace(name="a model")
    it = Alternative(job, place, ms, draws, "measured", {}, required=known)
    wanted = AdviceRequest(requirements=bounds)
    advice = Advice(wanted, [rank("a model", [it], wanted)], [], [], [])
    print_advice(Console(width=80), advice)
    printed = capsys.readouterr().out
    assert len(re.findall("^ Place", printed, re.M)) == tables
    assert "First" in printed
    assert max(map(len, printed.splitlines())) <= 80


SYSTEM = System.from_dict("47f667cd", {"cpu": "A"})


def places_of(models, wanted, threads=(1, 2), accuracy=None):
    """Advice on models that take as many milliseconds as their number times the threads."""
    ranked = []
    for number, model in enumerate(models, 1):
        found = []
        for each in threads:
            value = float(number * each)
            draws = value * np.linspace(0.5, 1.5, RESAMPLES)
            known = [RequiredFigure(it, value, draws, "measured") for it in wanted.others]
            place = Place(SYSTEM, Setup("onnxruntime", "1.31.1", "{}", each, "p", "1"))
            job = SimpleNamespace(name=model, source=model)
            found.append(Alternative(job, place, value, draws, "measured", {}, required=known,
                                     accuracy=accuracy))  # fmt: skip
        ranked.append(rank(model, found, wanted))
    return Advice(wanted, ranked, [], [], [])


def plots_of(page):
    """The plots of a page for wide screens, as SVG."""
    return re.findall(r'<div class="wide">(<svg.*?</svg>)', page, re.DOTALL)


def test_models_share_a_chart_with_a_line_at_the_bound():
    wanted = AdviceRequest(max_latency_ms=3.5)
    (plot,) = plots_of(advice_page(places_of(["cat", "dog"], wanted)))
    words = re.findall("<text[^>]*>([^<]*)</text>", plot)
    assert {"cat", "dog", "bound: 3.50 ms"} <= set(words)
    assert sum("2 threads" in each for each in words) == 1
    assert "stroke-dasharray" in plot
    (plot,) = plots_of(advice_page(places_of(["cat", "dog"], AdviceRequest())))
    assert "stroke-dasharray" not in plot


def test_each_bounded_quantity_has_a_chart_with_its_line():
    bounds = [Requirement.read("load-time<=4ms"), Requirement.read("cold-start<=5ms")]
    wanted = AdviceRequest(max_latency_ms=3.0, requirements=bounds)
    plots = plots_of(advice_page(places_of(["cat", "dog"], wanted)))
    assert [re.findall("bound: [^<]*", each) for each in plots] == [
        ["bound: 3.00 ms"], ["bound: 4.00 ms"], ["bound: 5.00 ms"]
    ]  # fmt: skip


def test_more_models_than_colours_have_several_charts():
    models = [f"model {number}" for number in range(MOST_SERIES + 1)]
    first, second = plots_of(advice_page(places_of(models, AdviceRequest())))
    assert [model for model in models if f">{model}<" in first] == models[:-1]
    assert "model 7, by place" in second


def test_bounds_on_cost_and_merit_are_lines_of_the_front():
    candidates = [Candidate("a", Point(1.0), 60.0, True), Candidate("b", Point(9.0), 80.0, True)]
    page = pareto("front", candidates, "cost", "merit", "t", {"most 5": 5.0}, {"least 70": 70.0})
    assert page.count("most 5") == page.count("least 70") == 2


def test_an_interval_that_reaches_to_zero_leaves_an_axis_with_numbers():
    points = [Point(1.5, (1e-9, 4.0)), Point(14.0, (11.0, 18.0))]
    (plot,) = plots_of(dots("p", ["a", "b"], {"": points}, "MiB", "t"))
    assert {">1<", ">10<"} <= set(re.findall(">[0-9.]+<", plot))


def beside_others(load):
    """Advice on a model whose latency with two threads is quiet and with one beside others."""
    wanted = AdviceRequest()
    (ranking,) = places_of(["cat"], wanted).rankings
    found = [
        replace(it.alternative, load=load * (it.alternative.place.setup.threads == 1))
        for it in ranking.ranked
    ]
    return Advice(wanted, [rank("cat", found, wanted)], [], [], [])


def test_latencies_that_were_measured_beside_other_programs_are_marked(capsys):
    advice = beside_others(0.35)
    print_advice(Console(width=80), advice)
    printed = capsys.readouterr().out
    assert printed.count("load 35%") == 1
    assert "1 of 2 latencies rest on samples" in " ".join(printed.split())
    page = advice_page(advice)
    assert page.count("measured, load 35%") == 1
    data = advice_data(advice)
    assert [each["load"] for each in data["rankings"][0]["alternatives"]] == [0.35, 0]
    assert [each["severity"] for each in data["notes"]] == ["doubtful"]
    assert not advice.is_complete
    print_advice(Console(width=80), beside_others(0.0))
    assert "load" not in capsys.readouterr().out


def test_advice_is_complete_where_a_little_load_widens_an_interval():
    advice = beside_others(0.15)
    assert advice.is_complete
    assert [each["severity"] for each in advice_data(advice)["notes"]] == ["warning"]
