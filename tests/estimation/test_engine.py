"""Answers hold the Python and the page faults of the program whose figures they are."""

from dataclasses import replace

import numpy as np
import pytest
from dlbricks_pytorch.backend import PytorchBackend
from dlbricks_pytorch.engine import transformers_python
from dlbricks_sizes import Generation, engine, read_asked
from dlbricks_sizes.engine import with_engine
from dlbricks_sizes.machine_speed import call_s, fault_s

from dlbricks_core.backends import Interpreted
from dlbricks_core.estimation.without_runs import estimate
from dlbricks_core.figures.figure import RESAMPLES
from dlbricks_core.figures.predicted import Predicted
from dlbricks_core.importers import LoadOptions
from dlbricks_core.measure.request import Request
from dlbricks_core.predict.defaults import PREDICTOR
from dlbricks_core.store import ResultStore

pytestmark = pytest.mark.usefixtures("kept_workers")

BLOCKS = 2


@pytest.fixture
def predicted(save_decoder, tmp_path, monkeypatch):
    """Predictions of a decoder on a backend, if a call of Python takes some seconds."""
    path = tmp_path / "decoder.onnx"
    save_decoder(path, blocks=BLOCKS)
    loaded = read_asked([str(path)], Generation({"prompt": (8,), "generate": (2,)}), LoadOptions())

    def found(backend, seconds, configuration="{}", **more):
        monkeypatch.setattr(engine, "call_s", lambda: seconds)
        request = Request.of(backend, threads=1, **more)
        models = [replace(each, configuration=configuration) for each in loaded.models]
        with ResultStore.open(tmp_path / "s.sqlite") as store:
            return loaded.completed(estimate(models, None, request, store, PREDICTOR))

    return found


def values(result):
    return np.array([each.estimate.value for each in result.models])


def test_each_latency_is_longer_by_the_python_of_blocks_and_token(predicted):
    cost = transformers_python()
    calls = cost.token_calls + BLOCKS * cost.block_calls
    without, found = predicted("pytorch", 0.0), predicted("pytorch", 1e-6)
    assert values(found) - values(without) == pytest.approx(1e-3 * calls)
    (answer,) = found.over_sizes.answers
    assert answer.first.estimate.value == pytest.approx(found.models[0].estimate.value)
    (said,) = (each for each in found.ledger.notes if each.code == "engine-python")
    assert said.values["ms"] == pytest.approx(1e-3 * calls)
    assert said.values["engine"] == "the loop of transformers"


def test_the_ends_hold_the_error_of_the_python(predicted):
    without, found = predicted("pytorch", 0.0), predicted("pytorch", 1e-4)
    for before, after in zip(without.models, found.models, strict=True):
        low, high = after.estimate.interval
        added = after.estimate.value - before.estimate.value
        error = 1.645 * transformers_python().spread * added
        assert low == pytest.approx(before.estimate.interval[0] + added - error, rel=1e-3)
        assert high == pytest.approx(before.estimate.interval[1] + added + error, rel=1e-3)


def test_other_engines_run_no_python(predicted):
    assert values(predicted("onnxruntime", 1.0)) == pytest.approx(
        values(predicted("onnxruntime", 0.0))
    )
    assert not [e for e in predicted("onnxruntime", 1.0).ledger.notes if e.code == "engine-python"]


def test_a_file_of_the_users_own_runs_without_it(predicted):
    found, without = (predicted("pytorch", seconds, configuration="") for seconds in (1.0, 0.0))
    assert values(found) == pytest.approx(values(without))


def test_a_compiled_model_has_no_python(predicted):
    options = {"backend_options": {"compile": "default"}}
    assert values(predicted("pytorch", 1.0, **options)).max() < 1000


def test_measured_latencies_get_it_as_well(predicted):
    result = predicted("pytorch", 1e-6)
    measured = Predicted(5.0, np.full(RESAMPLES, 5.0))
    ran = replace(result, models=[replace(each, measured=measured) for each in result.models])
    cost = transformers_python()
    added = 1e-3 * (cost.token_calls + BLOCKS * cost.block_calls)
    for each in with_engine(ran).models:
        assert each.measured.value == pytest.approx(5.0 + added)
        assert each.measured.interval[0] < 5.0 + added < each.measured.interval[1]


def test_another_processor_takes_as_long_as_its_speed_says(predicted):
    result = predicted("pytorch", 0.0)
    request = result.request
    slow = replace(request.system, vendor="GenuineIntel", family="6", model="63")
    fast = replace(request.system, vendor="AuthenticAMD", family="25", model="1")
    times = []
    for system in (slow, fast):
        moved = with_engine(replace(result, request=replace(request, elsewhere=system)))
        times.append(values(moved)[0] - values(result)[0])
    assert times[0] / times[1] == pytest.approx((3.6 * 1.25) / (3.5 * 0.89))


def test_a_call_of_python_takes_some_tens_of_nanoseconds():
    assert 5e-9 < call_s() < 5e-6


FAULTS = Interpreted(0.0, 0.0, 1.0, faults=2000.0, faults_spread=0.5)


def test_page_faults_of_the_program_are_in_each_latency_with_their_error(predicted, monkeypatch):
    monkeypatch.setattr(engine, "fault_s", lambda: 2e-6)
    without = predicted("pytorch", 0.0)
    monkeypatch.setattr(PytorchBackend, "interpreted", lambda *_: FAULTS)
    found = predicted("pytorch", 0.0)
    assert values(found) - values(without) == pytest.approx(4.0)
    (said,) = (each for each in found.ledger.notes if each.code == "engine-faults")
    assert said.values["ms"] == pytest.approx(4.0)
    for before, after in zip(without.models, found.models, strict=True):
        added = np.subtract(after.estimate.interval, before.estimate.interval)
        assert added == pytest.approx((4.0 - 1.645 * 2.0, 4.0 + 1.645 * 2.0), rel=1e-3)


def test_a_page_fault_takes_some_hundred_nanoseconds_or_some_microseconds():
    assert 5e-8 < fault_s() < 5e-5
