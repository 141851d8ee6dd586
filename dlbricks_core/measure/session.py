"""Sessions: time networks, and commit every sample at once."""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import accumulate
from time import perf_counter
from typing import TypeVar

from dlbricks_core.errors import DLBricksError
from dlbricks_core.facts import Observation, Question
from dlbricks_core.figures.protocols import Protocol
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.machine.cores import FAR, Cores
from dlbricks_core.machine.load import LoadWatch
from dlbricks_core.measure.ledger import Effort
from dlbricks_core.measure.schedule import PASSES, FixedRuns, Schedule
from dlbricks_core.measure.worker import BackendWorker, NetworkError
from dlbricks_core.store import ResultStore

_CALL_RUNS = 100
"""Number of runs that show the cost of a call, where runs are not interleaved."""

StepT = TypeVar("StepT")

_TURN_MS = 200.0
"""Sum of latencies in milliseconds of the networks that a worker runs without a pause. Preparing
the caches before each run makes such a turn two to four times as long.
"""

_LOADED_SHARE = 0.7
"""Maximum share of the worker's memory for loaded networks, by their computed sizes. Loading a
network takes more memory than keeping it, and frameworks keep scratch memory that cannot be
predicted.
"""


_MOST_BRICKS_BYTES = 8 * 10**9
"""Maximum computed bytes of loaded bricks, if no whole model is timed with them. More bricks at a
time do not make timing faster, and the machine may need its memory for other work.
"""


@dataclass(frozen=True)
class TimingJob:
    """One network to time.

    Attributes:
        key: Key of the network's samples.
        model: A brick or a whole model.
        missing: Minimum number of samples to take.
    """

    key: Question
    model: CanonicalModel
    missing: int

    @property
    def handle(self) -> str:
        """Name of the network in the worker."""
        return f"{self.key.subject.kind}:{self.key.subject.signature}"

    @property
    def operators(self) -> tuple[str, ...]:
        """Operator types in the order in which they run."""
        return tuple(layer.qualified_op for layer in self.model.layers)


@dataclass(frozen=True)
class _JobSamples:
    """Samples of a job in milliseconds, and the seconds spent on taking them."""

    job: TimingJob
    samples_ms: Sequence[float]
    spent_s: float


Advance = Callable[[str], None]
"""Function called after each step (a load or a sample) with the kind of the network."""


class JobSession:
    """Runs jobs on one worker, or on one for each backend, and stores what they show.

    Args:
        worker: Worker to run on. For jobs of several backends, one worker for each, by the
            backend's name.
        store: Store of the observations, which are committed one by one.
        advance: Called after every step.
        anew: Questions whose stored observations the first new ones replace. Until then, the store
            keeps the old ones, so that a session that ends early loses none.
        watch: Watch of the use of the CPUs by others; ``None`` for a new one.
        settle: Waits for a quiet machine before the first round, and returns the seconds of it.

    Attributes:
        identifier: Unique text by which the observations name the session.
        effort: Effort so far.
        failures: Reason for each job that failed, also committed to the store.
        late: Whether a budget ended before all jobs had run often enough.
        waited_s: Seconds of waiting for a quiet machine, which are not part of a budget.
    """

    def __init__(
        self,
        worker: BackendWorker | Mapping[str, BackendWorker],
        store: ResultStore,
        advance: Advance,
        anew: AbstractSet[Question],
        watch: LoadWatch | None,
        settle: Callable[[LoadWatch], float],
    ) -> None:
        self.identifier = uuid.uuid4().hex
        self.effort = Effort()
        self.failures: dict[Question, str] = {}
        self.late = False
        self.waited_s = 0.0
        self._workers = worker
        self._store = store
        self._advance = advance
        self._anew = set(anew)
        self._watch = watch or LoadWatch()
        self._settle = settle

    def _able(self, jobs: Iterable[TimingJob]) -> list[TimingJob]:
        """The jobs that have not failed."""
        return [job for job in jobs if job.key not in self.failures]

    def _worker(self, job: TimingJob) -> BackendWorker:
        workers = self._workers
        return workers if isinstance(workers, BackendWorker) else workers[job.key.setup.backend]

    def _wait(self) -> None:
        """Waits for a quiet machine."""
        self.waited_s += self._settle(self._watch)

    def _fail(self, job: TimingJob, error: DLBricksError) -> None:
        self.failures[job.key] = reason = reason_of(error)
        self._store.record_failure(job.key, reason, job.operators)


class TimingSession(JobSession):
    """Times jobs on one worker, or on one for each backend, and stores the samples.

    Only one worker computes at a time. The jobs run in the given order, and in reverse order in
    every other round. Networks that are cheap by the schedule run several times in a round. Between
    two of these runs, other networks displace them from the caches.

    Args:
        worker: As for :class:`JobSession`, like ``store``, ``advance``, ``anew``, ``watch`` and
            ``settle``.
        protocol: How to measure.
        schedule: Decides which networks run in a round; ``None`` for the number of runs that each
            job specifies. Other schedules need an interleaved protocol.
        budget_s: Seconds, including loading, after which only indispensable rounds begin; ``None``
            for no limit.
        cores: Cores that must be near each other whenever a network runs.
        keeps_workers: Whether workers stay alive for the next session if all networks fit into
            memory together. The networks are then unloaded one by one.
    """

    def __init__(
        self,
        worker: BackendWorker | Mapping[str, BackendWorker],
        store: ResultStore,
        protocol: Protocol,
        advance: Advance = lambda done: None,
        schedule: Schedule | None = None,
        budget_s: float | None = None,
        anew: AbstractSet[Question] = frozenset(),
        cores: Cores | None = None,
        watch: LoadWatch | None = None,
        settle: Callable[[LoadWatch], float] = lambda watch: 0.0,
        *,
        keeps_workers: bool = False,
    ) -> None:
        super().__init__(worker, store, advance, anew, watch, settle)
        self._protocol = protocol
        self._schedule = schedule
        self._budget_s = math.inf if budget_s is None else budget_s
        self._cores = cores or Cores()
        self._keeps_workers = keeps_workers
        self._round = 0
        self._spent_s = 0.0
        self._loading_s: dict[Question, float] = {}

    def steps(self, jobs: Sequence[TimingJob]) -> int:
        """Number of calls of ``advance`` if nothing fails and no further runs become due."""
        if self._protocol.interleaved:
            return sum(1 + max(job.missing, 0) for job in jobs)
        return 2 * len(jobs)

    def run(self, jobs: Sequence[TimingJob]) -> Mapping[Question, str]:
        """Times the jobs, and returns the failures of the session."""
        schedule = self._schedule or FixedRuns({job.key: job.missing for job in jobs})
        begin, ahead = perf_counter(), len(jobs)
        groups = self._groups(jobs)
        self._keeps_workers &= len(groups) == 1
        for group in groups:
            self.effort.groups += 1
            # The remaining groups share the remaining budget.
            now = perf_counter() - self.waited_s
            end = now + (begin + self._budget_s - now) * len(group) / ahead
            self._run_group(group, schedule, end)
            ahead -= len(group)
        return self.failures

    def _groups(self, jobs: Sequence[TimingJob]) -> list[list[TimingJob]]:
        """Groups of jobs that fit into memory together; single networks if the protocol loops.

        The jobs of a network on several backends share a group, so that they can be compared. The
        groups are about equal in size: the networks of a small group would stay in the caches from
        round to round, and be faster than their bricks in a large group.
        """
        room = self._room(jobs) if self._protocol.interleaved else 0.0
        nbytes: dict[str, int] = {}
        for job in jobs:  # memory on the backend on which the network takes most
            taken = self._worker(job).nbytes(job.model)
            nbytes[job.handle] = max(taken, nbytes.get(job.handle, 0))
        total = sum(nbytes.values())
        share = total / max(1, math.ceil(total / room)) if room else 0.0
        groups: list[list[TimingJob]] = []
        place: dict[str, int] = {}
        used = 0
        for job in jobs:
            if job.handle not in place:
                if not groups or used >= share or used + nbytes[job.handle] > room:
                    groups.append([])
                    used = 0
                place[job.handle] = len(groups) - 1
                used += nbytes[job.handle]
            groups[place[job.handle]].append(job)
        return groups

    def _room(self, jobs: Sequence[TimingJob]) -> float:
        """Maximum computed bytes of all loaded networks together."""
        room = min((self._worker(job).memory_bytes for job in jobs), default=0) * _LOADED_SHARE
        alone = all(job.key.subject.kind == "brick" for job in jobs)
        return min(room, _MOST_BRICKS_BYTES) if alone else room

    def _of(self, jobs: Iterable[TimingJob]) -> list[BackendWorker]:
        """The distinct workers that the jobs run on."""
        return list({id(worker): worker for worker in map(self._worker, jobs)}.values())

    def _run_group(self, jobs: Sequence[TimingJob], schedule: Schedule, end: float) -> None:
        for job in jobs:
            self._attempt(job, self._load)
            self._advance(job.key.subject.kind)
            self._loading_s[job.key] = self._spent_s
            self.effort.loading[job.key.subject.kind] += self._spent_s
            self.effort.networks[job.key.subject.kind] += 1
        self._wait()
        backwards = False
        while due := self._due(jobs, schedule, end):
            # The first networks of a round find colder caches, so every other round runs in reverse
            # order.
            order = list(reversed(due)) if backwards else due
            backwards = not backwards
            for worker in self._of(due):
                if not self._in_turns(worker):  # turns measure the cost of a call
                    runs = 1 if self._protocol.interleaved else _CALL_RUNS
                    worker.measure_call(runs, warm_io=self._protocol.warm_io)
            passes = self._passes(order, schedule.cheap({job.key for job in due}))
            for numbers in passes:
                for turn in self._turns(self._able(numbers)):
                    far = () if self._cores.gather() else (FAR,)
                    self._keep(self._take(turn), schedule, numbers, far)
                    for job in turn:
                        self._advance(job.key.subject.kind)
            self._round += len(passes)
        self._free(jobs)

    def _free(self, jobs: Sequence[TimingJob]) -> None:
        """Frees the memory of a group for the next group."""
        if self._protocol.interleaved and not self._keeps_workers:
            for worker in self._of(jobs):
                worker.restart()
        else:  # one network in each group, or few in all
            for job in jobs:
                self._worker(job).unload(job.handle)

    def _passes(
        self, order: Sequence[TimingJob], cheap: AbstractSet[Question]
    ) -> list[dict[TimingJob, int]]:
        """Passes of a round: jobs in order, each with the number of its round.

        Each pass has all cheap jobs and a part of the other jobs. All passes take about the same
        time. Jobs that run once in the round share one round number, because their samples belong
        together.
        """
        again = [job for job in order if job.key in cheap]
        if not again:
            return [dict.fromkeys(order, self._round)]
        once = [job for job in order if job.key not in cheap]
        until_ms = list(accumulate(self._worker(job).latency_ms(job.handle) for job in once))
        parts: list[dict[TimingJob, int]] = [{} for _ in range(PASSES)]
        for job, reached_ms in zip(once, until_ms, strict=True):
            parts[math.ceil(PASSES * reached_ms / until_ms[-1]) - 1][job] = self._round
        for number, part in enumerate(parts):
            part |= dict.fromkeys(again, self._round + number)
        return parts

    def _due(self, jobs: Sequence[TimingJob], schedule: Schedule, end: float) -> list[TimingJob]:
        """Jobs that run in the next round."""
        keys = [job.key for job in self._able(jobs)]
        due = schedule.due(keys)
        if due and perf_counter() - self.waited_s >= end:
            self.late = True
            due = schedule.due(keys, late=True)
        return [job for job in jobs if job.key in due]

    def _load(self, job: TimingJob) -> float:
        return self._worker(job).load(job.handle, job.model, job.key.subject.kind)

    def _in_turns(self, worker: BackendWorker) -> bool:
        return self._protocol.interleaved and worker.in_turns

    def _turns(self, jobs: Iterable[TimingJob]) -> Iterator[list[TimingJob]]:
        """Turns: sequences of jobs that a worker runs without returning to this process in between.

        A turn is a single job if the backend opts out of turns. Otherwise its length is limited,
        because an interruption loses its samples.
        """
        turn: list[TimingJob] = []
        rest_ms = 0.0
        for job in jobs:
            worker = self._worker(job)
            if turn and (rest_ms <= 0 or worker is not self._worker(turn[0])):
                yield turn
                turn = []
            if not turn:
                rest_ms = _TURN_MS if self._in_turns(worker) else 0.0
            turn.append(job)
            rest_ms -= worker.latency_ms(job.handle)
        if turn:
            yield turn

    def _take(self, turn: Sequence[TimingJob]) -> list[_JobSamples]:
        """Samples of the jobs. A failed job is recorded, and the other jobs run again."""
        worker, jobs = self._worker(turn[0]), {job.handle: job for job in turn}
        if not self._in_turns(worker):
            return self._alone(turn[0])
        while jobs:
            begin = perf_counter()
            try:
                found = worker.sample_in_turn([*jobs], warm_io=self._protocol.warm_io)
            except NetworkError as error:
                if error.key not in jobs:
                    raise
                blamed = jobs.pop(error.key)
                self.effort.seconds[blamed.key.subject.kind] += perf_counter() - begin
                self._fail(blamed, error)
                continue
            # Overhead that belongs to no single job is divided among all jobs.
            rest_s = perf_counter() - begin - sum(spent_s for _, spent_s in found)
            taken = [
                _JobSamples(job, [latency_ms], spent_s + rest_s / len(found))
                for job, (latency_ms, spent_s) in zip(jobs.values(), found, strict=True)
            ]
            for each in taken:
                self.effort.seconds[each.job.key.subject.kind] += each.spent_s
            return taken
        return []

    def _alone(self, job: TimingJob) -> list[_JobSamples]:
        """One sample of a job, or all missing samples if the protocol loops."""
        samples = self._attempt(job, self._sample)
        return [_JobSamples(job, samples, self._spent_s)] if samples else []

    def _sample(self, job: TimingJob) -> list[float]:
        runs = 1 if self._protocol.interleaved else job.missing
        return self._worker(job).sample(job.handle, runs, warm_io=self._protocol.warm_io)

    def _keep(
        self,
        taken: Sequence[_JobSamples],
        schedule: Schedule,
        numbers: Mapping[TimingJob, int],
        far: tuple[str, ...],
    ) -> None:
        """Commits samples in one transaction, with their round numbers."""
        load = self._watch.lately()
        kept = [
            (
                each.job.key,
                Observation(
                    self.identifier,
                    numbers[each.job],
                    tuple(each.samples_ms),
                    overhead=self._worker(each.job).call_ms,
                    flags=(*far, *load.flags),
                    load=load.share,
                    spent_s=each.spent_s,
                    loading_s=self._loading_s.pop(each.job.key, None),
                ),
                each.job.operators,
            )
            for each in taken
        ]
        if kept:
            replaced = self._anew.intersection(key for key, _, _ in kept)
            self._store.add_all(kept, instead_of=replaced)
            self._anew -= replaced
        for key, samples, _ in kept:
            schedule.take(key, samples)
            self.effort.runs[key.subject.kind] += len(samples.values)

    def _attempt(self, job: TimingJob, step: Callable[[TimingJob], StepT]) -> StepT | None:
        """Result of a step; ``None`` if it failed. The failure is recorded with its reason."""
        begin = perf_counter()
        try:
            return step(job)
        except DLBricksError as error:
            self._fail(job, error)
            return None
        finally:
            self._spent_s = perf_counter() - begin
            self.effort.seconds[job.key.subject.kind] += self._spent_s


def reason_of(error: DLBricksError) -> str:
    """Reason why a network has no samples, with a hint to the user."""
    return f"{error.message} ({error.hint})" if error.hint else error.message
