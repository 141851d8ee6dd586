"""Measures the bricks and models that the store lacks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from itertools import chain
from operator import or_

from dlbricks_core.bricks import Brick
from dlbricks_core.bricks.families import groups_of
from dlbricks_core.facts import Note, Question
from dlbricks_core.facts import Session as SessionRecord
from dlbricks_core.facts.note import note
from dlbricks_core.figures.precision import MOST
from dlbricks_core.importers.cache import keep_names
from dlbricks_core.machine.cores import Cores
from dlbricks_core.machine.load import (
    LoadSampler,
    LoadWatch,
    alone_by_turns,
    first_look,
    measurement_lock,
    wait_for_quiet,
)
from dlbricks_core.machine.system import current_host
from dlbricks_core.measure.cutting import Cutting, Target
from dlbricks_core.measure.ledger import Ledger
from dlbricks_core.measure.metric_session import MetricSession
from dlbricks_core.measure.request import Request
from dlbricks_core.measure.schedule import (
    ComparedTogether,
    FixedRuns,
    Schedule,
    UntilPrecise,
    families,
    long_enough,
    shortfalls,
)
from dlbricks_core.measure.session import JobSession, TimingJob, TimingSession
from dlbricks_core.measure.worker import BackendWorker
from dlbricks_core.predict import usual_predictor
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore
from dlbricks_core.version import __version__
from dlbricks_core.worker import memory_to_use

# Waiting for a quiet machine before the first round.


def settle(watch: LoadWatch, request: Request, observer: Observer) -> float:
    """Waits once in each turn until other programs use little of the CPUs, unless accepted.

    Args:
        watch: Watch of the machine's load.
        request: How networks are measured.
        observer: Receives the progress.

    Returns:
        Seconds of the wait, which are not part of the budget.
    """
    if request.accepts_busy or not alone_by_turns() or not first_look():
        return 0.0
    return wait_for_quiet(watch, observer.note)


def measure(
    targets: Iterable[Target],
    request: Request,
    store: ResultStore,
    observer: Observer,
    cutting: Cutting | None = None,
    worker: BackendWorker | None = None,
) -> Ledger:
    """Measures every target without a complete measurement in the store.

    A measurement is complete if it has the requested number of samples, and if each figure that
    uses it has the requested precision (or every network of the figure has the maximum number of
    samples). The figures are the sums over the bricks of each model of the cutting, and the
    latencies of whole models. Without a cutting, each target is a figure.

    A target that failed before is reported and not measured again, unless ``request.force`` or
    ``request.retry_failed`` is set. A given worker is used and stays open.
    """
    share = BackendTargets(request, [list(targets)], cutting)
    return measure_side_by_side([share], store, observer, worker)[0]


def open_worker(request: Request, number: int = 1) -> BackendWorker:
    """A worker for one request at a time, not started yet.

    Args:
        request: The request.
        number: Number of workers with loaded networks, which share the memory.
    """
    metric = request.metric
    return BackendWorker.of(
        request,
        memory_bytes=memory_to_use() // number,
        keeps_memory=metric is None or not (metric.isolated or metric.in_sequence),
        warm=metric is None or not metric.in_sequence,
        as_used=metric is not None and metric.isolated,
    )


@dataclass(frozen=True)
class BackendTargets:
    """Targets of one of several backends that are timed side by side.

    Attributes:
        request: How the backend's networks are measured.
        sweeps: Groups of targets. The targets of a group run directly one after another, before the
            next backend takes its turn.
        cutting: Models whose figures must be precise, as for :func:`measure`.
    """

    request: Request
    sweeps: Sequence[Sequence[Target]]
    cutting: Cutting | None = None


def measure_side_by_side(
    shares: Sequence[BackendTargets],
    store: ResultStore,
    observer: Observer,
    worker: BackendWorker | None = None,
) -> list[Ledger]:
    """Times targets on several backends, in rounds that go through all of them.

    Args:
        shares: A share for each backend. Their requests differ only in the backend and its options,
            their cuttings are of the same models, and their sweeps are equal in number.
        store: Store that keeps the samples.
        observer: Receives the progress.
        worker: Worker of a single backend; ``None`` to start a new one for each backend.

    Returns:
        A ledger for each share. All have the effort of the whole session.
    """
    plans, late = [_plan(share, store) for share in shares], False
    if any(plan.lacking for plan in plans):
        plans, late = _measured(plans, store, observer, worker)
    reason = note("most-runs-reached", runs=MOST)
    if late:
        reason = note("budget-ended", budget_s=plans[0].request.budget_s)
    return [plan.finished(store, reason) for plan in plans]


@dataclass(frozen=True)
class _Plan:
    """Work of one backend.

    Attributes:
        share: Targets of the backend.
        wanted: All targets, by key.
        known: Stored measurements that may be used.
        anew: Keys of stored measurements that the first new samples replace.
        ledger: Failures and cost so far.
        lacking: Targets to be timed, by key.
    """

    share: BackendTargets
    wanted: Mapping[Question, Target]
    known: Ledger
    anew: AbstractSet[Question]
    ledger: Ledger = field(default_factory=Ledger)
    lacking: Mapping[Question, Target] = field(default_factory=dict)

    @property
    def request(self) -> Request:
        """Request of the share."""
        return self.share.request

    def jobs(self, targets: Iterable[Target]) -> list[TimingJob]:
        """Jobs for the lacking targets."""
        keys = (target.key(self.request) for target in targets)
        return [
            TimingJob(key, self.lacking[key].brick.model, self._missing(key))
            for key in keys
            if key in self.lacking
        ]

    def able(self) -> list[Question]:
        """Keys of the targets that have not failed."""
        return [key for key in self.wanted if key not in self.ledger.failures]

    def families(self) -> list[ComparedTogether]:
        """Figures that must be precise, grouped by model."""
        return families(self.request, self.share.cutting, self.able())

    def too_few(self) -> set[Question]:
        """Keys of the targets with too few samples in the store."""
        if self.request.precision is not None:
            schedule = UntilPrecise(
                self.families(),
                self.request.precision,
                self.known,
                disturbed=self.request.accepts_busy,
            )
            return schedule.lacking(self.able())
        return {key for key in self.able() if self._missing(key) > 0}

    def _missing(self, key: Question) -> int:
        known = self.known.measurements.get(key)
        taken = known.values if known else ()
        return 0 if long_enough(taken, self.request.enough_s) else self.request.runs - len(taken)

    def checked(self, worker: BackendWorker, store: ResultStore, observer: Observer) -> _Plan:
        """The plan without targets that the backend does not support or cannot check."""
        bricks = {key: target.brick for key, target in self.lacking.items()}
        ledger = self.ledger | check(bricks, self.request, worker, store, observer)
        if self.share.cutting is not None:
            kind = [key for key in self.wanted if key.subject.kind == "brick"]
            settle_models(self.share.cutting, kind, ledger, self.request, store)
        able = {key: each for key, each in self.lacking.items() if key not in ledger.failures}
        return replace(self, ledger=ledger, lacking=able)

    def after(self, session: JobSession, warnings: tuple[Note, ...]) -> _Plan:
        """The plan with the failures and the cost of a session of all backends."""
        own = {key: reason for key, reason in session.failures.items() if key in self.wanted}
        ledger = replace(
            self.ledger.failing(own),
            anew=frozenset(self.lacking),
            effort=session.effort,
            warnings=warnings,
            waited_s=session.waited_s,
        )
        return replace(self, ledger=ledger)

    def finished(self, store: ResultStore, reason: Note) -> Ledger:
        """The ledger with all samples. Complete stored measurements already have their figures."""
        request, able = self.request, self.able()
        new = [key for key in able if key in self.lacking or key not in self.known.figures]
        parts = chain.from_iterable(map(request.parts, able))
        held = self.known.only([key for key in able if key not in self.lacking])
        found = held | Ledger.of(store.get([*new, *parts]), request.protocol)
        ledger = replace(self.ledger, measurements=found.measurements, figures=found.figures)
        return ledger.noting(*shortfalls(request, self.share.cutting, ledger, reason))


def look_up(
    keys: Iterable[Question],
    request: Request,
    store: ResultStore,
    *,
    fewest: int = 1,
    refusals: bool = True,
) -> Ledger:
    """Stored measurements and failures of networks, without those that the request repeats.

    Args:
        keys: Keys of the networks.
        request: How networks are measured.
        store: Store of the measurements.
        fewest: Minimum number of samples of a measurement.
        refusals: Whether a network fails that the backend does not support in any role.
    """
    if request.force:
        return Ledger()
    keys = list(keys)
    found = store.get(keys)
    enough = {k: m for k, m in found.items() if not m.failure and len(m.values) >= fewest}
    ledger = Ledger.of(enough, request.protocol)
    if request.retry_failed:
        return ledger
    refused = store.refused(request.setup, request.fingerprint) if refusals else {}
    own = [key for key in keys if key.subject.kind != "native" and key not in enough]
    failed = [(k, refused[s], True) for k in own if (s := k.subject.signature) in refused]
    failed += [(k, m.failure, m.unsupported) for k, m in found.items() if m.failure]
    return ledger.recalling(failed)


def _plan(share: BackendTargets, store: ResultStore) -> _Plan:
    request = share.request
    wanted = {target.key(request): target for each in share.sweeps for target in each}
    store.remember_system(request.system.fingerprint, request.system.to_dict())
    _remember(share, wanted.values(), store)
    opaque = {key: target.brick.opaque for key, target in wanted.items() if target.brick.opaque}
    known = look_up([key for key in wanted if key not in opaque], request, store)
    again = request.force or request.retry_failed
    anew = wanted.keys() - known.measurements if again else frozenset()
    new = {key: t for key, t in wanted.items() if key not in known.measurements}
    unfit = {key: why for key, t in new.items() if (why := _does_not_fit(t, share.cutting))}
    ledger = Ledger(failures=known.failures, unsupported=known.unsupported)
    ledger = ledger.failing(opaque).failing(unfit)
    plan = _Plan(share, wanted, known, anew, ledger)
    too_few = plan.too_few()
    lacking = {key: target for key, target in wanted.items() if key in too_few}
    ledger = replace(ledger, reused=len(plan.able()) - len(lacking))
    return replace(plan, ledger=ledger, lacking=lacking)


def _does_not_fit(target: Target, cutting: Cutting | None) -> str:
    """Reason not to try a whole model; empty if it fits into memory or its size is unknown."""
    if target.kind == "brick" or cutting is None:
        return ""
    footprint = cutting.footprints.get(target.brick.signature)
    return "" if footprint is None or footprint.fits else f"it does not fit: {footprint}"


def _remember(share: BackendTargets, targets: Collection[Target], store: ResultStore) -> None:
    """Stores the facts that predictors need about the targets, and keeps names of whole models."""
    wholes = any(target.kind == "model" for target in targets)
    groups = groups_of(share.cutting.brickset, wholes=wholes) if share.cutting else {}
    for target in targets:
        if target.group:
            groups.setdefault(target.brick.signature, set()).add(target.group)
    bricks = {t.brick.signature: t.brick for t in targets if t.kind != "native"}
    usual_predictor().remember(store, bricks, groups)
    if share.cutting:
        keep_names({cut.whole.signature: cut.model.name for cut in share.cutting.brickset.models})


def _measured(
    plans: Sequence[_Plan],
    store: ResultStore,
    observer: Observer,
    worker: BackendWorker | None = None,
) -> tuple[list[_Plan], bool]:
    """The plans once the lacking targets are measured, and whether the budget ended first."""
    with ExitStack() as opened:
        opened.enter_context(measurement_lock(observer.note))
        lacking = [plan for plan in plans if plan.lacking]
        benches = {
            plan.request.backend.name: worker
            or opened.enter_context(open_worker(plan.request, len(lacking)))
            for plan in lacking
        }
        plans = [
            plan.checked(benches[plan.request.backend.name], store, observer)
            if plan.lacking
            else plan
            for plan in plans
        ]
        cores = Cores.of(plans[0].request.settings.threads)
        turns = zip(*([(plan, each) for each in plan.share.sweeps] for plan in plans), strict=True)
        jobs = [job for sweeps in turns for plan, targets in sweeps for job in plan.jobs(targets)]
        session = _session(plans, jobs, benches, store, observer, cores, worker is not None)
        reused = sum(plan.ledger.reused for plan in plans)
        observer.stage(
            f"{'Timing' if plans[0].request.metric is None else 'Observing'} {len(jobs)} networks "
            f"({reused} more are in the store)",
            session.steps(jobs),
        )
        warnings = (*_run(session, jobs, plans[0].request, store), *cores.warnings)
        return [plan.after(session, warnings) for plan in plans], session.late


def _session(
    plans: Sequence[_Plan],
    jobs: Sequence[TimingJob],
    benches: Mapping[str, BackendWorker],
    store: ResultStore,
    observer: Observer,
    cores: Cores,
    keeps_workers: bool,
) -> TimingSession | MetricSession:
    """The session, in which all backends take turns."""
    request = plans[0].request
    anew = frozenset(chain.from_iterable(plan.anew for plan in plans))
    watch = LoadWatch()
    quiet = partial(settle, request=request, observer=observer)
    if request.metric is not None:
        return MetricSession(benches, store, request.metric, observer.advance, anew, watch, quiet)
    return TimingSession(
        benches,
        store,
        request.protocol,
        observer.advance,
        _schedule(plans, jobs),
        request.budget_s,
        anew,
        cores,
        watch,
        quiet,
        keeps_workers=keeps_workers,
    )


def _run(
    session: TimingSession | MetricSession,
    jobs: Sequence[TimingJob],
    request: Request,
    store: ResultStore,
) -> Sequence[Note]:
    """Runs a session, and returns the disturbances of the machine meanwhile."""
    system = request.system.fingerprint
    record = SessionRecord(session.identifier, current_host(), system, __version__)
    store.keep_session(record)  # even if the session is interrupted
    sampler = LoadSampler()
    session.run(jobs)
    load = sampler.load()
    store.keep_session(replace(record, load=load.share))
    return load.warnings


def _schedule(plans: Sequence[_Plan], jobs: Sequence[TimingJob]) -> Schedule:
    """Schedule of the jobs: until figures are precise, or with a fixed number of runs."""
    precision = plans[0].request.precision
    if precision is None:
        return FixedRuns({job.key: job.missing for job in jobs}, plans[0].request.enough_s)
    each = [plan.families() for plan in plans]
    of_models = all(plan.share.cutting for plan in plans)
    # Compared figures are timed in the same rounds: all figures of a model on all backends.
    together = map(chain.from_iterable, zip(*each, strict=True)) if of_models else chain(*each)
    known = reduce(or_, (plan.known for plan in plans))
    return UntilPrecise(
        list(map(list, together)),
        precision,
        known,
        disturbed=plans[0].request.accepts_busy,
    )


def check(
    bricks: Mapping[Question, Brick],
    request: Request,
    worker: BackendWorker,
    store: ResultStore,
    observer: Observer,
) -> Ledger:
    """Failures of networks that the backend does not support or cannot check.

    The store keeps the unsupported networks, so that no estimate predicts their latencies.
    """
    observer.stage(f"Checking {len(bricks)} networks against {request.backend.name}")
    keys = {f"{key.subject.kind}:{key.subject.signature}": key for key in bricks}
    found = worker.check({handle: bricks[key].model for handle, key in keys.items()})
    refused = {keys[handle]: reason for handle, reason in found.unsupported.items()}
    for key, reason in refused.items():
        store.record_failure(key, reason, bricks[key].operators, unsupported=True)
    failed = {keys[handle]: reason for handle, reason in found.failed.items()}
    return Ledger(failures={**failed, **refused}, unsupported=refused)


def settle_models(
    cutting: Cutting,
    bricks: Iterable[Question],
    ledger: Ledger,
    request: Request,
    store: ResultStore,
) -> None:
    """Stores which whole models contain a brick that the backend does not support.

    Models are cut in several ways, and a brick of one cut says nothing about bricks of another.
    Bricks of a graph that a backend made of a model say nothing about the model either.

    Args:
        cutting: The models and their bricks.
        bricks: Bricks that were checked, or measured before.
        ledger: Failures of these bricks.
        request: How networks are measured.
        store: The store.
    """
    refused = {key.subject.signature: why for key, why in ledger.unsupported.items()}
    able = {key.subject.signature for key in bricks if key not in ledger.failures}
    cuts = [cut for cut in cutting.brickset.models if cut.graph is cut.model]
    keys = [Target(cut.whole, "model").key(request) for cut in cuts]
    known_refusals = store.refused(request.setup, request.fingerprint)
    known = store.get(keys)
    for cut, key in zip(cuts, keys, strict=True):
        whole = key.subject.signature
        reasons = [refused[s] for s in cut.counts if s in refused]
        if reasons and not (key in known and known[key].observations):
            store.record_failure(key, reasons[0], cut.whole.operators, unsupported=True)
        elif whole in known_refusals and cut.counts.keys() <= able:
            store.accept(request.setup, request.fingerprint, [whole])
