"""Advice on loads: from what a real framework left in a store, and from loads with known truths."""

from dataclasses import replace

import numpy as np
import pytest
from dlbricks_serving.advice.advice import AdviceRequest, order_by
from dlbricks_serving.advice.places import places
from dlbricks_serving.advice.report.data import advice_data
from dlbricks_serving.advice.report.page import advice_page
from dlbricks_serving.advice.search import advise
from dlbricks_serving.advice.tariff import Prices
from dlbricks_serving.advice.tasks import AdviceTask
from dlbricks_serving.contention import Instance, passes
from dlbricks_serving.scenarios import Scenario, ServiceTimes, answer
from dlbricks_serving.serving import composed as timing
from dlbricks_serving.serving.composed import Composed, service_times
from dlbricks_serving.serving.figures import LoadFigures

from dlbricks_core.bricks import CutModel
from dlbricks_core.compose import Estimate
from dlbricks_core.errors import DLBricksError
from dlbricks_core.facts import (
    SCENARIO_LATENCY,
    SCENARIO_THROUGHPUT,
    Observation,
    Question,
    Subject,
)
from dlbricks_core.figures.figure import RESAMPLES
from dlbricks_core.measure.request import Request
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore


@pytest.fixture
def store(tmp_path):
    with ResultStore.open(tmp_path / "results.sqlite") as opened:
        yield opened


@pytest.fixture
def systems(asked):
    """Two systems by name, each of four cores."""
    return {
        name: replace(asked.system, cpu=f"the {name}", available_cores=4)
        for name in ("slow", "fast")
    }


@pytest.fixture
def keep(store, asked):
    """Stores a load of a whole model on a system."""

    def kept(model, system, ms, instances, scenario="offline", threads=1, seconds=10, bound=""):
        store.remember_system(system.fingerprint, system.to_dict())
        load = f"{scenario}:instances={instances},{seconds}s{bound}"
        setup = asked.setup
        setup = replace(setup, threads=threads, protocol=f"{setup.protocol};{load}")
        subject = Subject(CutModel(model, (), model).whole.signature, "model")
        taken = ms * (1 + 0.01 * np.random.default_rng(instances).standard_normal(400))
        for quantity, values in (
            (SCENARIO_LATENCY, tuple(map(float, taken))),
            (SCENARIO_THROUGHPUT, (1e3 * instances / ms,)),
        ):
            question = Question(subject, quantity, setup, system.fingerprint)
            store.add_samples(question, Observation(system.cpu, 0, values))

    return kept


@pytest.fixture
def model(residual):
    return residual()


def advised(model, store, scenario=Scenario.OFFLINE, **wanted):
    where = places(store, under_load=True)
    asked = AdviceRequest(scenario=scenario, **wanted)
    return advise([AdviceTask.of(model)], where, asked, store, Observer())


def told(ranking):
    """Processor, instances and threads of each alternative, the best first."""
    found = [each.alternative.place for each in ranking.ranked]
    return [(place.system.cpu, place.instances, place.setup.threads) for place in found]


def test_the_place_with_most_samples_is_first(model, store, systems, keep):
    for name, ms, instances in (("slow", 20.0, 1), ("slow", 30.0, 4), ("fast", 10.0, 1)):
        keep(model, systems[name], ms, instances)
    keep(model, systems["slow"], 12.0, 1, threads=4)
    (ranking,) = advised(model, store).rankings
    expected = [("the slow", 4, 1), ("the fast", 1, 1), ("the slow", 1, 4), ("the slow", 1, 1)]
    assert told(ranking) == expected
    best = ranking.first
    assert best.first == 1.0
    assert best.alternative.per_second == pytest.approx(4e3 / 30)
    assert best.alternative.ms == pytest.approx(30, rel=0.05)
    low, high = best.alternative.per_second_interval
    assert low < best.alternative.per_second < high


def test_the_bound_is_of_the_percentile_and_the_price_of_all_instances(
    model, store, systems, keep, tmp_path
):
    keep(model, systems["slow"], 30.0, 4)
    keep(model, systems["slow"], 20.0, 1)
    keep(model, systems["fast"], 10.0, 1)
    path = tmp_path / "prices.toml"
    path.write_text(
        "[per_hour]\n"
        f'"{systems["slow"].fingerprint}" = 0.36\n"{systems["fast"].fingerprint}" = 3.6\n'
    )
    prices = Prices.read(path)
    (ranking,) = advised(model, store, prices=prices).rankings
    assert told(ranking)[0] == ("the slow", 4, 1)
    # 0.0001 USD a second, and 4/30 samples a millisecond.
    assert ranking.first.alternative.price == pytest.approx(0.0001 * 1e6 / (4e3 / 30))
    (ranking,) = advised(model, store, prices=prices, max_latency_ms=25.0).rankings
    assert told(ranking) == [("the slow", 1, 1), ("the fast", 1, 1), ("the slow", 4, 1)]
    assert [each.is_allowed for each in ranking.ranked] == [True, True, False]
    assert ranking.ranked[-1].keeps == 0.0
    by = order_by("latency", prices)
    (ranking,) = advised(model, store, prices=prices, by=by).rankings
    assert told(ranking)[0] == ("the fast", 1, 1)


def test_streams_are_ordered_by_their_latency(model, store, systems, keep):
    keep(model, systems["slow"], 20.0, 1, scenario="single-stream")
    keep(model, systems["fast"], 10.0, 1, scenario="single-stream")
    keep(model, systems["slow"], 1.0, 1)  # of another load
    (ranking,) = advised(model, store, Scenario.SINGLE_STREAM).rankings
    assert told(ranking) == [("the fast", 1, 1), ("the slow", 1, 1)]
    assert ranking.ranked[0].alternative.ms == pytest.approx(10, rel=0.05)


def test_the_longest_run_counts_and_a_server_s_has_the_bound_that_is_asked(
    model, store, systems, keep
):
    keep(model, systems["slow"], 20.0, 1, seconds=60)
    keep(model, systems["slow"], 10.0, 1, seconds=2)
    (ranking,) = advised(model, store).rankings
    assert ranking.first.alternative.per_second == pytest.approx(50)
    keep(model, systems["slow"], 20.0, 1, scenario="server", bound=",bound=50ms")
    (ranking,) = advised(model, store, Scenario.SERVER, max_latency_ms=50.0).rankings
    assert ranking.first.alternative.per_second == pytest.approx(50)
    other = advised(model, store, Scenario.SERVER, max_latency_ms=60.0)
    assert not other.rankings
    (failure,) = other.failures
    assert "was not put under load there" in failure.reason
    assert "scenario=server" in failure.reason


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"scenario": Scenario.SERVER}, "needs a bound"),
        ({"scenario": Scenario.OFFLINE, "by": "peak-memory"}, "not known under load"),
        ({"by": "throughput"}, "a figure of a load"),
    ],
)
def test_what_a_load_cannot_tell_is_refused(asked, message):
    by = {"by": order_by(asked["by"], None)} if "by" in asked else {}
    with pytest.raises(DLBricksError, match=message):
        AdviceRequest(**asked | by)


@pytest.fixture
def composed(store, model, monkeypatch):
    """A model whose bricks ran alone and side by side, with the service times that follow."""
    pytest.importorskip("onnxruntime")
    monkeypatch.setattr(passes, "_SHORTEST_S", 0.1)
    request = Request.of("onnxruntime", threads=1, runs=4)
    (found,) = service_times([model], request, 2, 1, store, Observer())
    monkeypatch.setattr(Instance, "_launched", None)  # no process starts from here on
    return found


@pytest.mark.process
def test_bricks_under_load_tell_what_whole_models_would(model, store, composed):
    (ranking,) = advised(model, store).rankings
    each = {e.alternative.place.instances: e.alternative for e in ranking.ranked}
    assert each.keys() == {1, 2}
    for number, service in ((2, composed.service), (1, replace(composed.service, instances=1))):
        shown = each[number]
        assert shown.basis == "composed"
        if number == 2:
            assert shown.per_second == answer(Scenario.OFFLINE, service, None).throughput
        low, high = shown.per_second_interval
        assert low < shown.per_second < high


# Where queries wait, a service that takes 1% longer costs more than 1% of the rate.
@pytest.mark.parametrize(
    ("scenario", "deviation"), [(Scenario.OFFLINE, 0.03), (Scenario.SERVER, 0.045)]
)
def test_the_error_of_composing_is_that_of_all_figures(model, scenario, deviation):
    steady = ServiceTimes(2, np.full(50, 10.0))
    estimate = Estimate(10.0, None, (), draws=np.full(RESAMPLES, 10.0), composing_error=0.03)
    found = Composed(model, steady, estimate, estimate)
    figures = LoadFigures.composed(found, scenario, 40.0, np.random.default_rng(0))
    assert np.std(np.log(figures.rates)) == pytest.approx(deviation, rel=0.2)
    assert np.median(figures.rates) == pytest.approx(figures.answer.throughput, rel=0.01)


@pytest.mark.parametrize("seed", range(4))
def test_a_rate_that_keeps_the_bound_keeps_it_in_each_draw(model, seed):
    rng = np.random.default_rng(seed)
    service = ServiceTimes(2, 10.0 * np.exp(0.3 * rng.standard_normal(50)))
    estimate = Estimate(10.0, None, (), draws=np.full(RESAMPLES, 10.0), composing_error=0.03)
    found = Composed(model, service, estimate, estimate)
    figures = LoadFigures.composed(found, Scenario.SERVER, 60.0, rng)
    assert figures.rates.min() > 0
    assert figures.tails_ms.max() <= 60.0


@pytest.mark.process
def test_what_makes_composed_figures_doubtful_is_told(model, store, composed, monkeypatch):
    monkeypatch.setattr(timing, "_MOST_CALLS", 0.0)
    notes = advised(model, store).notes
    assert sum(each.code == "bricks-too-short" for each in notes) == 2  # 1 x 1 and 2 x 1


@pytest.mark.process
def test_a_bound_that_no_rate_keeps_leaves_nothing_to_serve(model, store, composed, tmp_path):
    path = tmp_path / "prices.toml"
    path.write_text(f'[per_hour]\n"{places(store, under_load=True)[0].system.fingerprint}" = 1\n')
    prices = Prices.read(path)
    advice = advised(model, store, Scenario.SERVER, max_latency_ms=1e-4, prices=prices)
    (ranking,) = advice.rankings
    assert ranking.first is None
    assert all(each.alternative.price is None for each in ranking.ranked)
    assert [each["by"]["value"] for each in advice_data(advice)["rankings"][0]["alternatives"]] == (
        [None] * len(ranking.ranked)
    )
    assert "nothing keeps" in advice_page(advice)
    advice = advised(model, store, Scenario.SERVER, max_latency_ms=1e3)
    best = advice.rankings[0].first.alternative
    assert best.ms <= 1e3
    assert best.place.instances == 2
    assert all(each.keeps == 1.0 for each in advice.rankings[0].ranked)
