"""Sessions that observe a quantity with its metric, and commit every observation at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from time import perf_counter

from dlbricks_core.backends.burst import CALLS, next_to_nothing, start_of_a_line
from dlbricks_core.errors import BackendError, DLBricksError, StoreError
from dlbricks_core.facts import Observation, Question
from dlbricks_core.machine.load import LoadWatch
from dlbricks_core.measure.metric import Metric
from dlbricks_core.measure.session import Advance, JobSession, TimingJob, reason_of
from dlbricks_core.measure.worker import BackendWorker
from dlbricks_core.store import ResultStore


class MetricSession(JobSession):
    """Observes jobs in rounds, each network once a round until it has enough observations.

    Every other round runs in reverse order. Where bricks share a process, whole models come last.
    Each round also observes networks with almost no work, whose common value is the overhead of the
    round's observations. Several backends take turns in every round, so that drift of the machine
    affects all of them equally.

    Args:
        worker: As for :class:`~dlbricks_core.measure.session.JobSession`, like all but ``metric``.
        metric: The metric of the jobs' quantity.
    """

    def __init__(
        self,
        worker: BackendWorker | Mapping[str, BackendWorker],
        store: ResultStore,
        metric: Metric,
        advance: Advance = lambda done: None,
        anew: AbstractSet[Question] = frozenset(),
        watch: LoadWatch | None = None,
        settle: Callable[[LoadWatch], float] = lambda watch: 0.0,
    ) -> None:
        super().__init__(worker, store, advance, anew, watch, settle)
        self._metric = metric

    def steps(self, jobs: Sequence[TimingJob]) -> int:
        """Number of calls of ``advance`` if nothing fails."""
        return sum(job.missing for job in jobs)

    def run(self, jobs: Sequence[TimingJob]) -> Mapping[Question, str]:
        """Observes the jobs, and returns the failures of the session.

        Raises:
            DLBricksError: If the networks that measure the overhead cannot be observed.
        """
        for job in jobs:
            self.effort.networks[job.key.subject.kind] += 1
        self._wait()
        for number in range(max((job.missing for job in jobs), default=0)):
            due = [job for job in self._able(jobs) if job.missing > number]
            for turn in self._turns(due[::-1] if number % 2 else due):
                self._observe_turn(turn, number)
        return self.failures

    def _turns(self, jobs: Sequence[TimingJob]) -> list[list[TimingJob]]:
        """The jobs of each backend, in the order of the backends' first jobs."""
        found: dict[str, list[TimingJob]] = {}
        for job in jobs:
            found.setdefault(job.key.setup.backend, []).append(job)
        return list(found.values())

    def _observe_turn(self, jobs: Sequence[TimingJob], number: int) -> None:
        """Observes the jobs of one backend once."""
        worker = self._worker(jobs[0])
        begin = perf_counter()
        if self._metric.in_sequence:
            worker.restart()
        overheads = self._overheads(worker)
        # Figures of bricks need the overhead, and bricks may share its process.
        kinds = {job.key.subject.kind for job in jobs}
        payer = "brick" if "brick" in kinds else jobs[0].key.subject.kind
        self.effort.seconds[payer] += perf_counter() - begin
        for job in self._in_order(jobs):
            try:
                self._observe(job, number, overheads)
            except StoreError:  # the network is not to blame
                raise
            except DLBricksError as error:
                self._fail(job, error)
            self._advance(job.key.subject.kind)

    def _in_order(self, jobs: Sequence[TimingJob]) -> Sequence[TimingJob]:
        """The jobs in order; jobs in separate processes come last if other jobs share a process."""
        if not self._metric.in_sequence:
            return jobs
        return sorted(jobs, key=lambda job: job.key.subject.kind != "brick")

    def _overheads(self, worker: BackendWorker) -> list[float]:
        """Overhead that observations of all networks share, for the quantity and each part."""
        try:
            taken = [
                self._as_needed(worker, "brick").observe(
                    self._metric.target, next_to_nothing(layers), whole=False
                )
                for layers in CALLS.values()
            ]
        except DLBricksError as error:
            message = f"no {self._metric.name} of a network with almost no work: {reason_of(error)}"
            raise BackendError(message, hint=error.hint) from error
        return [start_of_a_line(values) for values in zip(*taken, strict=True)]

    def _observe(self, job: TimingJob, number: int, overheads: Sequence[float]) -> None:
        begin = perf_counter()
        kind = job.key.subject.kind
        try:
            values = self._as_needed(self._worker(job), kind).observe(
                self._metric.target, job.model, whole=kind != "brick"
            )
        finally:
            spent_s = perf_counter() - begin
            self.effort.seconds[kind] += spent_s
        load = self._watch.lately()
        # Quantities other than times do not depend on other programs.
        flags = load.flags if self._metric.quantity.is_time else ()
        # An observation of a whole model may lack the parts.
        wanted = (self._metric.quantity, *self._metric.parts)[: len(values)]
        keys = [replace(job.key, quantity=quantity) for quantity in wanted]
        taken = [
            (
                key,
                Observation(
                    self.identifier,
                    number,
                    (value,),
                    overhead=overhead,
                    flags=flags,
                    load=load.share,
                    spent_s=spent_s,
                ),
                job.operators,
            )
            for key, value, overhead in zip(keys, values, overheads[: len(keys)], strict=True)
        ]
        self._store.add_all(taken, instead_of=keys if job.key in self._anew else ())
        self._anew.discard(job.key)
        self.effort.runs[kind] += 1

    def _as_needed(self, worker: BackendWorker, kind: str) -> BackendWorker:
        """The worker, restarted if an observation needs a new process.

        Args:
            worker: The worker.
            kind: Kind of the observed network.
        """
        if self._metric.isolated or (self._metric.in_sequence and kind != "brick"):
            worker.restart()
        return worker
