"""Service times of instances, composed from bricks, with a real framework."""

from dataclasses import replace

import numpy as np
import psutil
import pytest
from dlbricks_serving.contention import SLICES, Instance, passes
from dlbricks_serving.core_sets import core_sets
from dlbricks_serving.serving import composed
from dlbricks_serving.serving.composed import latency_beside, pass_beside, service_times
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dlbricks_core.compose import Estimate
from dlbricks_core.compose.options import CutOptions
from dlbricks_core.errors import StoreError
from dlbricks_core.estimation.run import run
from dlbricks_core.facts import LATENCY
from dlbricks_core.figures.statistics import faster_half
from dlbricks_core.measure.request import Request
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore

pytestmark = pytest.mark.process

QUANTITIES = (latency_beside(0), latency_beside(1), pass_beside(0), pass_beside(1))


@pytest.fixture
def store(tmp_path, monkeypatch):
    pytest.importorskip("onnxruntime")
    monkeypatch.setattr(passes, "_SHORTEST_S", 0.1)
    with ResultStore.open(tmp_path / "results.sqlite") as opened:
        yield opened


def asked(**more):
    return Request.of("onnxruntime", threads=1, runs=4, **more)


def samples(store, quantity):
    return {each.question: each.values for each in store.sampled(quantity)}


@pytest.mark.parametrize(("call_ms", "number"), [(1e3, 1), (0.0, 0)])
def test_bricks_that_take_hardly_longer_than_a_call_are_told(
    store, residual, monkeypatch, call_ms, number
):
    monkeypatch.setattr(passes, "start_of_a_line", lambda calls_ms: call_ms)
    for _ in range(2):  # what is stored is as doubtful
        (found,) = service_times([residual()], asked(), 1, 1, store, Observer())
        assert sum(each.code == "bricks-too-short" for each in found.warnings) == number


def test_what_was_measured_for_two_instances_is_kept(store, residual, monkeypatch):
    model = residual()
    run([model], CutOptions.chosen(None, None, None), asked(), store, Observer())
    ordinary = samples(store, LATENCY)
    (first,) = service_times([model], asked(), 2, 1, store, Observer())
    assert first.reason == ""
    assert first.service.instances == 2
    for estimate, latencies in (
        (first.beside, first.service.latency_ms),
        (first.alone, first.service.while_busy(1)),
    ):
        low, high = estimate.interval
        assert low <= estimate.value <= high
        assert faster_half(latencies) == pytest.approx(estimate.value)
        assert len(latencies) > 20
        assert np.std(latencies) > 0
    assert first.beside.value != first.alone.value

    assert samples(store, LATENCY) == ordinary  # latencies in turn never mix with others
    bricks = {key.subject for key in ordinary if key.subject.kind == "brick"}
    assert {key.subject for key in samples(store, latency_beside(1))} == bricks
    sessions = {each.id for each in store.sessions()}
    assert {s for each in store.sampled(pass_beside(1)) for s in each.sessions} <= sessions

    with monkeypatch.context() as patch:
        patch.setattr(Instance, "_launched", None)  # no process starts
        (again,) = service_times([model], asked(), 2, 1, store, Observer())
        (single,) = service_times([model], asked(), 1, 1, store, Observer())
    np.testing.assert_array_equal(again.service.latency_ms, first.service.latency_ms)
    assert again.beside.value == first.beside.value
    assert single.beside is None
    assert single.service.busy_of is None
    np.testing.assert_array_equal(single.service.latency_ms, first.service.while_busy(1))

    before = [samples(store, each) for each in QUANTITIES]
    service_times([model], asked(force=True), 2, 1, store, Observer())
    for quantity, old in zip(QUANTITIES, before, strict=True):
        new = samples(store, quantity)
        assert new.keys() == old.keys()
        assert all(len(new[key]) == len(old[key]) == SLICES for key in new)
        assert all(new[key] != old[key] for key in new)


def test_every_model_is_measured_by_itself_and_one_that_fails_does_not_end_the_others(
    store, residual, builder
):
    b = builder()
    b.add("Nothing", b.input)
    b.layers[-1] = replace(b.layers[-1], domain="nowhere")
    models = [b.model(name="bad"), residual(), residual(kernel=1, name="other")]
    bad, *good = service_times(models, asked(), 2, 1, store, Observer())
    assert bad.service is None
    assert "Nothing" in bad.reason
    assert all(each.service is not None for each in good)
    protocols = {key.setup.protocol for key in samples(store, latency_beside(1))}
    assert len(protocols) == 2
    assert all(";in-turn=" in each for each in protocols)


def test_bricks_that_do_not_fit_in_every_instance_are_named(store, residual, monkeypatch):
    monkeypatch.setattr(composed, "_LOADED_SHARE", 0.0)
    (found,) = service_times([residual()], asked(), 2, 1, store, Observer())
    assert found.service is None
    assert "in each instance" in found.reason
    assert "fewer instances" in found.reason


def test_an_interrupted_session_goes_on_where_it_ended(store, residual):
    class Ending(Observer):
        running = done = 0

        def stage(self, text, steps=None):
            self.running = text.startswith("Running")

        def advance(self, what=""):
            self.done += self.running
            if self.done == 3:
                raise KeyboardInterrupt

    class Counting(Observer):
        steps = ()

        def stage(self, text, steps=None):
            if text.startswith("Running"):
                self.steps = (*self.steps, steps)

    with pytest.raises(KeyboardInterrupt):
        service_times([residual()], asked(), 1, 1, store, Ending())
    taken = {len(values) for values in samples(store, latency_beside(0)).values()}
    assert taken == {3}
    observer = Counting()
    (found,) = service_times([residual()], asked(), 1, 1, store, observer)
    assert observer.steps == (SLICES - 3,)
    assert found.service is not None


def test_an_instance_that_fails_beside_others_is_named(store, residual):
    class Killing(Observer):
        done = 0
        beside = False

        def stage(self, text, steps=None):
            self.beside = "2 at a time" in text

        def advance(self, what=""):
            self.done += self.beside
            if self.done == 1:
                kill_those_on(core_sets(2, 1)[1])

    (found,) = service_times([residual()], asked(), 2, 1, store, Killing())
    assert found.service is None
    assert "killed" in found.reason
    (well,) = service_times([residual()], asked(), 2, 1, store, Observer())
    assert well.service is not None


def kill_those_on(cpus):
    every = psutil.Process().children(recursive=True)
    (found,) = [each for each in every if each.cpu_affinity() == list(cpus)]
    found.kill()


@given(
    st.floats(1e-3, 1e4),
    arrays(float, st.integers(1, 40), elements=st.floats(1e-3, 1e4)),
)
def test_scatter_keeps_the_estimate_and_the_shape_of_passes(value, passes_ms):
    found = composed._spread(Estimate(value, None, ()), passes_ms)
    assert faster_half(found) == pytest.approx(value)
    assert found / found[0] == pytest.approx(passes_ms / passes_ms[0])


def test_a_store_that_fails_is_no_fault_of_the_model(store, residual, monkeypatch):
    def fails(*_arguments, **_more):
        raise StoreError("the disk is full")

    monkeypatch.setattr(ResultStore, "add_all", fails)
    with pytest.raises(StoreError, match="the disk is full"):
        service_times([residual()], asked(), 1, 1, store, Observer())
