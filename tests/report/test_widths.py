"""Sentences on wide intervals: none says that a latency may be 97% less."""

import json
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from dlbricks_survey import calibration as probes
from dlbricks_survey import report as survey

from dlbricks_core.commands.estimate import terminal as words
from dlbricks_core.estimation.results import AdaptiveRun, Characterized, Offer
from dlbricks_core.facts.note import note
from dlbricks_core.measure.schedule import not_within
from dlbricks_core.report.notes import text

OFFERS = (Offer(0.8, 2.0), Offer(0.1, 7.0))


def dialled(*half_widths, value=1.0):
    probed = Characterized(3, 2.0, 0.97, 0.8)
    dial = AdaptiveRun(
        half_widths, timed=1, wholes=0, importing_s=0.0, offers=OFFERS, probed=probed
    )
    models = [SimpleNamespace(estimate=SimpleNamespace(value=value)) for _ in half_widths]
    return SimpleNamespace(adaptive=dial, brickset=SimpleNamespace(bricks=range(4)), models=models)


def test_the_dial_tells_wide_intervals_by_a_factor():
    assert words.precision_reached(dialled(0.97)) == (
        "1 of 4 bricks timed: within a factor of 8.1 now; within a factor of 3 after about 2 s "
        "more; ±10% after about 7 s more."
    )
    assert words.precision_reached(dialled(0.2, 0.3)).startswith(
        "1 of 4 bricks timed: at most ±30.0% now; "
    )
    assert words.probed(dialled(0.97)).endswith(
        "; within a factor of 8.1 before, within a factor of 3 with them."
    )


def test_the_dial_says_where_more_time_buys_nothing():
    narrowest = "±20.0% now; no further run is known to narrow it"
    for half, told in (0.2, narrowest), (0.05, "±5.0% now"):
        found = dialled(half)
        found.adaptive = replace(found.adaptive, offers=())
        assert words.precision_reached(found) == f"1 of 4 bricks timed: {told}."


def test_a_long_wait_for_quiet_stands_beside_the_seconds():
    found = dialled(0.05)
    told = "The estimates include 60 s of waiting for a quiet machine."
    for waited_s, is_told in (60.0, True), (0.5, False):
        found.adaptive = replace(found.adaptive, seconds=82.0, plain_s=3.0, waited_s=waited_s)
        assert (told in words.seconds_saved(found)) is is_told


def test_the_dial_tells_no_width_where_no_brick_has_a_figure():
    assert words.precision_reached(dialled(0.0, value=None)) == "1 of 4 bricks timed."


def test_several_estimates_are_as_good_as_the_widest(monkeypatch):
    monkeypatch.setattr(words, "subject", lambda result: "2 models")
    model = SimpleNamespace(normalized=None, estimate=SimpleNamespace(value=1.0))
    result = SimpleNamespace(
        over_sizes=None, models=[model] * 2, adaptive=dialled(0.2, 0.97).adaptive
    )
    told = "2 models: 2 estimates; the least precise is within a factor of 8.1."
    assert words.answer(result) == [told]


def test_the_widest_estimate_is_not_one_that_lacks_bricks(monkeypatch):
    monkeypatch.setattr(words, "subject", lambda result: "2 models")
    models = [
        SimpleNamespace(normalized=None, estimate=SimpleNamespace(value=value))
        for value in (1.0, None)
    ]
    result = SimpleNamespace(
        over_sizes=None, models=models, adaptive=dialled(0.2, math.inf).adaptive
    )
    told = "2 models: 1 estimate; the least precise is ±20.0%; the others are incomplete."
    assert words.answer(result) == [told]


def test_figures_that_lack_precision_are_told_by_a_factor():
    (made,) = not_within(0.1, note("store-ended"), [(0.97, "a"), (0.2, "b"), (math.inf, "c")])
    assert text(made) == (
        "not within ±10% (the store has no further measurements): c (incomplete), "
        "a within a factor of 8.1, b ±20.0%"
    )
    json.dumps(made.to_dict(), allow_nan=False)


def test_of_many_figures_that_lack_precision_the_six_widest_are_named():
    reached = [(0.001 * number, f"m{number}") for number in (3, 8, 1, 6, 5, 2, 7, 4)]
    (made,) = not_within(0.0001, note("store-ended"), reached)
    assert text(made).endswith(
        ": m8 ±0.8%, m7 ±0.7%, m6 ±0.6%, m5 ±0.5%, m4 ±0.4%, m3 ±0.3%, and 2 more figures"
    )


def test_probes_and_surveys_tell_wide_intervals_by_a_factor():
    probing = SimpleNamespace(
        before=np.array([4 / 3]), after=np.array([0.2]), asked=("a",), probes=(), seconds=1.0
    )
    assert probes._probing_answer(probing).startswith(
        "within a factor of 3 before, ±20% now (median "
    )
    judged = SimpleNamespace(error=0.1, half_width=0.8, covered=True)
    assert survey._width([judged]).endswith(
        "off by 11% (median); intervals are within a factor of 3 (median) and hold 100% of the "
        "measured latencies."
    )


@pytest.mark.parametrize(("runs", "lines"), [(3, 1), (0, 0)])
def test_bricks_that_never_ran_give_no_speedup(runs, lines):
    """Loading bricks that no framework supports takes seconds, too."""
    effort = SimpleNamespace(
        seconds={"model": 1.7, "brick": 36.8},
        runs={"model": 14, "brick": runs},
        networks={"model": 3, "brick": 1},
    )
    assert len(words.speedups(SimpleNamespace(benchmarking=None, effort=effort))) == lines
