import time
from dataclasses import replace
from datetime import UTC
from types import SimpleNamespace

import numpy as np
import psutil
import pytest

from dlbricks_core.backends import BackendSettings, Traits
from dlbricks_core.bricks import BrickSet
from dlbricks_core.errors import DLBricksError
from dlbricks_core.facts import LATENCY, Measurement, Observation, Question, Setup, Subject
from dlbricks_core.figures.precision import FEWEST, MOST, PrecisionTarget
from dlbricks_core.figures.protocols import PROTOCOLS
from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec
from dlbricks_core.machine.cores import FAR
from dlbricks_core.measure.ledger import Effort
from dlbricks_core.measure.schedule import PASSES, UntilPrecise
from dlbricks_core.measure.session import TimingJob, TimingSession
from dlbricks_core.measure.worker import KEEPS_MEMORY, BackendWorker, WorkerSettings
from dlbricks_core.store import ResultStore

pytestmark = pytest.mark.process

SPEC = TensorSpec("float32", (3,))


def one(op, domain=""):
    return CanonicalModel("one", (Layer(op, ("x0",), ("t0",), domain=domain),), ("x0",), ("t0",),
                 {"x0": SPEC, "t0": SPEC})  # fmt: skip


def job(op, domain="", missing=3):
    key = Question(
        Subject(f"{domain}.{op}", "brick"),
        LATENCY,
        Setup("faulty", "1.0", "{}", 1, "p", "0.1.0"),
        "here",
    )
    return TimingJob(key, one(op, domain), missing)


@pytest.fixture
def store(tmp_path):
    with ResultStore.open(tmp_path / "results.sqlite") as opened:
        yield opened


@pytest.fixture
def bench(faulty):
    settings = WorkerSettings(BackendSettings(), timeout_s=60, memory_bytes=2**30)
    with BackendWorker(faulty.TARGET, faulty.FaultyBackend(), settings) as opened:
        yield opened


@pytest.fixture
def clock(monkeypatch):
    """Seconds that have passed for sessions: as many as a test adds, however slow the machine."""
    passed = [0.0]
    monkeypatch.setattr("dlbricks_core.measure.session.perf_counter", lambda: passed[0])
    return passed


def wait_until(holds, seconds=30):
    """Waits for what another process is about to do."""
    end = time.monotonic() + seconds
    while not holds() and time.monotonic() < end:
        time.sleep(0.02)
    assert holds()


@pytest.mark.parametrize("in_turns", [True, False])
@pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=PROTOCOLS)
def test_networks_that_fail_are_named_and_all_others_are_measured(
    bench, store, protocol, in_turns, faulty, monkeypatch
):
    monkeypatch.setattr(faulty.FaultyBackend, "traits", Traits(in_turns=in_turns))
    good = [job("Relu"), job("Sigmoid"), job("Tanh")]
    bad = [job(op, "faulty") for op in ("Crash", "Leave", "Exhaust", "Raise", "NaN", "CrashLater")]
    mixed = [good[0], *bad[:2], good[1], *bad[2:], good[2]]
    failures = TimingSession(bench, store, protocol).run(mixed)

    reasons = {key.subject.signature.split(".")[1]: reason for key, reason in failures.items()}
    assert set(reasons) == {j.key.subject.signature.split(".")[1] for j in bad}
    assert "SIGSEGV" in reasons["Crash"]
    assert "exit status 7" in reasons["Leave"]
    assert "memory" in reasons["Exhaust"]
    assert "kernel not found" in reasons["Raise"]
    assert "NaN" in reasons["NaN"]
    assert "SIGSEGV" in reasons["CrashLater"]

    stored = store.get([j.key for j in mixed])
    for each in good:
        assert len(stored[each.key].values) == 3
        assert stored[each.key].failure is None
    for each in bad:
        assert stored[each.key].failure == failures[each.key]


def test_a_network_that_hangs_is_given_up_and_the_others_are_measured(store, faulty):
    settings = WorkerSettings(BackendSettings(), timeout_s=3, memory_bytes=2**30)
    jobs = [job("Relu"), job("Hang", "faulty"), job("Tanh")]
    with BackendWorker(faulty.TARGET, faulty.FaultyBackend(), settings) as bench:
        failures = TimingSession(bench, store, PROTOCOLS["interleaved"]).run(jobs)
    assert list(failures) == [jobs[1].key]
    assert "no answer within" in failures[jobs[1].key]
    assert counts(store, [jobs[0], jobs[2]]) == [3, 3]


def test_a_brick_that_breaks_the_check_is_found_among_others(bench):
    models = {name: one(name) for name in ("Relu", "CrashCheck", "Sigmoid", "Unsupported")}
    checked = bench.check(models)
    assert checked.unsupported == {"Unsupported": "no counterpart for Unsupported"}
    assert set(checked.failed) == {"CrashCheck"}
    assert "SIGSEGV" in checked.failed["CrashCheck"]


def test_samples_are_committed_as_soon_as_the_worker_hands_them_over(bench, store, monkeypatch):
    monkeypatch.setattr("dlbricks_core.measure.session._TURN_MS", 1e-6)  # one by one
    jobs = [job("Relu", missing=4), job("Tanh", missing=4)]
    seen = []

    def stop_in_the_middle(_):
        total = sum(len(m.values) for m in store.get(j.key for j in jobs).values())
        seen.append(total)
        if total == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        TimingSession(bench, store, PROTOCOLS["interleaved"], stop_in_the_middle).run(jobs)
    assert sum(len(m.values) for m in store.get(j.key for j in jobs).values()) == 5


def test_old_samples_stay_until_new_ones_replace_them(bench, store, monkeypatch):
    monkeypatch.setattr("dlbricks_core.measure.session._TURN_MS", 1e-6)  # one by one
    relu, tanh = jobs = [job("Relu", missing=2), job("Tanh", missing=2)]
    for each in jobs:
        store.add_samples(each.key, Observation("earlier", 0, (1e6,)))
    held = []

    def look(_):
        held.append([len(store.get([each.key])[each.key].values) for each in jobs])
        earlier = store.get([tanh.key])[tanh.key].values == (1e6,)
        assert earlier == (len(held) <= 3)  # two loads and the first network's sample

    protocol = PROTOCOLS["interleaved"]
    TimingSession(bench, store, protocol, look, anew={each.key for each in jobs}).run(jobs)
    assert held == [[1, 1], [1, 1], [1, 1], [1, 1], [1, 2], [2, 2]]
    assert 1e6 not in store.get([relu.key])[relu.key].values


def test_networks_take_turns_when_interleaved_and_not_as_in_the_paper(bench, store):
    jobs = [job("Relu"), job("Tanh")]
    order = []
    in_turn, in_loop = bench.sample_in_turn, bench.sample
    bench.sample_in_turn = lambda keys, warm_io: (
        order.append(keys) or in_turn(keys, warm_io=warm_io)
    )
    bench.sample = lambda key, runs, warm_io: (
        order.append(key) or in_loop(key, runs, warm_io=warm_io)
    )
    TimingSession(bench, store, PROTOCOLS["interleaved"]).run(jobs)
    relu, tanh = (each.handle for each in jobs)
    assert order == [[relu, tanh], [tanh, relu], [relu, tanh]]  # every other round is backwards
    order.clear()
    loops = [job("Abs"), job("Neg")]
    TimingSession(bench, store, PROTOCOLS["paper"]).run(loops)
    assert order == [each.handle for each in loops]


def test_a_backend_may_want_a_pause_after_each_network(bench, store, faulty, monkeypatch):
    monkeypatch.setattr(faulty.FaultyBackend, "traits", Traits())
    order = []
    alone, call = bench.sample, bench.measure_call
    bench.sample = lambda key, runs, warm_io: order.append(key) or alone(key, runs, warm_io=warm_io)
    bench.measure_call = lambda runs, warm_io: order.append(runs) or call(runs, warm_io=warm_io)
    relu, tanh = jobs = [job("Relu", missing=2), job("Tanh", missing=2)]
    TimingSession(bench, store, PROTOCOLS["interleaved"]).run(jobs)
    assert order == [1, relu.handle, tanh.handle, 1, tanh.handle, relu.handle]


def test_turns_are_short_and_of_one_backend(faulty, store):
    """An interrupt then loses little, and backends alternate model by model."""
    made = BackendWorker(faulty.TARGET, faulty.FaultyBackend(), WorkerSettings(BackendSettings()))
    other = BackendWorker(faulty.TARGET, faulty.FaultyBackend(), WorkerSettings(BackendSettings()))
    jobs = [job(op) for op in ("Relu", "Tanh", "Abs", "Neg")]
    moved = replace(
        jobs[3], key=replace(jobs[3].key, setup=replace(jobs[3].key.setup, backend="other"))
    )
    for each, latency_ms in zip([*jobs[:3], moved], (30, 180, 30, 5), strict=True):
        bench = other if each is moved else made
        bench._latency_ms[each.handle] = latency_ms
    session = TimingSession({"faulty": made, "other": other}, store, PROTOCOLS["interleaved"])
    turns = [[j.key.subject.signature for j in turn] for turn in session._turns([*jobs[:3], moved])]
    assert turns == [[".Relu", ".Tanh"], [".Abs"], [".Neg"]]


def test_samples_say_if_cores_were_apart_in_their_turn(bench, store):
    class Recorder:
        def gather(self):
            heard.append(len(kept()))
            return len(heard) == 1

    def kept():
        return [ms for found in store.get(keys).values() for ms in found.values]

    heard, jobs = [], [job("Relu", missing=2), job("Tanh", missing=2)]
    keys = [each.key for each in jobs]
    TimingSession(bench, store, PROTOCOLS["interleaved"], cores=Recorder()).run(jobs)
    assert heard == [0, 2]
    for found in store.get(keys).values():
        assert [taken.flags for taken in found.observations] == [(), (FAR,)]


def test_networks_that_do_not_fit_into_memory_together_are_timed_in_groups(faulty, store):
    settings = WorkerSettings(BackendSettings(), memory_bytes=2**29)
    with BackendWorker(faulty.TARGET, faulty.FaultyBackend(), settings) as bench:
        spec = TensorSpec("float32", (2**24,))  # an eighth of what there is, in and out
        jobs = [
            TimingJob(
                Question(Subject(op, "brick"), LATENCY,
                      Setup("faulty", "1.0", "{}", 1, "p", "0.1.0"), "here"),
                CanonicalModel("big", (Layer(op, ("x0",), ("t0",)),), ("x0",), ("t0",),
                      {"x0": spec, "t0": spec}),
                1,
            )
            for op in ("Relu", "Abs", "Neg")
        ]  # fmt: skip
        session = TimingSession(bench, store, PROTOCOLS["interleaved"])
        assert session.run(jobs) == {}
        assert session.effort.groups == 2


def test_the_cost_of_a_call_is_measured_and_kept(bench, store):
    TimingSession(bench, store, PROTOCOLS["paper"]).run([job("Relu")])
    kept = store.get([job("Relu").key])[job("Relu").key]
    assert 0 <= kept.overheads[0] < 50
    assert kept.overheads == (bench.call_ms,)
    assert kept.observations[0].taken_at.tzinfo == UTC
    assert kept.layers == ("Relu",)


def test_progress_is_reported_step_by_step(bench, store):
    for protocol in PROTOCOLS.values():
        heard = []
        session = TimingSession(bench, store, protocol, heard.append)
        jobs = [job("Relu"), job("Sign")]
        session.run(jobs)
        assert len(heard) == session.steps(jobs)


def test_workers_keep_freed_memory(from_nothing, bench):
    bench.load("one", one("Relu"))
    guard = max(psutil.Process().children(), key=psutil.Process.create_time)
    (worker,) = guard.children()
    assert worker.environ().items() >= KEEPS_MEMORY.items()


def test_workers_are_limited_when_they_rewrite_and_when_they_time(from_nothing, bench):
    def guard_and_limit():
        guard = max(psutil.Process().children(), key=psutil.Process.create_time)
        (worker,) = guard.children()
        soft, _ = worker.rlimit(psutil.RLIMIT_DATA)
        return guard, soft

    bench.rewrite(one("Relu"))
    guard, most = guard_and_limit()
    assert most == pytest.approx(8 * 2**30, rel=0.1)
    wait_until(lambda: guard.num_threads() == 4)  # one watches the worker's memory
    bench.load("one", one("Relu"))
    guard, most = guard_and_limit()
    assert 2**30 < most < 2 * 2**30
    wait_until(lambda: guard.num_threads() == 3)


def test_a_closed_backend_worker_starts_no_process(faulty):
    settings = WorkerSettings(BackendSettings(), memory_bytes=2**30)
    with BackendWorker(faulty.TARGET, faulty.FaultyBackend(), settings) as bench:
        pass
    with pytest.raises(DLBricksError, match="closed"):
        bench.rewrite(one("Relu"))


@pytest.mark.parametrize(
    ("primed", "cache", "copies"), [(True, 17, 1), (True, 16, 0), (False, 17, 0)]
)
def test_memory_of_priming_copies_is_counted(faulty, monkeypatch, primed, cache, copies):
    monkeypatch.setattr(faulty.FaultyBackend, "traits", Traits(primed=primed))
    monkeypatch.setattr("dlbricks_core.measure.worker.largest_cache", lambda: cache)
    made = BackendWorker(faulty.TARGET, faulty.FaultyBackend(), WorkerSettings(BackendSettings()))
    layer = Layer("MatMul", ("x", "w"), ("y",))
    tensors = dict.fromkeys("xwy", TensorSpec("float32", (4, 4)))
    model = CanonicalModel("product", (layer,), ("x",), ("y",), tensors, frozenset("w"))
    assert model.weight_bytes == 64
    assert made.nbytes(model) == 2 * 64 + (1 + copies) * 2 * 64
    monkeypatch.setattr(faulty.FaultyBackend, "traits", Traits(primed=primed, weights_held=1))
    assert made.nbytes(model) == 2 * 64 + (1 + copies) * 64


def test_a_worker_is_told_how_large_the_caches_are(faulty, monkeypatch):
    class Worker:
        def call(self, method, *arguments, timeout):
            heard.append((method, arguments))

    heard = []
    monkeypatch.setattr("dlbricks_core.measure.worker.largest_cache", lambda: 64)
    monkeypatch.setattr("dlbricks_core.measure.worker.near_caches", lambda cores: 7 * cores)
    settings = BackendSettings(3)
    made = BackendWorker(
        faulty.TARGET, faulty.FaultyBackend(), WorkerSettings(settings, memory_bytes=9)
    )
    monkeypatch.setattr(made, "_launched", lambda asked: Worker())
    made.start()
    assert heard == [("start", (faulty.TARGET, settings, 9, 64, 21, True, True))]


@pytest.mark.parametrize(("as_used", "threads"), [(False, 1), (True, 7)])
def test_a_worker_has_the_settings_of_users_where_it_is_told_so(
    faulty, monkeypatch, as_used, threads
):
    monkeypatch.setattr(faulty.FaultyBackend, "as_used", lambda *_: BackendSettings(7))
    given = []
    monkeypatch.setattr(
        "dlbricks_core.measure.worker.WorkerProcess",
        lambda *_, **__: SimpleNamespace(call=lambda method, *a, **_: given.append(a[1].threads)),
    )
    monkeypatch.setattr("dlbricks_core.measure.worker.take_turn", lambda: None)
    settings = WorkerSettings(BackendSettings(), memory_bytes=9, as_used=as_used)
    made = BackendWorker(faulty.TARGET, faulty.FaultyBackend(), settings)
    environments = []
    monkeypatch.setattr(
        made._backend, "environment", lambda each: environments.append(each.threads) or {}
    )
    made.start()
    assert given == environments == [threads]


@pytest.mark.parametrize("rewrites", [True, False])
def test_the_limits_of_a_command_end_where_it_begins_to_measure(faulty, monkeypatch, rewrites):
    room = "dlbricks_core.measure.worker"
    done = []
    monkeypatch.setattr(f"{room}.WorkerProcess", lambda *_, **__: SimpleNamespace())
    monkeypatch.setattr(f"{room}.take_turn", lambda: None)
    monkeypatch.setattr(f"{room}.release", lambda: done.append(1))
    made = BackendWorker(faulty.TARGET, faulty.FaultyBackend(), WorkerSettings(BackendSettings()))
    monkeypatch.setattr(made, "_answer", lambda *_, **__: 0)
    made._launched(asked=True) if rewrites else made.start()
    assert bool(done) is not rewrites


def test_a_backend_that_cannot_start_is_an_error_of_its_own(store, faulty):
    with (
        BackendWorker(
            "faulty_backend:Absent", faulty.FaultyBackend(), WorkerSettings(BackendSettings())
        ) as bench,
        pytest.raises(DLBricksError, match=r"^faulty does not start: .*Absent"),
    ):
        bench.load("x", one("Relu"))


def test_bricks_of_a_model_run_on_a_worker(bench, residual):
    bricks = BrickSet.of([residual()], 2)
    for identity, brick in bricks.bricks.items():
        assert bench.load(identity, brick.model) > 0
        samples = bench.sample(identity, 2, warm_io=True)
        assert len(samples) == 2
        assert np.min(samples) > 0


def until_precise(jobs, precision=0.01):
    return UntilPrecise(
        [[PrecisionTarget(j.key.subject.signature, {j.key: 1})] for j in jobs], precision
    )


def counts(store, jobs):
    found = store.get(j.key for j in jobs)
    return [len(found[j.key].values) for j in jobs]


@pytest.mark.usefixtures("clock")
def test_noisy_networks_get_more_rounds(bench, store):
    quiet, noisy = jobs = [job("Relu", missing=FEWEST), job("Tanh", missing=FEWEST)]
    random = np.random.default_rng(0)
    scatter = {quiet.handle: 0.001, noisy.handle: 0.04}
    bench.sample_in_turn = lambda keys, warm_io: [
        (random.normal(10, 10 * scatter[key]), 0.01) for key in keys
    ]
    session = TimingSession(
        bench, store, PROTOCOLS["interleaved"], schedule=until_precise(jobs), budget_s=60
    )
    assert session.run(jobs) == {}
    few, many = counts(store, jobs)
    assert few == FEWEST
    assert 2 * FEWEST < many < MOST
    assert not session.late
    assert session.effort.runs["brick"] == few + many


def test_after_the_budget_only_the_fewest_rounds_are_run(bench, store):
    jobs = [job("Relu", missing=FEWEST), job("Crash", "faulty"), job("Tanh", missing=FEWEST)]
    schedule = until_precise(jobs, precision=1e-9)
    session = TimingSession(
        bench, store, PROTOCOLS["interleaved"], schedule=schedule, budget_s=1e-3
    )  # fmt: skip
    assert list(session.run(jobs)) == [jobs[1].key]
    assert session.late
    assert counts(store, [jobs[0], jobs[2]]) == [FEWEST, FEWEST]
    assert {d.name for d, _ in schedule.shortfalls()} == {".Relu", ".Tanh"}


def test_cheap_networks_run_several_times_in_a_round_and_apart(bench, store):
    dear = [job("Relu", missing=FEWEST), job("Tanh", missing=FEWEST)]
    cheap = job("Sigmoid", missing=FEWEST)
    latencies = {dear[0].handle: 100.0, dear[1].handle: 100.0, cheap.handle: 1.0}
    random, ran = np.random.default_rng(0), []

    def sample_in_turn(keys, warm_io):
        ran.extend(keys)
        return [(latencies[key] * random.normal(1, 0.1), 0.01) for key in keys]

    bench.sample_in_turn = sample_in_turn
    bench.latency_ms = latencies.__getitem__
    schedule = until_precise([*dear, cheap])
    TimingSession(bench, store, PROTOCOLS["interleaved"], schedule=schedule, budget_s=0.3).run(
        [dear[0], cheap, dear[1]]
    )
    first, second = ran[:3], ran[3 : 3 + 2 + PASSES]
    assert first == [dear[0].handle, cheap.handle, dear[1].handle]
    assert [handle for handle in second if handle != cheap.handle] == [
        dear[1].handle,
        dear[0].handle,
    ]
    gap = {abs(second.index(d.handle) - second.index(dear[0].handle)) for d in dear}
    assert max(gap) > 1  # some of the passes lie between the two
    rounds = {
        each.key: [s.round for s in store.get([each.key])[each.key].observations]
        for each in [*dear, cheap]
    }
    assert rounds[dear[0].key][:3] == rounds[dear[1].key][:3] == [0, 1, 1 + PASSES]
    assert rounds[cheap.key][: 2 + PASSES] == list(range(2 + PASSES))


def test_groups_share_the_budget(bench, store, monkeypatch, clock):
    monkeypatch.setattr(TimingSession, "_room", lambda self, jobs: 1.0)  # each network alone
    jobs = [job("Relu", missing=FEWEST), job("Tanh", missing=FEWEST)]
    random = np.random.default_rng(0)

    def sample_in_turn(keys, warm_io):
        clock[0] += 0.01
        return [(random.normal(10, 1), 0.01) for _ in keys]

    bench.sample_in_turn = sample_in_turn
    session = TimingSession(
        bench, store, PROTOCOLS["interleaved"], schedule=until_precise(jobs, 1e-9), budget_s=2
    )
    session.run(jobs)
    assert session.effort.groups == 2
    assert session.late
    first, second = counts(store, jobs)
    assert FEWEST < first < MOST
    assert FEWEST < second < MOST


def test_loading_is_counted_in_the_seconds(bench, store):
    session = TimingSession(bench, store, PROTOCOLS["interleaved"])
    session.run([job("Relu"), job("Tanh")])
    effort = session.effort
    assert 0 < effort.loading["brick"] < effort.seconds["brick"]
    assert effort.loading["model"] == effort.seconds["model"] == 0


def test_the_cost_of_a_session_follows_from_its_samples(bench, store):
    session = TimingSession(bench, store, PROTOCOLS["interleaved"])
    session.run([job("Relu"), job("Tanh")])
    told = Effort.of(store.measurements())
    assert told.runs == session.effort.runs
    assert told.networks == session.effort.networks
    assert told.loading["brick"] == pytest.approx(session.effort.loading["brick"])
    assert told.seconds["brick"] == pytest.approx(session.effort.seconds["brick"])


def test_samples_of_unknown_cost_are_not_counted_as_free():
    key = job("Relu").key
    samples = (Observation("old", 0, (1.0,)), Observation("new", 0, (1.0,), spent_s=0.5))
    told = Effort.of([Measurement(key, observations=samples)])
    assert (told.runs["brick"], told.seconds["brick"]) == (1, 0.5)
