"""Service times of instances, composed from bricks that are timed under load.

Every instance runs the bricks of a model in their order, repeatedly. So the instances compete for
caches and memory bandwidth as whole models do. The first instance prepares and times each run. The
scatter of latencies comes from bare passes, which all instances run at the same time. The duration
of a pass, divided by its usual duration, is the relative scatter of an inference of about the
model's length, whatever the cause.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from uuid import uuid4

import numpy as np

from dlbricks_core.backends import BackendSettings
from dlbricks_core.bricks import CutModel
from dlbricks_core.compose import Composer, Estimate
from dlbricks_core.compose.options import CutOptions, find_composer
from dlbricks_core.errors import BackendError, DLBricksError, StoreError
from dlbricks_core.facts import (
    Composition,
    Measurement,
    Note,
    Observation,
    Quantity,
    Question,
    Setup,
    Subject,
)
from dlbricks_core.facts import Session as SessionRecord
from dlbricks_core.figures.figure import Measured
from dlbricks_core.figures.statistics import Disturbance, FloatArray, disturbance_notes, faster_half
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.machine.load import LoadSampler, LoadWatch, MachineLoad
from dlbricks_core.machine.system import current_host
from dlbricks_core.measure.cutting import Cutting, cut_models
from dlbricks_core.measure.measuring import settle
from dlbricks_core.measure.request import Request
from dlbricks_core.measure.rewrites import kept_rewrites
from dlbricks_core.measure.session import reason_of
from dlbricks_core.measure.worker import WorkerSettings
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore
from dlbricks_core.version import __version__
from dlbricks_core.wording import argument
from dlbricks_core.worker import memory_to_use
from dlbricks_serving.contention import SLICES, Instance, Slice, take_slices
from dlbricks_serving.core_sets import core_sets
from dlbricks_serving.notes import warning
from dlbricks_serving.scenarios import ServiceTimes

_LOADED_SHARE = 0.7
"""Maximum share of an instance's memory that the bricks may take by our count."""

_MOST_CALLS = 0.4
"""Share of the bricks' time that calls may take without a warning."""


def latency_beside(others: int) -> Quantity:
    """Latency of an inference in a loop, while other instances run loops of their own.

    Args:
        others: Number of other instances, 0 or more.
    """
    meaning = f"time of one inference right after another{_while(others)}"
    return Quantity(f"latency-beside-{others}", "ms", Composition.SUM, meaning)


def pass_beside(others: int) -> Quantity:
    """Time of one pass over a model's bricks, which shows how much latencies scatter.

    Args:
        others: Number of other instances that do the same, 0 or more.
    """
    meaning = f"time of all bricks of a model, one right after another{_while(others)}"
    return Quantity(f"pass-beside-{others}", "ms", Composition.SUM, meaning)


def _while(others: int) -> str:
    if not others:
        return ""
    return f", while {others} other instance{' does' if others == 1 else 's do'} the same"


@dataclass(frozen=True)
class Composed:
    """Service times of a model's instances, composed from bricks."""

    model: CanonicalModel  #: The model in canonical form.
    service: ServiceTimes | None = None  #: Service times; ``None`` where they are unknown.
    alone: Estimate | None = None  #: Latency while no other instance is busy.
    #: Latency while all other instances are busy; ``None`` for a single instance.
    beside: Estimate | None = None
    reason: str = ""  #: Why there are no service times; empty if there are.
    warnings: Sequence[Note] = ()  #: Disturbances of the machine while bricks were timed.
    #: Whether no brick ran side by side: the service times are predicted from latencies.
    predicted: bool = False


def service_times(
    models: Sequence[CanonicalModel],
    request: Request,
    instances: int,
    threads: int,
    store: ResultStore,
    observer: Observer,
    cut_options: CutOptions | None = None,
) -> list[Composed]:
    """Service times of each model's instances, composed from bricks.

    Stored measurements are not repeated. A measurement holds for one model only, because its other
    bricks determine the content of the caches.

    Args:
        models: Models in canonical form.
        request: How networks are measured. Its threads, precision and number of runs are ignored:
            the measuring time is fixed.
        instances: Number of instances.
        threads: Number of threads, and of cores, of each instance.
        store: Store of the measurements.
        observer: Receives the progress.
        cut_options: How to cut and compose; ``None`` for the most accurate way.

    Returns:
        Service times for each model. A model that fails does not stop the others.

    Raises:
        DLBricksError: If there are too few cores.
    """
    cpus = core_sets(instances, threads)
    asked = replace(
        request,
        settings=BackendSettings(threads, request.settings.options),
        setup=replace(request.setup, threads=threads),
    )
    options = cut_options or CutOptions.chosen(None, None, None)
    cutting = cut_models(models, options, asked, observer, store)
    memory = memory_to_use() // instances
    with ExitStack() as opened:
        workers = [opened.enter_context(_instance(asked, memory, own)) for own in cpus]
        composing = _Composing(asked, cutting, instances, workers, store, observer)
        return [composing.composed(cut) for cut in cutting.brickset.models]


def stored_service_times(
    models: Sequence[CanonicalModel],
    request: Request,
    numbers: Iterable[int],
    store: ResultStore,
    cut_options: CutOptions | None = None,
) -> dict[int, list[Composed]]:
    """Service times of each model's instances, from stored measurements. Runs nothing.

    Args:
        models: Models in canonical form.
        request: The measurements to use, and their system; each instance has its threads.
        numbers: Numbers of instances.
        store: Store of the measurements.
        cut_options: How to cut and compose; ``None`` for the most accurate way.

    Returns:
        By number of instances, service times for each model. Loads that the store lacks have a
        reason instead.
    """
    options = cut_options or CutOptions.chosen(None, None, None)
    rewrites = kept_rewrites(models, request, store) if options.cuts_rewritten else None
    cutting = cut_models(models, options, request, Observer(), store, rewrites=rewrites)
    composing = (_Composing(request, cutting, number, (), store, Observer()) for number in numbers)
    return {
        each.instances: [each.composed(cut) for cut in cutting.brickset.models]
        for each in composing
    }


def _instance(request: Request, memory_bytes: int, cpus: Sequence[int]) -> Instance:
    settings = WorkerSettings(request.settings, request.seed, request.timeout_s, memory_bytes)
    return Instance(request.plugin.target, request.backend, settings, cpus)


@dataclass(frozen=True)
class _Questions:
    """Questions about a model for a number of busy instances."""

    cut: CutModel  #: The model.
    busy: int  #: Number of busy instances.
    setup: Setup  #: How bricks run, with the model whose bricks all instances run.
    system: str  #: Fingerprint of the system.

    @property
    def bricks(self) -> Mapping[str, Question]:
        """Question about the latency of each brick, by signature."""
        quantity = latency_beside(self.busy - 1)
        return {
            signature: Question(Subject(signature, "brick"), quantity, self.setup, self.system)
            for signature in self.cut.counts
        }

    @property
    def passes(self) -> Question:
        """Question about the latency of passes over all bricks."""
        subject = Subject(self.cut.whole.signature, "model")
        return Question(subject, pass_beside(self.busy - 1), self.setup, self.system)

    @property
    def all(self) -> Sequence[Question]:
        """All questions."""
        return (*self.bricks.values(), self.passes)


@dataclass(frozen=True)
class _Composing:
    """Composes models for a number of instances."""

    request: Request  #: How bricks run.
    cutting: Cutting  #: All models.
    instances: int  #: Number of instances.
    #: The instances, of which the first times bricks; empty to use only stored samples.
    workers: Sequence[Instance]
    store: ResultStore  #: Store of the measurements.
    observer: Observer  #: Receives the progress.
    #: Reasons to doubt figures of the present model.
    disturbances: list[Note] = field(default_factory=list)

    def composed(self, cut: CutModel) -> Composed:
        """Service times of one model."""
        self.disturbances.clear()
        try:
            alone, single = self._while_busy(cut, 1)
            count = self.instances
            if count == 1:
                found = Composed(cut.model, ServiceTimes(1, single), alone)
            else:
                beside, several = self._while_busy(cut, count)
                service = ServiceTimes(count, several, {1: single})
                found = Composed(cut.model, service, alone, beside)
            self._unload(cut)
        except StoreError:  # the model is not to blame
            raise
        except DLBricksError as error:
            for worker in self.workers:
                worker.restart()  # the state of these workers is unknown
            return Composed(cut.model, reason=reason_of(error))
        return replace(found, warnings=tuple(dict.fromkeys(self.disturbances)))

    def _while_busy(self, cut: CutModel, count: int) -> tuple[Estimate, FloatArray]:
        """Estimate of a model with some busy instances, and latencies scattered around it."""
        protocol = f"{self.request.setup.protocol};in-turn={cut.whole.signature}"
        setup = replace(self.request.setup, protocol=protocol)
        asked = _Questions(cut, count, setup, self.request.fingerprint)
        found = self._known(asked)
        known = {
            signature: Measured.of(found[key], self.request.protocol)
            for signature, key in asked.bricks.items()
        }
        estimate = _composer(self.cutting).compose(cut, known)
        disturbance = Disturbance.worst([each.disturbance for each in known.values()])
        self.disturbances.extend(disturbance_notes(disturbance, stored=not self.workers))
        if _are_mostly_calls(cut, known):
            # First, because only the first few warnings are printed.
            self.disturbances.insert(0, warning("bricks-too-short", cut.model.name))
        return estimate, _spread(estimate, np.array(found[asked.passes].values))

    def _known(self, asked: _Questions) -> Mapping[Question, Measurement]:
        """Complete measurements. Samples that the store lacks are taken now."""
        found = {} if self.request.force else self.store.get(asked.all)
        taken = [len(found[key].observations) if key in found else 0 for key in asked.all]
        if min(taken) < SLICES:
            if not self.workers:
                raise BackendError(f"its bricks were not timed {_times(asked.busy)}")
            self._play(asked, SLICES - min(taken))
        return self.store.get(asked.all)

    def _play(self, asked: _Questions, count: int) -> None:
        """Runs the bricks in all busy instances, and stores the measurements of each slice."""
        cut, workers = asked.cut, self.workers[: asked.busy]
        order = self._loaded(cut, workers)
        record = SessionRecord(uuid4().hex, current_host(), asked.system, __version__)
        self.store.remember_system(asked.system, self.request.system.to_dict())
        self.store.keep_session(record)
        times = _times(asked.busy)
        self.observer.stage(f"Running the {len(order)} bricks of {cut.model.name}, {times}", count)
        sampler, watch = LoadSampler(), LoadWatch()
        settle(watch, self.request, self.observer)
        replaced = asked.all if self.request.force else ()
        for number, each in enumerate(take_slices(workers, order, count)):
            self._keep(asked, each, watch.lately(), record.id, number, replaced)
            replaced = ()
            self.observer.advance()
        load = sampler.load()
        self.store.keep_session(replace(record, load=load.share))
        self.disturbances.extend(load.warnings)

    def _keep(
        self,
        asked: _Questions,
        taken: Slice,
        load: MachineLoad,
        session: str,
        number: int,
        replaced: Sequence[Question],
    ) -> None:
        """Commits the measurements of one slice in a single transaction."""
        cut, bricks = asked.cut, self.cutting.brickset.bricks
        share_s = taken.spent_s / len(asked.all)
        observed = [
            (
                key,
                Observation(
                    session,
                    number,
                    tuple(taken.bricks_ms[signature]),
                    overhead=taken.call_ms,
                    flags=load.flags,
                    load=load.share,
                    spent_s=share_s,
                ),
                bricks[signature].operators,
            )
            for signature, key in asked.bricks.items()
        ]
        passes = Observation(
            session,
            number,
            tuple(taken.passes_ms),
            flags=load.flags,
            load=load.share,
            spent_s=share_s,
        )
        operators = tuple(layer.qualified_op for layer in cut.graph.layers)
        self.store.add_all([*observed, (asked.passes, passes, operators)], instead_of=replaced)

    def _loaded(self, cut: CutModel, workers: Sequence[Instance]) -> list[str]:
        """Keys of a model's bricks in their order, after loading them in each instance.

        Raises:
            BackendError: If a brick cannot run, or all of them do not fit into the memory that an
                instance may use.
        """
        bricks = {signature: self.cutting.brickset.bricks[signature] for signature in cut.counts}
        for brick in bricks.values():
            if brick.opaque:
                raise BackendError(brick.opaque)
        for worker in workers:
            room = _LOADED_SHARE * worker.memory_bytes
            nbytes = sum(worker.nbytes(brick.model) for brick in bricks.values())
            if nbytes > room:
                raise BackendError(
                    f"its bricks take {nbytes / 1e9:.1f} GB in each instance, which may use "
                    f"{room / 1e9:.1f} GB",
                    hint=f"Choose fewer {argument('instances')}.",
                )
            for signature, brick in bricks.items():
                worker.hold(signature, brick.model)
        return [occurrence.signature for occurrence in cut.occurrences]

    def _unload(self, cut: CutModel) -> None:
        for worker in self.workers:
            for signature in cut.counts:
                worker.unload(signature)


def _times(busy: int) -> str:
    """Number of instances that run bricks at the same time, in words."""
    return "alone" if busy == 1 else f"{busy} at a time"


def _are_mostly_calls(cut: CutModel, known: Mapping[str, Measured]) -> bool:
    """Whether calls of the timer are a large share of the time of a model's bricks."""
    total_ms = sum(cut.counts[signature] * each.value for signature, each in known.items())
    calls_ms = sum(cut.counts[signature] * each.overhead for signature, each in known.items())
    return calls_ms > _MOST_CALLS * total_ms


def _composer(cutting: Cutting) -> Composer:
    composer = find_composer(cutting.options.composer)
    return composer.calibrated(cutting.calibration.values) if cutting.calibration else composer


def _spread(estimate: Estimate, passes_ms: FloatArray) -> FloatArray:
    """Latencies that scatter around an estimate as passes do, in milliseconds: shape (passes,)."""
    assert estimate.value is not None
    # The estimate adds up means of faster halves, so it corresponds to that mean of the passes.
    return np.asarray(estimate.value * passes_ms / float(faster_half(passes_ms)))
