"""Metrics: how values compose, and sessions that observe in real workers."""

import os
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from time import sleep

import pytest
from dlbricks_quantities.cold_start import ColdStart
from dlbricks_quantities.load_time import LoadTime
from dlbricks_quantities.peak_memory import PeakMemory
from hypothesis import given
from hypothesis import strategies as st

from dlbricks_core.backends import BackendSettings
from dlbricks_core.bricks import CutModel
from dlbricks_core.bricks.brickset import Occurrence
from dlbricks_core.errors import BackendError, UnknownPluginError
from dlbricks_core.facts import Composition, Quantity, Question, Setup, Subject
from dlbricks_core.figures.figure import Measured
from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec
from dlbricks_core.measure.metric import Metric, find_metric
from dlbricks_core.measure.metric_session import MetricSession
from dlbricks_core.measure.session import TimingJob
from dlbricks_core.measure.worker import BackendWorker, WorkerSettings
from dlbricks_core.store import ResultStore

SPEC = TensorSpec("float32", (3,))
SHARED = Quantity("shared", "things", Composition.SUM, "what bricks keep")


class Sums(Metric):
    """Observes the number of layers plus 10; the process is a part of the quantity."""

    quantity = Quantity("layers-and-ten", "layers", Composition.SUM, "layers, and ten")
    parts = (Quantity("process", "", Composition.SUM, "process that observed"),)

    def observe(self, timer, model, seed):
        if model.layers[0].op == "Raise":
            raise RuntimeError("no such layer")
        return 10 + len(model.layers), os.getpid()


class Alone(Sums):
    isolated = True


class InSequence(Sums):
    """Observes how many networks its process had observed before, and the process."""

    in_sequence = True

    def __init__(self):
        self.before = -1

    def observe(self, timer, model, seed):
        self.before += 1
        return self.before, os.getpid()


class Peaks(Sums):
    quantity = Quantity("peaks", "things", Composition.PEAK, "what bricks take")
    parts = (SHARED,)


class Whole(Sums):
    """Tells whole models from bricks."""

    def observe_whole(self, timer, model, seed):
        return (1000,)


class Peculiar(Sums):
    """Observes whether networks of the backend run in turns, as its traits say."""

    def observe(self, timer, model, seed):
        return int(timer.traits.in_turns), 0


class Short(Sums):
    """Returns fewer values than the quantity has parts."""

    def observe(self, timer, model, seed):
        return (1.0,)


class Single(Sums):
    """Returns a number in place of a sequence."""

    def observe(self, timer, model, seed):
        return 1.0


class Below(Sums):
    """Returns a value that no quantity may have."""

    def observe(self, timer, model, seed):
        return (1.0, -1.0)


class Wrong(Sums):
    """Asks the timer for what it does not have."""

    def observe(self, timer, model, seed):
        return timer.nothing()


def cut_into(*signatures):
    model = CanonicalModel("m", (), (), (), {})
    occurrences = tuple(Occurrence(s, (i,)) for i, s in enumerate(signatures))
    return CutModel(model, occurrences, model)


def figures(metric, values, overhead=0.0):
    return {s: Measured((v,), metric.protocol, overhead) for s, v in values.items()}


sizes = st.floats(0, 1e6)


@given(st.dictionaries(st.sampled_from("abc"), sizes, min_size=1), sizes, st.integers(1, 4))
def test_a_sum_counts_every_brick_and_the_overhead_once(values, overhead, often):
    metric = Sums()
    known = figures(metric, {s: v + overhead for s, v in values.items()}, overhead)
    found = metric.estimate(cut_into(*(list(values) * often)), [known, known])
    assert found.value == pytest.approx(overhead + often * sum(values.values()), abs=1e-6)
    assert found.interval == pytest.approx((found.value, found.value), abs=1e-6)
    assert not found.partial


@given(st.dictionaries(st.sampled_from("abc"), st.tuples(sizes, sizes), min_size=1))
def test_a_peak_is_the_sum_that_all_keep_and_the_largest_need_beyond(values):
    metric = Peaks()
    peaks = figures(metric, {s: kept + more for s, (kept, more) in values.items()})
    kept = figures(metric, {s: kept for s, (kept, _) in values.items()})
    found = metric.estimate(cut_into(*values, *values), [peaks, kept])
    wanted = 2 * sum(k for k, _ in values.values()) + max(m for _, m in values.values())
    assert found.value == pytest.approx(wanted, rel=1e-6, abs=1e-6)


@given(st.lists(sizes, min_size=2, max_size=5), st.lists(sizes, min_size=2, max_size=5))
def test_an_interval_holds_the_estimate(first, second):
    metric = Sums()
    known = {s: Measured(tuple(v), metric.protocol) for s, v in (("a", first), ("b", second))}
    found = metric.estimate(cut_into("a", "b"), [known, known])
    for low, high in (found.interval, found.scatter):
        assert low <= found.value <= high


def test_a_brick_without_values_makes_an_estimate_partial():
    metric = Peaks()
    some = figures(metric, {"a": 3.0, "b": 4.0})
    found = metric.estimate(cut_into("a", "b", "c"), [some, figures(metric, {"a": 1.0})])
    assert found.missing == ("b", "c")
    assert found.value == 3
    assert metric.estimate(cut_into("c"), [some, some]).value is None


PARTS = len(ColdStart.parts)


@given(
    st.dictionaries(st.sampled_from("abc"), st.tuples(*[sizes] * PARTS), min_size=1),
    st.tuples(*[sizes] * PARTS),
    st.integers(1, 4),
)
def test_a_cold_start_starts_once_and_generates_code_once(values, overheads, often):
    metric, cut = ColdStart(), cut_into(*(list(values) * often))
    parts = [
        figures(metric, {s: each[i] + overheads[i] for s, each in values.items()}, overheads[i])
        for i in range(PARTS)
    ]
    start = sum(overheads[:5])
    wholes = figures(metric, {s: start + sum(v[:5]) for s, v in values.items()}, start)
    opening = often * sum(sum(v[1:4]) for v in values.values())
    running = sum(first + (often - 1) * copy for *_, first, copy, _, _ in values.values())
    found = metric.estimate(cut, [wholes, *parts])
    assert found.value == pytest.approx(start + opening + running, rel=1e-6, abs=1e-2)
    told = {q.name: each.value for q, each in metric.estimate_parts(cut, parts).items()}
    assert told["starting"] == overheads[0]
    assert told["first-run"] == pytest.approx(overheads[4] + running, rel=1e-6, abs=1e-3)
    counted = ("starting", "reading", "parsing", "preparing", "first-run")
    assert sum(told[name] for name in counted) == pytest.approx(found.value, rel=1e-6, abs=1e-2)
    assert len(told) == PARTS


def one(op):
    return CanonicalModel("one", (Layer(op, ("x0",), ("t0",)),), ("x0",), ("t0",),
                          {"x0": SPEC, "t0": SPEC})  # fmt: skip


def job(metric, op, missing=2):
    setup = Setup("faulty", "1.0", "{}", 1, metric.protocol.identity, "0.1.0")
    return TimingJob(
        Question(Subject(op, "brick"), metric.quantity, setup, "here"), one(op), missing
    )


def answers(store, each):
    """Stored measurements of the quantity and of its part."""
    part = replace(each.key, quantity=Sums.parts[0])
    found = store.get([each.key, part])
    return found[each.key], found[part]


@pytest.fixture
def store(tmp_path):
    with ResultStore.open(tmp_path / "results.sqlite") as opened:
        yield opened


@pytest.fixture
def worker(opened):
    """A worker that can import this file's metrics."""
    return opened()


@pytest.fixture
def other(opened):
    """A second one."""
    return opened()


@pytest.fixture
def opened(faulty, monkeypatch):
    """Opens workers that can import this file's metrics."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    settings = WorkerSettings(BackendSettings(), timeout_s=10, memory_bytes=2**30)
    backend = faulty.FaultyBackend()
    here = str(Path(__file__).parent)
    own = backend.environment(None)
    backend.environment = lambda _: {**own, "PYTHONPATH": f"{own['PYTHONPATH']}:{here}"}
    with ExitStack() as stack:
        yield lambda: stack.enter_context(BackendWorker(faulty.TARGET, backend, settings))


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    """A worker imports this file as a module of its own name."""
    for metric in (Sums, Alone, InSequence, Peaks, Peculiar, Short, Single, Below, Wrong, Whole):
        monkeypatch.setattr(metric, "__module__", "test_metric")


@pytest.mark.process
def test_observations_are_kept_with_what_any_network_costs(worker, store):
    done = []
    jobs = [job(Sums(), "Relu", 3), job(Sums(), "Tanh", 1)]
    session = MetricSession(worker, store, Sums(), done.append)
    assert session.run(jobs) == {}
    first, process = answers(store, jobs[0])
    assert first.values == (11, 11, 11)
    # Networks of one layer and of nine lie on a line that begins at 10.
    assert first.overheads == pytest.approx((10, 10, 10))
    assert [each.round for each in first.observations] == [0, 1, 2]
    assert {each.session for each in first.observations} == {session.identifier}
    assert len(set(process.values)) == 1
    assert len(answers(store, jobs[1])[0].values) == 1
    assert len(done) == session.steps(jobs) == 4
    assert session.effort.runs["brick"] == 4
    assert session.effort.seconds["brick"] > 0


@pytest.mark.process
def test_what_the_overhead_costs_is_told_as_cost_of_the_bricks(worker, store, monkeypatch):
    plain = MetricSession._overheads

    def slow(session, worker):
        sleep(0.5)
        return plain(session, worker)

    monkeypatch.setattr(MetricSession, "_overheads", slow)
    session = MetricSession(worker, store, Sums())
    session.run([job(Sums(), "Relu", 2), job(Sums(), "Tanh", 2)])
    assert session.effort.seconds["brick"] > 2 * 0.5


@pytest.mark.process
def test_backends_take_turns_in_every_round_each_in_its_own_process(worker, other, store):
    def of(operator, backend, missing):
        each = job(Sums(), operator, missing)
        setup = replace(each.key.setup, backend=backend)
        return replace(each, key=replace(each.key, setup=setup))

    jobs = [of("Relu", "one", 3), of("Relu", "two", 2), of("Tanh", "one", 2)]
    session = MetricSession({"one": worker, "two": other}, store, Sums())
    assert session.run(jobs) == {}
    taken = sorted(
        (each.taken_at, each.round, found.question.setup.backend)
        for found in store.measurements()
        if found.question.quantity == Sums.quantity
        for each in found.observations
    )
    assert [(number, backend) for _, number, backend in taken] == [
        (0, "one"), (0, "one"), (0, "two"), (1, "one"), (1, "one"), (1, "two"), (2, "one"),
    ]  # fmt: skip
    assert {e.session for f in store.measurements() for e in f.observations} == {session.identifier}
    processes = [set(answers(store, each)[1].values) for each in jobs]
    assert processes[0] == processes[2]
    assert processes[0].isdisjoint(processes[1])


@pytest.mark.process
def test_an_isolated_metric_observes_each_in_a_process_of_its_own(worker, store):
    jobs = [job(Alone(), "Relu"), job(Alone(), "Tanh")]
    MetricSession(worker, store, Alone()).run(jobs)
    processes = [pid for each in jobs for pid in answers(store, each)[1].values]
    assert len(set(processes)) == 4


@pytest.mark.process
def test_bricks_in_sequence_share_a_new_process_each_round_and_models_have_their_own(worker, store):
    metric = InSequence()
    bricks = [job(metric, "Relu"), job(metric, "Tanh")]
    key = bricks[0].key
    whole = TimingJob(replace(key, subject=Subject("whole", "model")), one("Relu"), 2)
    assert MetricSession(worker, store, metric).run([whole, *bricks]) == {}
    found = [answers(store, each) for each in (whole, *bricks)]
    # Two networks of next to no work come first; the second round runs backwards.
    assert [before.values for before, _ in found] == [(0, 0), (2, 3), (3, 2)]
    model, first, second = (process.values for _, process in found)
    assert first == second
    assert len({*model, *first}) == 4


@pytest.mark.process
def test_a_whole_model_may_be_observed_in_another_way(worker, store):
    brick = job(Whole(), "Relu", 1)
    whole = replace(brick, key=replace(brick.key, subject=Subject("Relu", "model")))
    MetricSession(worker, store, Whole()).run([brick, whole])
    assert answers(store, brick)[0].values == (11,)
    found = store.get([whole.key, replace(whole.key, quantity=Sums.parts[0])])
    # What it does not tell is not there, rather than zero.
    assert {key: each.values for key, each in found.items()} == {whole.key: (1000,)}


@pytest.mark.process
def test_a_metric_is_told_the_peculiarities_of_the_framework(worker, store):
    each = job(Peculiar(), "Relu", 1)
    MetricSession(worker, store, Peculiar()).run([each])
    # In turns is not the default.
    assert answers(store, each)[0].values == (1,)


@pytest.mark.process
def test_networks_that_fail_are_named_and_the_others_observed(worker, store):
    jobs = [job(Sums(), "Raise"), job(Sums(), "Relu")]
    failures = MetricSession(worker, store, Sums()).run(jobs)
    assert failures == {jobs[0].key: "RuntimeError: no such layer"}
    assert store.get([jobs[0].key])[jobs[0].key].failure == "RuntimeError: no such layer"
    assert len(answers(store, jobs[1])[0].values) == 2


@pytest.mark.process
def test_old_values_are_replaced_with_the_first_new_one(worker, store):
    each = job(Sums(), "Relu", 1)
    MetricSession(worker, store, Sums()).run([each])
    before, _ = answers(store, each)
    MetricSession(worker, store, Sums(), anew={each.key}).run([each])
    after, process = answers(store, each)
    assert len(after.values) == len(process.values) == 1
    assert after.observations[0].session != before.observations[0].session


@pytest.mark.process
@pytest.mark.parametrize(
    ("metric", "told"),
    [
        (Short(), "returns 1 values of a quantity with 1 parts"),
        (Single(), "returned 1.0 instead of a sequence of values"),
        (Below(), "values must be finite, and 0 or more"),
        (Wrong(), "AttributeError: .* has no attribute 'nothing'"),
    ],
)
def test_a_metric_that_tells_something_else_is_a_failure_that_names_it(worker, store, metric, told):
    with pytest.raises(BackendError, match=f"no {metric.name} of a network with .*{told}"):
        MetricSession(worker, store, metric).run([job(metric, "Relu")])


def test_a_peak_needs_a_part_or_a_total_of_its_own():
    peak = Quantity("peak", "things", Composition.PEAK, "a peak")
    with pytest.raises(TypeError, match="Lacking: the first part of a peak must be"):
        type("Lacking", (Metric,), {"quantity": peak})
    type("Whole", (Metric,), {"quantity": peak, "parts": (SHARED,)})
    type("Own", (Metric,), {"quantity": peak, "total": lambda self, cut, values: values[0]})


def test_metrics_are_found_by_the_name_of_their_quantity():
    assert type(find_metric("cold-start")) is ColdStart
    assert type(find_metric("load-time")) is LoadTime
    assert type(find_metric("peak-memory")) is PeakMemory
    with pytest.raises(UnknownPluginError, match="unknown quantity 'lode-time'") as caught:
        find_metric("lode-time")
    assert "latency needs no metric" in caught.value.hint
    assert "Did you mean load-time?" in caught.value.hint


def test_another_version_asks_other_questions():
    metric = Sums()
    before = metric.protocol.identity
    metric.version += 1
    assert metric.protocol.identity != before
