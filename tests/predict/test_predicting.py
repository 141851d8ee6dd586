"""Predicted figures in estimates: for which bricks, and what the intervals hold."""

from dataclasses import replace

import numpy as np
import pytest

from dlbricks_core.bricks import BrickSet
from dlbricks_core.commands.options.systems import find_system
from dlbricks_core.compose import OwnFigure, Plan, Scaled
from dlbricks_core.compose.options import CutOptions
from dlbricks_core.errors import PluginError
from dlbricks_core.estimation import conditioned as oracle
from dlbricks_core.estimation.without_runs import estimate
from dlbricks_core.facts import Observation, System
from dlbricks_core.figures import RESAMPLES, Measured, Predicted
from dlbricks_core.figures.protocols import PROTOCOLS
from dlbricks_core.plugins import Plugin
from dlbricks_core.predict import Predictor
from dlbricks_core.report.remarks import run_remarks
from dlbricks_core.store import ResultStore

DRAWS = np.linspace(3.0, 5.0, RESAMPLES)


class Four(Predictor):
    """Four milliseconds for each brick that is not known, and one error that all have in common."""

    name = "four"
    asked = None

    def predict(self, bricks, setup, system, known, atlas=()):
        type(self).asked = bricks, setup, system, known
        return {signature: Predicted(4.0, DRAWS) for signature in bricks}


class Silent(Four):
    name = "silent"

    def predict(self, bricks, setup, system, known, atlas=()):
        return {}


class Broken(Four):
    name = "broken"

    def predict(self, bricks, setup, system, known, atlas=()):
        return dict.fromkeys(bricks, 4.0)


@pytest.fixture(autouse=True)
def found(monkeypatch):
    """The predictors of this module, as if a distribution announced them."""

    def find(name):
        (loaded,) = (each for each in (Four, Silent, Broken) if each.name == name)
        return Plugin("predictor", name, f"tests:{name}", "tests", "1", loaded)

    monkeypatch.setattr(oracle, "find_predictor", find)


@pytest.fixture
def store(tmp_path):
    with ResultStore.open(tmp_path / "results.sqlite") as opened:
        yield opened


@pytest.fixture
def model(builder):
    b = builder()
    x = b.input
    for operator in ("Relu", "Tanh", "Relu", "Abs", "Neg"):
        x = b.add(operator, x)
    return b.model()


@pytest.fixture
def keep(asked, store, model):
    """Stores samples of 2 ms for a brick with that operator, or a failure."""
    bricks = {brick.operators[0]: s for s, brick in BrickSet.of([model]).bricks.items()}

    def kept(operator, failure=None, request=asked):
        key = request.key(bricks[operator], "brick")
        if failure:
            store.record_failure(key, failure)
        else:
            for number in range(request.runs):
                store.add_samples(key, Observation("s", number, (2.0,)))

    return kept


@pytest.fixture
def estimated(asked, store, model):
    def run(predictor=None, system=None):
        request = asked if system is None else asked.on(find_system(store, system)[0])
        return estimate([model], CutOptions(), request, store, predictor)

    return run


def test_bricks_that_the_store_does_not_hold_are_predicted(estimated, keep, asked):
    for operator in ("Relu", "Tanh"):
        keep(operator)
    (before,) = estimated().models
    assert len(before.missing) == 2
    result = estimated("four")
    (model,) = result.models
    assert not model.missing
    assert model.estimate.value == pytest.approx(3 * 2.0 + 2 * 4.0)
    assert model.origin == pytest.approx({"stored": 6 / 14, "predicted": 8 / 14})
    assert {b.brick.operators[0]: b.origin for b in result.bricks} == {
        "Relu": "stored", "Tanh": "stored", "Abs": "predicted", "Neg": "predicted"
    }  # fmt: skip
    (note,) = (remark.text for remark in run_remarks(result) if "predicted" in remark.text)
    assert note == "2 of 4 bricks (57% of the sum) are predicted by four: nobody measured them here"
    bricks, setup, system, known = Four.asked
    assert len(bricks) == 4
    assert (setup, system) == (asked.setup, asked.system)
    assert {each.value for each in known.values()} == {2.0}
    assert len(known) == 2


def test_errors_that_predictions_have_in_common_do_not_average_out(estimated):
    (model,) = estimated("four").models
    low, high = np.percentile(5 * DRAWS, (5, 95))
    # The difference between hours comes on top.
    found = model.estimate.interval
    assert found == pytest.approx((low, high), rel=0.03)
    assert found[0] <= low < high <= found[1]
    assert model.estimate.scatter == pytest.approx((20.0, 20.0))  # no samples, no scatter
    assert model.origin == {"predicted": 1.0}


def test_what_failed_is_not_predicted(estimated, keep):
    keep("Relu")
    keep("Abs", failure="no counterpart")
    result = estimated("four")
    (model,) = result.models
    assert list(model.missing.values()) == ["no counterpart"]
    assert result.timed_networks == 1
    assert model.estimate.partial
    assert model.origin.keys() == {"stored", "predicted"}


def test_nothing_predicted_is_nothing_timed(estimated, keep):
    keep("Relu")
    result = estimated("four")
    relu = next(b.brick.signature for b in result.bricks if b.brick.operators == ("Relu",))
    (cut,) = result.brickset.models
    assert result.timed_for(cut) == {relu}
    assert result.timed[relu] == (relu,)


def test_a_predictor_may_be_silent(estimated):
    result = estimated("silent")
    assert result.models[0].estimate.partial
    assert result.predictor == "silent"


def test_a_predictor_that_gives_something_else_is_named(estimated):
    with pytest.raises(PluginError, match=r"predictor 'broken': TypeError: 4\.0 for brick"):
        estimated("broken")


def test_a_predictor_sees_the_system_that_is_asked_about(estimated, keep, asked, store):
    other = replace(asked.system, cpu="another", physical_cores=64)
    store.remember_system(other.fingerprint, other.to_dict())
    store.remember_system("fffe", {"cpu": "of a later version", "unknown": 3})
    keep("Tanh", request=asked.on(other))
    (model,) = estimated("four", other.fingerprint[:10]).models
    assert model.origin.keys() == {"stored", "predicted"}
    assert Four.asked[2] == other
    assert len(Four.asked[3]) == 1
    estimated("four", "fffe")
    assert (Four.asked[2].cpu, Four.asked[2].fingerprint) == ("of a later version", "fffe")


def test_facts_about_a_system_survive_a_store(asked):
    again = System.from_dict(asked.system.fingerprint, asked.system.to_dict())
    assert again == asked.system
    assert again.caches == asked.system.caches


@pytest.mark.parametrize(
    ("expected", "draws"),
    [(-1.0, DRAWS), (np.inf, DRAWS), (4.0, DRAWS[1:]), (4.0, -DRAWS), (4.0, DRAWS * np.nan)],
)
def test_a_prediction_is_made_of_latencies(expected, draws):
    with pytest.raises(ValueError, match=r"negative or not finite|have the shape"):
        Predicted(expected, draws)


def test_what_follows_from_samples_comes_before_a_prediction(model):
    bricks = BrickSet.of([model]).bricks
    one, other, *_ = bricks
    plan = Plan(bricks, {s: (OwnFigure(s), Scaled(s, other, 3.0, 0.1)) for s in bricks})
    plan = plan.predicting({one: Predicted(4.0, DRAWS)})
    known = {other: Measured((2.0,) * 5, PROTOCOLS["interleaved"])}
    assert plan.figures(known)[one].value == pytest.approx(6.0)
    assert plan.figures({})[one].value == 4.0
    assert plan.sources(one) == (one,)
