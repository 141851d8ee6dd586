"""Models under load without running anything: from stored loads, or predicted from latencies."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from dlbricks_serving.advice.advice import AdviceRequest
from dlbricks_serving.advice.places import places
from dlbricks_serving.advice.search import advise
from dlbricks_serving.advice.stored import request_for_stored
from dlbricks_serving.advice.tasks import AdviceTask
from dlbricks_serving.contention import passes
from dlbricks_serving.scenarios import Scenario, answer
from dlbricks_serving.serving.composed import service_times
from dlbricks_serving.serving.estimated import estimate_scenario
from dlbricks_serving.serving.predicted import UNDISTURBED, predicted_service_times
from dlbricks_serving.serving.run import LoadRequest
from dlbricks_testing import cases

from dlbricks_core.bricks import CutModel
from dlbricks_core.facts import (
    SCENARIO_LATENCY,
    SCENARIO_THROUGHPUT,
    Observation,
    Question,
    Subject,
)
from dlbricks_core.facts.system import Cache
from dlbricks_core.measure.request import Request
from dlbricks_core.predict.defaults import PREDICTOR
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore

LATENCY_MS = 20.0


@pytest.fixture
def store(tmp_path):
    with ResultStore.open(tmp_path / "results.sqlite") as opened:
        yield opened


@pytest.fixture
def there(asked):
    """Another system, of eight cores."""
    caches = (Cache(1, "data", 2**15, 1), Cache(3, "unified", 2**23, 8))
    return replace(asked.system, cpu="the other", available_cores=8, caches=caches)


@pytest.fixture
def request_there(asked, there):
    return request_for_stored(asked.setup, there)


@pytest.fixture
def model(residual):
    return residual()


@pytest.fixture
def time_whole(store, asked, there):
    """Stores a latency of the whole model on the other system."""

    def timed(model, ms=LATENCY_MS, threads=1, slower=0.002):
        store.remember_system(there.fingerprint, there.to_dict())
        subject = Subject(CutModel(model, (), model).whole.signature, "model")
        question = Question(
            subject, asked.quantity, replace(asked.setup, threads=threads), there.fingerprint
        )
        taken = ms * np.linspace(1, 1 + slower, 8)
        for number, each in enumerate(taken):
            store.add_samples(question, Observation("before", number, (float(each),)))
        return taken

    return timed


def estimated(model, request, store, scenario="offline", predictor=PREDICTOR, **load):
    load = LoadRequest.of(scenario, cores=request.target.available_cores, **load)
    return estimate_scenario([model], load, request, store, predictor)


def rows(result):
    (model,) = result.models
    return {str(each.placement): each for each in model.rows}


def test_a_timed_model_serves_as_its_latency_says_and_others_slow_it_down(
    model, request_there, store, time_whole
):
    time_whole(model)
    found = rows(estimated(model, request_there, store, threads=[1]))
    assert list(found) == ["1 x 1", "2 x 1", "4 x 1", "8 x 1"]
    assert all(each.predicted for each in found.values())
    single = found["1 x 1"].composed
    assert single.throughput == pytest.approx(1e3 / LATENCY_MS, rel=0.01)
    assert single.p99 == pytest.approx(LATENCY_MS, rel=0.01)
    for place, each in found.items():
        number, told = each.placement.instances, each.composed
        assert told.throughput <= number * single.throughput * 1.001
        low, high = told.throughput_interval
        assert low < told.throughput < high
        assert 0.1 < (high - low) / told.throughput < 0.5, place


def test_inferences_scatter_as_the_samples_of_the_model_did(
    model, request_there, store, time_whole
):
    taken = time_whole(model, slower=0.5)
    found = rows(estimated(model, request_there, store, threads=[1], instances=[1]))
    told = found["1 x 1"].composed
    assert told.throughput == pytest.approx(1e3 / taken.mean(), rel=0.01)
    assert taken[3] <= told.p50 <= taken[4]
    assert told.p99 == taken[-1]


def test_contention_is_uncertain_where_much_memory_is_read(request_there, store):
    model = cases.build(
        "(float[1,1024] x, float[1024,1024] w) => (float[1,1024] y) { y = MatMul(x, w) }"
    ).model
    (found,) = predicted_service_times([model], request_there, [8], store, PREDICTOR).models
    alone, beside = found[8].alone, found[8].beside
    assert beside.value > 1.1 * alone.value
    spread, wider = (np.log(each.draws).std() for each in (alone, beside))
    assert wider > 1.02 * spread
    assert found[8].service.while_busy(1) == alone.value


@pytest.mark.process
def test_bricks_that_ran_side_by_side_come_before_predictions(model, store, monkeypatch):
    pytest.importorskip("onnxruntime")
    monkeypatch.setattr(passes, "_SHORTEST_S", 0.1)
    request = Request.of("onnxruntime", threads=1, runs=4)
    (timed,) = service_times([model], request, 1, 1, store, Observer())
    load = LoadRequest.of("offline", threads=[1], instances=[1, 2], cores=2)
    found = rows(estimate_scenario([model], load, request, store, PREDICTOR))
    assert [each.predicted for each in found.values()] == [False, True]
    expected = answer(Scenario.OFFLINE, timed.service, None, request.seed).throughput
    assert found["1 x 1"].composed.throughput == expected


def test_nothing_is_missing_where_the_whole_model_was_put_under_load(
    model, asked, request_there, store, there
):
    store.remember_system(there.fingerprint, there.to_dict())
    protocol = f"{asked.setup.protocol};offline:instances=2,10s"
    subject = Subject(CutModel(model, (), model).whole.signature, "model")
    for quantity, values in (
        (SCENARIO_LATENCY, (9.0, 10.0, 11.0)),
        (SCENARIO_THROUGHPUT, (200.0,)),
    ):
        question = Question(
            subject, quantity, replace(asked.setup, protocol=protocol), there.fingerprint
        )
        store.add_samples(question, Observation("before", 0, values))
    result = estimated(model, request_there, store, predictor=None, threads=[1], instances=[2])
    (row,) = rows(result).values()
    assert row.composed is None
    assert row.measured.answer.throughput == 200
    assert not result.failures


def test_a_model_that_nothing_timed_is_predicted_with_notes(model, request_there, store):
    result = estimated(model, request_there, store, threads=[2], instances=[1, 4])
    found = rows(result)
    assert list(found) == ["1 x 2", "4 x 2"]
    assert all(each.predicted and each.composed for each in found.values())
    assert not result.failures
    assert UNDISTURBED in result.notes
    assert len(result.notes) > 1  # also what the prediction of the latency rests on


def test_without_a_predictor_nothing_is_told_of_what_never_ran_side_by_side(
    model, request_there, store, time_whole
):
    time_whole(model)
    result = estimated(model, request_there, store, predictor=None, threads=[1], instances=[1])
    (failure,) = result.failures
    assert (failure.stage, failure.reason) == ("compose", "its bricks were not timed alone")
    assert UNDISTURBED not in result.notes
    assert result.models[0].best is None


@pytest.mark.long
def test_a_server_waits_longer_the_nearer_the_bound(model, request_there, store, time_whole):
    time_whole(model)

    def most(bound_ms):
        found = estimated(
            model, request_there, store, "server", bound_ms=bound_ms, threads=[1], instances=[4]
        )
        return rows(found)["4 x 1"].composed.throughput

    rates = [most(bound_ms) for bound_ms in (1, 30, 600)]
    assert rates[0] == 0
    assert rates == sorted(rates)
    assert rates[-1] <= 4e3 / LATENCY_MS


def test_what_the_backend_does_not_support_is_not_predicted(model, request_there, store):
    known = predicted_service_times([model], request_there, [1], store, PREDICTOR)
    assert known.models[0][1].service is not None
    subject = Subject(CutModel(model, (), model).whole.signature, "model")
    store.remember_system(request_there.fingerprint, request_there.target.to_dict())
    question = Question(
        subject, request_there.quantity, request_there.setup, request_there.fingerprint
    )
    store.record_failure(question, "its operator is unknown", unsupported=True)
    found = predicted_service_times([model], request_there, [1, 2], store, PREDICTOR)
    assert [each.service for each in found.models[0].values()] == [None, None]
    assert "operator is unknown" in found.models[0][2].reason


@pytest.mark.long
def test_advice_predicts_loads_of_places_with_latencies_alone(model, store, time_whole):
    time_whole(model)
    time_whole(model, ms=LATENCY_MS / 4, threads=4)
    wanted = AdviceRequest(scenario=Scenario.OFFLINE)
    where = places(store, under_load=True)
    advice = advise([AdviceTask.of(model)], where, wanted, store, Observer(), PREDICTOR)
    (ranking,) = advice.rankings
    told = {
        (each.alternative.place.instances, each.alternative.place.setup.threads): each
        for each in ranking.ranked
    }
    assert set(told) == {(1, 1), (2, 1), (4, 1), (8, 1), (1, 4), (2, 4)}
    assert {each.alternative.basis for each in told.values()} == {"predicted"}
    assert told[8, 1].alternative.per_second > told[4, 1].alternative.per_second
    for (instances, _), each in told.items():  # offline, instances are always busy
        busy = each.alternative.rate.draws * each.alternative.draws / instances
        assert busy == pytest.approx(1e3, rel=0.05)
    assert sum(each.first for each in told.values()) == pytest.approx(1)
    assert UNDISTURBED in advice.notes
    unpredicted = advise([AdviceTask.of(model)], where, wanted, store, Observer())
    assert not unpredicted.rankings
    assert len(unpredicted.failures) == 2
