"""How long instances serve a sample, composed from bricks that are timed under load.

A model's bricks are timed in one instance as always, while every other instance runs the bricks of
the same model in their order, over and over: they take as much of the caches and of the memory's
bandwidth as the model does, and in the same places of it. How latencies scatter comes from passes:
all instances run all bricks one right after the other, and what one pass takes, divided by what
passes take usually, is the scatter of an inference of the model's length, whatever its causes.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from uuid import uuid4

import numpy as np

from dlbricks_core.backends import BackendSettings
from dlbricks_core.bricks import BrickSet, CutModel
from dlbricks_core.compose import Composer, Estimate
from dlbricks_core.errors import BackendError, DLBricksError, StoreError
from dlbricks_core.facts import Question, Subject, latency_beside, pass_beside
from dlbricks_core.facts import Session as SessionRecord
from dlbricks_core.figures.figure import Measured
from dlbricks_core.figures.statistics import FloatArray, faster_half
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.machine.load import LoadSampler
from dlbricks_core.machine.places import places
from dlbricks_core.machine.system import current_host
from dlbricks_core.measure.contention import (
    SLICES,
    BrokenCompanyError,
    Company,
    Instance,
    play_passes,
)
from dlbricks_core.measure.session import reason_of
from dlbricks_core.measure.worker import WorkerSettings
from dlbricks_core.scenarios import ServiceTimes
from dlbricks_core.store import ResultStore
from dlbricks_core.version import __version__
from dlbricks_core.wording import argument
from dlbricks_core.worker import memory_to_use
from dlbricks_core.workflows.composing import CutOptions, find_composer
from dlbricks_core.workflows.cutting import Cutting, cut_models
from dlbricks_core.workflows.measuring import Outcome, Target, lacks, measure
from dlbricks_core.workflows.observer import Observer
from dlbricks_core.workflows.request import Request
from dlbricks_core.workflows.timing_order import run_targets

BUDGET_S = 20.0
"""Most seconds that timing bricks takes, for a model beside others and for all models alone, but
for the rounds that are indispensable."""

PRECISION = 0.02
"""Least half-width of the intervals that are timed for, relative to the latency: composing itself
is off by more."""

_LOADED_SHARE = 0.7
"""Most memory that the bricks may take by our count, as a share of what an instance may use."""


@dataclass(frozen=True)
class Composed:
    """How long instances of a model serve a sample, composed from bricks.

    Attributes:
        model: The model in canonical form.
        service: How long an instance serves a sample; ``None`` where that does not follow.
        alone: Latency while no other instance is busy.
        beside: Latency while all others are; ``None`` for one instance.
        reason: Why there are no service times; empty if there are.
    """

    model: CanonicalModel
    service: ServiceTimes | None = None
    alone: Estimate | None = None
    beside: Estimate | None = None
    reason: str = ""


def service_times(
    models: Sequence[CanonicalModel],
    request: Request,
    instances: int,
    threads: int,
    store: ResultStore,
    observer: Observer,
    cut_options: CutOptions | None = None,
) -> list[Composed]:
    """How long instances of each model serve a sample, composed from bricks.

    Only what the store lacks is measured. Bricks that are timed alone serve all models, and so do
    those that an ordinary run has timed with as many threads. Those that are timed under load are
    for one model: the others run that model's bricks.

    Args:
        models: Models in canonical form.
        request: How to measure, with whatever number of threads.
        instances: Number of instances.
        threads: Number of threads, and of cores, of each.
        store: Where measurements are kept.
        observer: Hears of progress.
        cut_options: How to cut and compose; ``None`` for what estimates best.

    Returns:
        One for each model; one that fails does not end the others.

    Raises:
        DLBricksError: If there are too few cores.
    """
    cpus = places(instances, threads)
    asked = _asked(request, threads)
    options = cut_options or CutOptions.chosen(None, None, None)
    calibration = store.calibration(options.calibration_key(asked))
    cutting = cut_models(models, options, asked, observer, calibration, store=store)
    with ExitStack() as opened:
        memory = memory_to_use() // instances
        workers = [opened.enter_context(_instance(asked, memory, own)) for own in cpus]
        composing = _Composing(asked, cutting, workers, store, observer)
        alone = composing.measured(cutting, asked)
        return [composing.composed(cut, alone) for cut in cutting.brickset.models]


def _asked(request: Request, threads: int) -> Request:
    """The request with another number of threads, and no longer than is worth it."""
    if request.precision is not None:
        request = replace(request, precision=max(request.precision, PRECISION))
    if request.budget_s is not None:
        request = replace(request, budget_s=min(request.budget_s, BUDGET_S))
    return replace(
        request,
        settings=BackendSettings(threads, request.settings.options),
        setup=replace(request.setup, threads=threads),
    )


def _instance(request: Request, memory_bytes: int, cpus: Sequence[int]) -> Instance:
    settings = WorkerSettings(request.settings, request.seed, request.timeout_s, memory_bytes)
    return Instance(request.plugin.target, request.backend, settings, cpus)


@dataclass(frozen=True)
class _Composing:
    """Composes models for a number of instances.

    Attributes:
        request: How bricks are timed while no other instance is busy.
        cutting: All models.
        workers: The instances. The first one times.
        store: Where measurements are kept.
        observer: Hears of progress.
    """

    request: Request
    cutting: Cutting
    workers: Sequence[Instance]
    store: ResultStore
    observer: Observer

    def composed(self, cut: CutModel, alone: Outcome) -> Composed:
        """Service times of one model.

        Args:
            cut: The model.
            alone: Samples of all bricks while no other instance is busy.
        """
        try:
            found = self._composed(cut, alone)
            self._unload(cut, self.workers)
        except StoreError:  # no fault of the model
            raise
        except DLBricksError as error:
            for worker in self.workers:
                worker.restart()  # nobody knows what is left in them
            return Composed(cut.model, reason=reason_of(error))
        return found

    def _composed(self, cut: CutModel, alone: Outcome) -> Composed:
        own, count = self._only(cut), len(self.workers)
        by_itself = self._estimate(own, self.request, alone)
        single = _spread(by_itself, self._passes(cut, self.request, 1))
        if count == 1:
            return Composed(cut.model, ServiceTimes(1, single), by_itself)
        request = self._beside(cut)
        passes_ms = self._passes(cut, request, count)
        self._unload(cut, self.workers[:1])  # it is to hold what it times, and no more
        beside = self._estimate(own, request, self._accompanied(own, request))
        service = ServiceTimes(count, _spread(beside, passes_ms), {1: single})
        return Composed(cut.model, service, by_itself, beside)

    def _accompanied(self, cutting: Cutting, request: Request) -> Outcome:
        """Samples of the bricks of a cutting's one model, while all others run its bricks."""
        targets = _targets(cutting)
        lacking = lacks(targets, request, self.store, cutting)
        company = self.workers[1:] if lacking else ()
        try:
            with Company(company, self._loaded(cutting.brickset.models[0], company)) as others:
                return self.measured(cutting, request, others)
        except BrokenCompanyError as error:  # nobody knows which samples were taken without it
            for target in targets:
                key = request.key(target.brick.signature, target.kind)
                self.store.record_failure(key, reason_of(error), target.brick.operators)
            raise

    def measured(
        self, cutting: Cutting, request: Request, others: Company | None = None
    ) -> Outcome:
        """Samples of the bricks of some models, in the first instance."""
        observer = self.observer if others is None else _Watching(self.observer, others)
        targets = _targets(cutting)
        return measure(targets, request, self.store, observer, cutting, self.workers[0])

    def _beside(self, cut: CutModel) -> Request:
        """The request for bricks that are timed while the others run those of a model."""
        protocol = f"{self.request.setup.protocol};beside={cut.whole.signature}"
        return replace(
            self.request,
            timed=latency_beside(len(self.workers) - 1),
            setup=replace(self.request.setup, protocol=protocol),
        )

    def _only(self, cut: CutModel) -> Cutting:
        """The cutting of one model alone."""
        every = self.cutting.brickset
        bricks = {signature: every.bricks[signature] for signature in cut.counts}
        brickset = BrickSet(every.granularity, every.strategy, bricks, [cut], every.rereading)
        plan = _composer(self.cutting).plan(bricks, self.request.setup, self.request.target)
        return replace(self.cutting, brickset=brickset, plan=plan)

    def _estimate(self, cutting: Cutting, request: Request, outcome: Outcome) -> Estimate:
        """Estimate of the one model of a cutting.

        Raises:
            BackendError: If bricks are missing.
        """
        (cut,) = cutting.brickset.models
        known = {
            key.subject.signature: Measured.of(found, request.protocol)
            for key, found in outcome.measurements.items()
            if found.values and key.subject.signature in cutting.plan.timed
        }
        estimate = _composer(cutting).compose(cut, cutting.plan.figures(known))
        if estimate.partial or estimate.value is None:
            failed = {key.subject.signature: why for key, why in outcome.failures.items()}
            reasons = (failed[s] for s in estimate.missing if s in failed)
            reason = next(reasons, "they have no samples")
            raise BackendError(f"{len(estimate.missing)} bricks are missing: {reason}")
        return estimate

    def _passes(self, cut: CutModel, request: Request, count: int) -> FloatArray:
        """What passes over the bricks took in some instances at the same time: shape (passes,)."""
        subject = Subject(cut.whole.signature, "model")
        key = Question(subject, pass_beside(count - 1), request.setup, request.fingerprint)
        known = self.store.get([key]).get(key)
        if known is None or not known.values or request.force:
            self._play(key, cut, count)
            known = self.store.get([key])[key]
        return np.array(known.values)

    def _play(self, key: Question, cut: CutModel, count: int) -> None:
        """Runs passes in some instances at the same time, and keeps what they took."""
        workers = self.workers[:count]
        order = self._loaded(cut, workers)
        record = SessionRecord(uuid4().hex, current_host(), key.system, __version__)
        self.store.keep_session(record)
        self.observer.stage(f"Running the bricks of {cut.model.name}, {count} at a time", SLICES)
        sampler = LoadSampler()
        taken = play_passes(workers, order, record.id, self.observer.advance)
        self.store.keep_session(replace(record, load=sampler.load().share))
        operators = [layer.qualified_op for layer in cut.graph.layers]
        self.store.add_all([(key, each, operators) for each in taken], instead_of=[key])

    def _loaded(self, cut: CutModel, workers: Sequence[Instance]) -> list[str]:
        """Keys of a model's bricks in their order, loaded in each of some instances.

        Raises:
            BackendError: If they do not fit into the memory that an instance may use.
        """
        bricks = self.cutting.brickset.bricks
        for worker in workers:
            room = _LOADED_SHARE * worker.memory_bytes
            nbytes = sum(worker.nbytes(bricks[signature].model) for signature in cut.counts)
            if nbytes > room:
                raise BackendError(
                    f"its bricks take {nbytes / 1e9:.1f} GB in each instance, which may use "
                    f"{room / 1e9:.1f} GB",
                    hint=f"Choose fewer {argument('instances')}.",
                )
            for signature in cut.counts:
                worker.hold(signature, bricks[signature].model)
        return [occurrence.signature for occurrence in cut.occurrences]

    def _unload(self, cut: CutModel, workers: Sequence[Instance]) -> None:
        for worker in workers:
            for signature in cut.counts:
                worker.unload(signature)


class _Watching(Observer):
    """Tells another observer everything, and makes sure that the company still runs.

    Args:
        observer: The other observer.
        company: Instances without which samples are worth nothing.
    """

    def __init__(self, observer: Observer, company: Company) -> None:
        self._observer = observer
        self._company = company

    def stage(self, text: str, steps: int | None = None) -> None:
        """Passes it on."""
        self._observer.stage(text, steps)

    def advance(self, what: str = "") -> None:
        """Passes it on; raises the error that ended one of the company."""
        self._company.check()
        self._observer.advance(what)

    def note(self, text: str) -> None:
        """Passes it on."""
        self._observer.note(text)


def _composer(cutting: Cutting) -> Composer:
    composer = find_composer(cutting.options.composer)
    return composer.calibrated(cutting.calibration.values) if cutting.calibration else composer


def _targets(cutting: Cutting) -> list[Target]:
    return run_targets(cutting, end_to_end=False, backend=None)


def _spread(estimate: Estimate, passes_ms: FloatArray) -> FloatArray:
    """Latencies that scatter about an estimate as passes do: shape (passes,)."""
    assert estimate.value is not None
    # The estimate adds up means of faster halves, so it stands for that mean of the passes.
    return np.asarray(estimate.value * passes_ms / float(faster_half(passes_ms)))
