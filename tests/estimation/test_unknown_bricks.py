"""Bricks that no running model has shown: corrected by those that were."""

from types import SimpleNamespace

import numpy as np
import pytest

from dlbricks_core.bricks import BrickSet
from dlbricks_core.estimation.adaptive import unknown
from dlbricks_core.figures.figure import RESAMPLES, InPlace
from dlbricks_core.figures.predicted import Discrepancy, Predicted, SpreadFactor
from dlbricks_core.progress import Observer


@pytest.fixture
def bricks(builder):
    """Twenty bricks of one layer each, by signature, half of them of each operator."""

    def layers(op):
        models = []
        for size in range(10):
            b = builder((4, 100 + size))
            models.append(b.model(b.add(op, b.input)))
        return models

    return BrickSet.of([*layers("Relu"), *layers("Tanh")], 1, "chain").bricks


def split(bricks, op):
    return [s for s, each in bricks.items() if each.operators == (op,)]


def test_rough_figures_follow_from_the_size_and_from_bricks_of_the_kind(bricks):
    relu, tanh = split(bricks, "Relu"), split(bricks, "Tanh")
    costs = dict.fromkeys(bricks, 2.0)
    seen = {s: InPlace((4.0,), 0) for s in relu[1:]} | {s: InPlace((40.0,), 0) for s in tanh[1:]}
    ran = {s: unknown.Ran(f"model {i % 9}") for i, s in enumerate(seen)}
    found = unknown.by_size([relu[0], tanh[0]], costs, bricks, seen, ran)
    low, high = found[relu[0]].value, found[tanh[0]].value
    assert 3.5 < low < 12 < high < 42
    spread = np.std(np.log(found[relu[0]].draws))
    assert spread > 0.3


def test_predictions_are_corrected_by_what_running_models_show(bricks):
    relu = split(bricks, "Relu")
    prediction = Predicted(2.0, np.full(RESAMPLES, 2.0))
    ratios = unknown._Ratios.of(
        [unknown._SeenBrick("Relu", unknown.Ran("a"), 3.0, 1.0)] * len(relu)
    )
    corrected = unknown._corrected(ratios, "Relu", prediction)
    assert corrected.value == pytest.approx(6.0)
    assert corrected.draws == pytest.approx(np.full(RESAMPLES, 6.0))
    assert unknown._corrected(ratios, "Tanh", prediction).value == pytest.approx(6.0)


@pytest.mark.parametrize(("models", "spread"), [(1, 0.92), (10, 0.63), (200, 0.34)])
def test_predictions_are_as_certain_as_many_models_proved_them_to_be(models, spread):
    errors = np.random.default_rng(0).normal(0, 0.3, 200)
    ratios = unknown._Ratios.of(
        unknown._SeenBrick("Relu", unknown.Ran(str(i % models)), np.exp(each), 1.0)
        for i, each in enumerate(errors)
    )
    assert ratios.spread == pytest.approx(0.3, rel=0.2)
    wide = np.exp(np.random.default_rng(1).normal(0, 1.0, RESAMPLES))
    found = unknown._corrected(ratios, "Relu", Predicted(1.0, wide))
    assert np.std(np.log(found.draws)) == pytest.approx(spread, rel=0.1)


def test_the_factor_of_models_without_runs_holds_until_runs_set_the_spread():
    factor = SpreadFactor(0.5, 0.2)
    prediction = Predicted(1.0, np.ones(RESAMPLES), discrepancy=Discrepancy(0.03, 0.02, factor))
    few, many = (
        unknown._Ratios.of([unknown._SeenBrick("Relu", unknown.Ran("a"), 2.0, 1.0)] * number)
        for number in (2, 20)
    )
    assert unknown._corrected(few, "Relu", prediction).discrepancy.spread == factor
    assert unknown._corrected(many, "Relu", prediction).discrepancy.spread == SpreadFactor()


@pytest.fixture
def asked(bricks, monkeypatch):
    """Figures of some bricks beside others that ran, and what the predictor was asked."""
    questions = []

    class Noted:
        def __init__(self, *_):
            pass

        def figures(self, wanted, known):
            questions.append((set(wanted), dict(known)))
            return {s: Predicted(2.5, np.full(RESAMPLES, 2.5), overhead=0.5) for s in wanted}

    monkeypatch.setattr(unknown, "ConditionedPredictor", Noted)
    monkeypatch.setattr(unknown, "training_data", lambda *_: [])
    setup = SimpleNamespace(backend="synthetic", threads=1)
    request = SimpleNamespace(setup=setup, fingerprint="f" * 16)
    asking = unknown.Unknown(bricks, {}, request, None, Observer(), "atlas")
    return asking.figures, questions


def test_on_an_unknown_system_predictions_rest_on_the_bricks_that_ran(bricks, asked):
    figures, questions = asked
    relu, tanh = split(bricks, "Relu"), split(bricks, "Tanh")
    seen = {s: InPlace((4.0,), 0) for s in relu} | {tanh[0]: InPlace((0.001,), 0)}
    found = figures(tanh[1:3], seen, {})
    assert questions == [({*relu, *tanh[1:3]}, {s: seen[s] for s in relu})]
    assert {s: (each.value, each.overhead) for s, each in found.items()} == dict.fromkeys(
        tanh[1:3], (2.0, 0.0)
    )
    assert found[tanh[1]].draws == pytest.approx(np.full(RESAMPLES, 2.0))


def test_on_a_known_system_bricks_that_ran_correct_predictions(bricks, asked, monkeypatch):
    here = SimpleNamespace(
        system=SimpleNamespace(fingerprint="f" * 16), setup=SimpleNamespace(threads=1)
    )
    predictor = SimpleNamespace(shipped={"synthetic": [here]}.__getitem__)
    monkeypatch.setattr(unknown, "usual_predictor", lambda: predictor)
    figures, questions = asked
    relu = split(bricks, "Relu")
    seen = {s: InPlace((4.0,), 0) for s in relu[:5]}
    one, five = (
        figures(
            relu[5:], seen, {s: unknown.Ran(f"model {i // models}") for i, s in enumerate(seen)}
        )
        for models in (5, 1)
    )
    assert all(known == {} for _, known in questions)
    assert 2.0 < one[relu[5]].value < five[relu[5]].value < 4.0


def test_the_same_question_is_asked_once(bricks, asked):
    figures, questions = asked
    relu, tanh = split(bricks, "Relu"), split(bricks, "Tanh")
    for value in (4.0, 4.0, 5.0):
        figures(tanh, {relu[0]: InPlace((value,), 0)}, {})
    assert len(questions) == 2


def test_bricks_that_take_next_to_nothing_do_not_correct_predictions():
    seen = {str(i): InPlace((10.0 / 2**i,), 0) for i in range(12)}
    assert unknown._telling(seen) == ["0", "1", "2", "3", "4"]
    assert unknown._telling({}) == []


def seen_in(models, kind, value, expected, session=""):
    """A brick in each of some models."""
    runs = [unknown.Ran(f"model {i}", session) for i in range(models)]
    return [unknown._SeenBrick(kind, run, value, expected) for run in runs]


def test_few_models_with_a_kind_count_less_than_all_together():
    ratios = unknown._Ratios.of(seen_in(20, "Relu", 2.0, 1.0) + seen_in(1, "Tanh", 8.0, 1.0))
    assert ratios.factor("Relu") == pytest.approx(2.0, rel=0.1)
    assert 2.0 < ratios.factor("Tanh") < 4.0


def test_many_bricks_of_one_model_tell_no_more_than_the_model():
    few, many = (
        unknown._Ratios.of(seen_in(1, "Conv", 2.0, 1.0) * bricks, before=5.0) for bricks in (1, 100)
    )
    assert few.factor("Conv") == pytest.approx(many.factor("Conv"))
    assert 1.0 < many.factor("Conv") < 1.3


def test_what_was_known_before_outweighs_few_models_and_not_many():
    factors = [
        unknown._Ratios.of(seen_in(number, "Conv", 2.0, 1.0), before=5.0).factor("Conv")
        for number in (1, 10, 1000)
    ]
    assert factors == sorted(factors)
    assert factors[-1] == pytest.approx(2.0, rel=0.01)


def test_bricks_that_take_next_to_nothing_tell_little_about_those_that_take_time():
    ratios = unknown._Ratios.of(
        seen_in(1, "Conv", 0.001, 0.01) * 100 + seen_in(10, "Conv", 11.0, 10.0)
    )
    assert ratios.factor("Conv") == pytest.approx(1.1, rel=0.05)
    assert ratios.spread == pytest.approx(0.0, abs=0.02)


def test_the_speed_of_a_session_stays_with_the_models_that_ran():
    def factors(*sessions, shared):
        seen = [each for name in sessions for each in seen_in(10, "Conv", 2.0, 1.0, name)]
        ratios = unknown._Ratios.of(seen, before=5.0, shared=shared)
        return ratios.factor("Conv"), ratios.factor("Relu")

    quiet, busy = factors("a", shared=0.0), factors("a", shared=1.0)
    assert quiet == pytest.approx([2 ** (10 / 15)] * 2)
    assert busy == pytest.approx([2 ** (1 / 6.1)] * 2, rel=0.01)
    assert busy < factors("a", "b", "c", shared=1.0) < quiet


def test_kinds_that_differ_within_a_session_keep_their_difference():
    seen = seen_in(10, "Conv", 20.0, 10.0, "a") + seen_in(10, "LSTM", 0.4, 0.1, "a")
    quiet, busy = (unknown._Ratios.of(seen, 5.0, shared) for shared in (0.0, 1.0))
    for ratios in (quiet, busy):
        assert ratios.factor("LSTM") / ratios.factor("Conv") == pytest.approx(2 ** (10 / 15))
