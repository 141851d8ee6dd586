"""Measures the bricks and models that the store lacks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import chain

from dlbricks_core.bricks import Brick
from dlbricks_core.facts import Kind, Measurement, Question
from dlbricks_core.facts import Session as SessionRecord
from dlbricks_core.figures.precision import MOST
from dlbricks_core.machine.cores import Cores
from dlbricks_core.machine.load import LoadSampler
from dlbricks_core.machine.system import current_host
from dlbricks_core.machine.turns import turn
from dlbricks_core.measure.probing import ProbingSession
from dlbricks_core.measure.schedule import (
    ComparedTogether,
    FixedRuns,
    Schedule,
    UntilPrecise,
    long_enough,
)
from dlbricks_core.measure.session import Effort, Job, Session
from dlbricks_core.measure.worker import BackendWorker, WorkerSettings
from dlbricks_core.store import ResultStore
from dlbricks_core.version import __version__
from dlbricks_core.wording import argument
from dlbricks_core.worker import memory_to_use
from dlbricks_core.workflows.cutting import Cutting
from dlbricks_core.workflows.knowledge import groups_of, remember
from dlbricks_core.workflows.observer import Observer
from dlbricks_core.workflows.request import Request
from dlbricks_core.workflows.targets import families, shortfalls


@dataclass(frozen=True)
class Target:
    """A network to measure: a brick, or a whole model as one brick.

    Attributes:
        brick: The network.
        kind: Kind of the network: brick, model or native form.
        group: Family by which predictors are judged; empty for the known families of the models
            that the network is cut from.
    """

    brick: Brick
    kind: Kind
    group: str = ""


@dataclass
class Outcome:
    """Result of measuring.

    Attributes:
        measurements: Complete measurements, by key.
        failures: Reason for each missing measurement, by key.
        unsupported: Failures in which the backend does not support a layer.
        reused: Number of measurements that were complete in the store already.
        anew: Keys of the measurements to which this session added samples.
        effort: Cost of the session, if it measured anything.
        warnings: Disturbances of the machine during the session.
        notes: Figures that are less precise than requested, with the reason.
    """

    measurements: dict[Question, Measurement] = field(default_factory=dict)
    failures: dict[Question, str] = field(default_factory=dict)
    unsupported: dict[Question, str] = field(default_factory=dict)
    reused: int = 0
    anew: AbstractSet[Question] = frozenset()
    effort: Effort = field(default_factory=Effort)
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def measured(self) -> int:
        """Number of measurements to which this session added samples."""
        return len(self.anew)

    def refuse(self, key: Question, brick: Brick, reason: str, store: ResultStore) -> None:
        """Adds a network that the backend does not support.

        The store keeps it, so that no estimate predicts how long the network takes.

        Args:
            key: Key of the network.
            brick: The network.
            reason: What the backend does not support.
            store: The store.
        """
        self.failures[key] = self.unsupported[key] = reason
        store.record_failure(key, reason, brick.operators, unsupported=True)

    def recall(self, key: Question, failure: str, *, unsupported: bool) -> None:
        """Adds a failure that the store holds."""
        reason = f"{failure} (earlier; {argument('retry_failed')} tries again)"
        self.failures[key] = reason
        if unsupported:
            self.unsupported[key] = reason


def settle_models(
    cutting: Cutting,
    refused: Mapping[str, str],
    able: AbstractSet[str],
    request: Request,
    store: ResultStore,
) -> None:
    """Stores which whole models hold a brick that the backend does not support.

    Models are cut in several ways, and a brick tells nothing about those of another cut. Parts of
    what a backend makes of a model say nothing about the model.

    Args:
        cutting: The models and their bricks.
        refused: Reason for each brick that the backend does not support, by signature.
        able: Signatures of bricks that it supports.
        request: How networks are measured.
        store: The store.
    """
    cuts = [cut for cut in cutting.brickset.models if cut.graph is cut.model]
    keys = [request.key(cut.whole.signature, "model") for cut in cuts]
    told = store.refused(request.setup, request.fingerprint)
    known = store.get(keys)
    for cut, key in zip(cuts, keys, strict=True):
        whole = key.subject.signature
        reasons = [refused[s] for s in cut.counts if s in refused]
        if reasons and not (key in known and known[key].observations):
            store.record_failure(key, reasons[0], cut.whole.operators, unsupported=True)
        elif whole in told and cut.counts.keys() <= able:
            store.accept(request.setup, request.fingerprint, [whole])


def measure(
    targets: Iterable[Target],
    request: Request,
    store: ResultStore,
    observer: Observer,
    cutting: Cutting | None = None,
    worker: BackendWorker | None = None,
) -> Outcome:
    """Measures every target without a complete measurement in the store.

    A measurement is complete if it has the requested number of samples, and if each figure that
    rests on it has the requested precision (or every network in it has the maximum number of
    samples). The figures are the sums over the bricks of each model of the cutting, and the
    latencies of whole models. Without a cutting, each target is a figure.

    A target that failed before is reported and not measured again, unless ``request.force`` or
    ``request.retry_failed`` is set. A given worker is used and stays open.
    """
    share = Share(request, [list(targets)], cutting)
    return measure_side_by_side([share], store, observer, worker)[0]


def open_worker(request: Request) -> BackendWorker:
    """A worker for one request at a time, not started yet."""
    return _worker(request, memory_to_use())


@dataclass(frozen=True)
class Share:
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
    shares: Sequence[Share],
    store: ResultStore,
    observer: Observer,
    worker: BackendWorker | None = None,
) -> list[Outcome]:
    """Times targets on several backends, in rounds that go through all of them.

    Args:
        shares: A share for each backend. Their requests differ only in the backend and its options,
            their cuttings are of the same models, and their sweeps are equal in number.
        store: Store that keeps the samples.
        observer: Receives the progress.
        worker: Worker of a single backend; ``None`` to start a new one for each backend.

    Returns:
        An outcome for each share. All outcomes hold the effort of the whole session.
    """
    plans = [_plan(share, store) for share in shares]
    reason = f"{MOST} runs are the most"
    if any(plan.lacking for plan in plans):
        late = _measure(plans, store, observer, worker)
        if late:
            reason = f"the budget of {plans[0].request.budget_s:g} s ended first"
    for plan in plans:
        able = plan.able()
        found = store.get([*able, *chain.from_iterable(map(plan.request.parts, able))])
        plan.outcome.measurements = found
        plan.outcome.notes = shortfalls(plan.request, plan.share.cutting, found.values(), reason)
    return [plan.outcome for plan in plans]


@dataclass
class _Plan:
    """Work of one backend.

    Attributes:
        share: Targets of the backend.
        wanted: All targets, by key.
        known: Stored measurements that count, by key.
        anew: Keys of stored measurements that the first new samples replace.
        lacking: Targets to be timed, by key.
        outcome: Result so far.
    """

    share: Share
    wanted: Mapping[Question, Target]
    known: Mapping[Question, Measurement]
    anew: AbstractSet[Question]
    lacking: dict[Question, Target] = field(default_factory=dict)
    outcome: Outcome = field(default_factory=Outcome)

    @property
    def request(self) -> Request:
        """Request of the share."""
        return self.share.request

    def jobs(self, targets: Iterable[Target]) -> list[Job]:
        """Jobs for those of the targets that are lacking."""
        keys = (self.request.key(t.brick.signature, t.kind) for t in targets)
        return [self._job(key) for key in keys if key in self.lacking]

    def _job(self, key: Question) -> Job:
        return Job(key, self.lacking[key].brick.model, self._missing(key))

    def able(self) -> list[Question]:
        """Keys of the targets that have not failed."""
        return [key for key in self.wanted if key not in self.outcome.failures]

    def families(self) -> list[ComparedTogether]:
        """Figures that must be precise, grouped by model."""
        return families(self.request, self.share.cutting, self.able())

    def too_few(self) -> set[Question]:
        """Keys of the targets with too few samples in the store."""
        if self.request.precision is not None:
            schedule = UntilPrecise(self.families(), self.request.precision, self.known.values())
            return schedule.lacking(self.able())
        return {key for key in self.able() if self._missing(key) > 0}

    def _missing(self, key: Question) -> int:
        known = self.known.get(key)
        taken = known.values if known else ()
        return 0 if long_enough(taken, self.request.enough_s) else self.request.runs - len(taken)


def _plan(share: Share, store: ResultStore) -> _Plan:
    request = share.request
    wanted = {request.key(t.brick.signature, t.kind): t for each in share.sweeps for t in each}
    found = store.get(wanted)
    failed = (key for key, measurement in found.items() if measurement.failure)
    anew = set(found if request.force else failed if request.retry_failed else ())
    store.remember_system(request.system.fingerprint, request.system.to_dict())
    _remember(share, wanted.values(), store)
    known = {key: measurement for key, measurement in found.items() if key not in anew}
    plan = _Plan(share, wanted, known, anew)
    again = request.force or request.retry_failed
    refused = {} if again else store.refused(request.setup, request.fingerprint)
    for key, target in wanted.items():
        before = known.get(key)
        if target.brick.opaque:
            plan.outcome.failures[key] = target.brick.opaque
        elif before is not None and before.failure:
            plan.outcome.recall(key, before.failure, unsupported=before.unsupported)
        elif key.subject.kind != "native" and (why := refused.get(key.subject.signature)):
            plan.outcome.recall(key, why, unsupported=True)
        elif before is None and (reason := _does_not_fit(target, share.cutting)):
            plan.outcome.failures[key] = reason
    too_few = plan.too_few()
    plan.lacking = {key: target for key, target in wanted.items() if key in too_few}
    plan.outcome.reused = len(plan.able()) - len(plan.lacking)
    return plan


def _does_not_fit(target: Target, cutting: Cutting | None) -> str:
    """Reason why a whole model is not tried; empty if it fits into memory, as far as is known."""
    if target.kind == "brick" or cutting is None:
        return ""
    footprint = cutting.footprints.get(target.brick.signature)
    return "" if footprint is None or footprint.fits else f"it does not fit: {footprint}"


def _remember(share: Share, targets: Collection[Target], store: ResultStore) -> None:
    """Stores the facts that predictors need about the targets."""
    wholes = any(target.kind == "model" for target in targets)
    groups = groups_of(share.cutting, wholes=wholes) if share.cutting else {}
    for target in targets:
        if target.group:
            groups.setdefault(target.brick.signature, set()).add(target.group)
    bricks = {t.brick.signature: t.brick for t in targets if t.kind != "native"}
    remember(store, bricks, groups)


def _measure(
    plans: Sequence[_Plan],
    store: ResultStore,
    observer: Observer,
    worker: BackendWorker | None = None,
) -> bool:
    """Measures the lacking targets. Returns whether the budget ended first."""
    with ExitStack() as opened:
        opened.enter_context(turn(observer.note))
        benches = {
            plan.request.backend.name: worker or opened.enter_context(_bench(plan.request, plans))
            for plan in plans
            if plan.lacking
        }
        for plan in plans:
            if plan.lacking:
                _check(plan, benches[plan.request.backend.name], store, observer)
        cores = Cores.of(plans[0].request.settings.threads)
        turns = zip(*([(plan, each) for each in plan.share.sweeps] for plan in plans), strict=True)
        jobs = [job for turn in turns for plan, targets in turn for job in plan.jobs(targets)]
        session = _session(plans, jobs, benches, store, observer, cores, worker is not None)
        reused = sum(plan.outcome.reused for plan in plans)
        observer.stage(
            f"{'Timing' if plans[0].request.probe is None else 'Observing'} {len(jobs)} networks "
            f"({reused} more are in the store)",
            session.steps(jobs),
        )
        _run(session, jobs, plans, store, cores)
        return session.late


def _session(
    plans: Sequence[_Plan],
    jobs: Sequence[Job],
    benches: Mapping[str, BackendWorker],
    store: ResultStore,
    observer: Observer,
    cores: Cores,
    keeps_workers: bool,
) -> Session | ProbingSession:
    """The session, in which all backends take turns."""
    request = plans[0].request
    anew = frozenset(chain.from_iterable(plan.anew for plan in plans))
    if request.probe is not None:
        return ProbingSession(benches, store, request.probe, observer.advance, anew)
    return Session(
        benches,
        store,
        request.protocol,
        observer.advance,
        _schedule(plans, jobs),
        request.budget_s,
        anew,
        cores,
        keeps_workers=keeps_workers,
    )


def _run(
    session: Session | ProbingSession,
    jobs: Sequence[Job],
    plans: Sequence[_Plan],
    store: ResultStore,
    cores: Cores,
) -> None:
    """Runs a session, and adds its results to the plans."""
    system = plans[0].request.system.fingerprint
    record = SessionRecord(session.identifier, current_host(), system, __version__)
    store.keep_session(record)  # even if the session is interrupted
    sampler = LoadSampler()
    failures = session.run(jobs)
    load = sampler.load()
    store.keep_session(replace(record, load=load.share))
    warnings = (*load.warnings, *cores.warnings)
    for plan in plans:
        outcome = plan.outcome
        outcome.failures |= {k: reason for k, reason in failures.items() if k in plan.wanted}
        outcome.anew = frozenset(plan.lacking)
        outcome.effort = session.effort
        outcome.warnings = warnings


def _schedule(plans: Sequence[_Plan], jobs: Sequence[Job]) -> Schedule:
    """Schedule of the jobs: until figures are precise, or with a fixed number of runs."""
    precision = plans[0].request.precision
    if precision is None:
        return FixedRuns({job.key: job.missing for job in jobs}, plans[0].request.enough_s)
    each = [plan.families() for plan in plans]
    of_models = all(plan.share.cutting for plan in plans)
    # Figures that are compared are timed in the same rounds: those of a model on all backends.
    together = map(chain.from_iterable, zip(*each, strict=True)) if of_models else chain(*each)
    known = [measurement for plan in plans for measurement in plan.known.values()]
    return UntilPrecise(list(map(list, together)), precision, known)


def _bench(request: Request, plans: Sequence[_Plan]) -> BackendWorker:
    # Workers that hold networks at the same time share the memory.
    share = memory_to_use() // sum(bool(plan.lacking) for plan in plans)
    return _worker(request, share)


def _worker(request: Request, memory_bytes: int) -> BackendWorker:
    probe = request.probe
    settings = WorkerSettings(
        request.settings,
        request.seed,
        request.timeout_s,
        memory_bytes,
        keeps_memory=probe is None or not (probe.isolated or probe.in_sequence),
        warm=probe is None or not probe.in_sequence,
        as_used=probe is not None and probe.isolated,
    )
    return BackendWorker(request.plugin.target, request.backend, settings)


def _check(plan: _Plan, bench: BackendWorker, store: ResultStore, observer: Observer) -> None:
    """Removes targets that the backend does not support or cannot check."""
    observer.stage(f"Checking {len(plan.lacking)} networks against {plan.request.backend.name}")
    keys = {f"{key.subject.kind}:{key.subject.signature}": key for key in plan.lacking}
    found = bench.check({h: plan.lacking[key].brick.model for h, key in keys.items()})
    for handle, reason in found.unsupported.items():
        key = keys[handle]
        plan.outcome.refuse(key, plan.lacking.pop(key).brick, reason, store)
    for handle, reason in found.failed.items():
        plan.outcome.failures[keys[handle]] = reason
        del plan.lacking[keys[handle]]
    if plan.share.cutting is not None:
        refused = {k.subject.signature: why for k, why in plan.outcome.unsupported.items()}
        able = {k.subject.signature for k in plan.able() if k.subject.kind == "brick"}
        settle_models(plan.share.cutting, refused, able, plan.request, store)
