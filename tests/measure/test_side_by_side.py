"""One session on several backends."""

import pytest

from dlbricks_core.backends import BackendSettings
from dlbricks_core.facts import LATENCY, Question, Setup, Subject
from dlbricks_core.figures.protocols import PROTOCOLS
from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec
from dlbricks_core.measure.session import TimingJob, TimingSession
from dlbricks_core.measure.worker import BackendWorker, WorkerSettings
from dlbricks_core.store import ResultStore


@pytest.fixture
def store(tmp_path):
    with ResultStore.open(tmp_path / "results.sqlite") as opened:
        yield opened


@pytest.fixture
def bench(faulty):
    def made(memory=2**31):
        settings = WorkerSettings(BackendSettings(), timeout_s=30, memory_bytes=memory)
        return BackendWorker(faulty.TARGET, faulty.FaultyBackend(), settings)

    return made


def job(op, backend, domain="", size=3, runs=2):
    spec = TensorSpec("float32", (size,))
    layer = Layer(op, ("x",), ("t",), domain=domain)
    model = CanonicalModel("one", (layer,), ("x",), ("t",), {"x": spec, "t": spec})
    return TimingJob(
        Question(Subject(op, "brick"), LATENCY, Setup(backend, "1", "{}", 1, "p", "0.1.0"), "here"),
        model,
        runs,
    )


def test_a_network_is_in_one_group_on_all_backends(bench, store):
    benches = {"a": bench(2**33), "b": bench(7 * 2**28)}
    quarter_of_a_gigabyte = 2**26
    jobs = [
        job(op, backend, size=quarter_of_a_gigabyte)
        for backend in benches
        for op in ("Relu", "Abs", "Neg")
    ]
    groups = TimingSession(benches, store, PROTOCOLS["interleaved"])._groups(jobs)
    assert [
        [(j.key.subject.signature, j.key.setup.backend) for j in group] for group in groups
    ] == [
        [("Relu", "a"), ("Abs", "a"), ("Relu", "b"), ("Abs", "b")],
        [("Neg", "a"), ("Neg", "b")],
    ]
    loops = TimingSession(benches, store, PROTOCOLS["paper"])._groups(jobs)
    assert [[j.key.setup.backend for j in group] for group in loops] == [["a", "b"]] * 3


def test_groups_are_of_about_one_size(bench, store):
    made = bench(13 * 2**28)  # room for four of them
    jobs = [job(op, "a", size=2**26) for op in ("Relu", "Abs", "Neg", "Sign", "Tanh")]
    groups = TimingSession({"a": made}, store, PROTOCOLS["interleaved"])._groups(jobs)
    assert [len(group) for group in groups] == [3, 2]


@pytest.mark.process
def test_each_group_has_a_fresh_worker(bench, store, monkeypatch):
    """In a used worker, large feature maps may find no free memory."""
    starts = []
    launched = BackendWorker._launched

    def counted(self, *, asked):
        starts.append(self._worker is None)
        return launched(self, asked=asked)

    monkeypatch.setattr(BackendWorker, "_launched", counted)
    monkeypatch.setattr(BackendWorker, "nbytes", lambda self, model: 2**30)
    jobs = [job(op, "a") for op in ("Relu", "Abs", "Neg")]
    with bench() as made:
        assert TimingSession({"a": made}, store, PROTOCOLS["interleaved"]).run(jobs) == {}
        assert sum(starts) == len(jobs)
        assert all(len(each.values) == 2 for each in store.get(j.key for j in jobs).values())


@pytest.mark.parametrize("order", ["ab", "ba"])
def test_a_network_counts_with_its_largest_size_on_any_backend(bench, store, monkeypatch, order):
    benches = {name: bench(2**30) for name in order}
    for name, nbytes in (("a", 2**29), ("b", 1)):
        monkeypatch.setattr(benches[name], "nbytes", lambda model, nbytes=nbytes: nbytes)
    jobs = [job(op, backend) for backend in order for op in ("Relu", "Abs")]
    assert len(TimingSession(benches, store, PROTOCOLS["interleaved"])._groups(jobs)) == 2


@pytest.mark.process
def test_a_crash_on_one_backend_does_not_reach_the_other(bench, store):
    with bench() as a, bench() as b:
        crash = job("CrashLater", "a", domain="faulty", runs=3)
        good = [job(op, backend, runs=3) for backend in "ab" for op in ("Relu", "Tanh")]
        jobs = [good[0], crash, *good[1:]]
        failures = TimingSession({"a": a, "b": b}, store, PROTOCOLS["interleaved"]).run(jobs)
    assert list(failures) == [crash.key]
    assert "SIGSEGV" in failures[crash.key]
    stored = store.get(j.key for j in jobs)
    assert {len(stored[j.key].values) for j in good} == {3}
    rounds = {j.key: [s.round for s in stored[j.key].observations] for j in good}
    assert rounds[good[0].key] == rounds[good[2].key]
