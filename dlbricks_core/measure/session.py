"""A measuring session: times what the store lacks and commits every sample at once."""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import accumulate
from time import perf_counter
from typing import TypeVar, get_args

from dlbricks_core.errors import DLBricksError
from dlbricks_core.facts import Kind, Measurement, Observation, Question
from dlbricks_core.figures.protocols import Protocol
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.machine.cores import FAR, Cores
from dlbricks_core.measure.schedule import PASSES, FixedRuns, Schedule
from dlbricks_core.measure.worker import BackendWorker, NetworkError
from dlbricks_core.store import ResultStore

_CALL_RUNS = 100
_KINDS: tuple[Kind, ...] = get_args(Kind)

StepT = TypeVar("StepT")

_TURN_MS = 200.0
"""Latencies, of as many networks as a worker runs in one go; with what comes before each run
it takes two to four times as long."""

_LOADED_SHARE = 0.7
"""Of the worker's memory: what loaded networks may take by our count. Loading one takes up
more than keeping it, and frameworks keep scratch space that nobody can count beforehand."""


@dataclass(frozen=True)
class Job:
    """One network to time.

    Attributes:
        key: Where its samples belong.
        model: A brick or a whole model, cut out.
        missing: How many samples the store lacks, at the least.
    """

    key: Question
    model: CanonicalModel
    missing: int

    @property
    def handle(self) -> str:
        """What the worker knows the network by."""
        return f"{self.key.subject.kind}:{self.key.subject.signature}"

    @property
    def operators(self) -> tuple[str, ...]:
        """Operator types in the order in which they run."""
        return tuple(layer.qualified_op for layer in self.model.layers)


@dataclass(frozen=True)
class _Taken:
    """Samples of a job, and the seconds that they took."""

    job: Job
    samples_ms: Sequence[float]
    spent_s: float


@dataclass
class Effort:
    """What a session spent, by kind of network.

    Attributes:
        seconds: In all.
        runs: Timed ones.
        networks: Loaded ones.
        loading: Those of the seconds that went into loading and the like, however many
            runs followed.
        groups: How many groups the networks were loaded in.
    """

    seconds: dict[Kind, float] = field(default_factory=lambda: dict.fromkeys(_KINDS, 0.0))
    runs: dict[Kind, int] = field(default_factory=lambda: dict.fromkeys(_KINDS, 0))
    networks: dict[Kind, int] = field(default_factory=lambda: dict.fromkeys(_KINDS, 0))
    groups: int = 0
    loading: dict[Kind, float] = field(default_factory=lambda: dict.fromkeys(_KINDS, 0.0))

    @classmethod
    def of(cls, measurements: Iterable[Measurement]) -> Effort:
        """What samples cost, whichever sessions took them.

        Only samples count that say what they cost: those of older stores do not. Seconds
        that were spent on networks which failed are not in it, nor the number of groups.
        """
        effort = cls()
        for measurement in measurements:
            kind = measurement.question.subject.kind
            effort.networks[kind] += 1
            known = [taken for taken in measurement.observations if taken.spent_s is not None]
            effort.runs[kind] += sum(len(taken.values) for taken in known)
            effort.seconds[kind] += sum(taken.spent_s or 0.0 for taken in measurement.observations)
            effort.add_loading(
                kind, sum(taken.loading_s or 0.0 for taken in measurement.observations)
            )
        return effort

    def add_loading(self, kind: Kind, seconds: float) -> None:
        """Counts seconds that went into no run."""
        self.seconds[kind] += seconds
        self.loading[kind] += seconds


Advance = Callable[[str], None]
"""Called after each step (a load or a sampling) with what was done."""


class Session:
    """Times jobs on one worker, or on one for each backend, and stores the samples.

    Only one worker computes at a time. The jobs run in the order in which they are given,
    and in every other round the other way round. What the schedule calls cheap runs several
    times in a round, spread over it: each time after as much else as the others need to
    displace it from the caches.

    Args:
        worker: The worker to run on; where jobs are for several backends, a worker for
            each by the backend's name.
        store: Where samples go, committed one by one.
        protocol: How to measure.
        advance: Told of every step.
        schedule: Which networks run in a round; ``None`` for as many runs of each as its
            job says. One of another kind is for interleaved protocols.
        budget_s: Seconds, loading included, after which no round begins but those that
            are indispensable; ``None`` for no end.
        anew: What the first new samples replace all that the store holds of. Until then the
            store keeps it, so that nothing is lost when a session ends early.
        cores: Which are to be near each other whenever something runs.

    Attributes:
        effort: What was spent so far.
        late: Whether the budget ended before the schedule did.
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
    ) -> None:
        self.identifier = uuid.uuid4().hex
        self.effort = Effort()
        self._workers = worker
        self._store = store
        self._protocol = protocol
        self._advance = advance
        self._schedule = schedule
        self._budget_s = math.inf if budget_s is None else budget_s
        self._anew = set(anew)
        self._cores = cores or Cores()
        self._round = 0
        self._spent_s = 0.0
        self.late = False

    def steps(self, jobs: Sequence[Job]) -> int:
        """How often ``advance`` will be called if nothing fails and nothing more is due."""
        if self._protocol.interleaved:
            return sum(1 + max(job.missing, 0) for job in jobs)
        return 2 * len(jobs)

    def run(self, jobs: Sequence[Job]) -> dict[Question, str]:
        """Times the jobs.

        Returns:
            The jobs that failed and why; also committed to the store.
        """
        schedule = self._schedule or FixedRuns({job.key: job.missing for job in jobs})
        failures: dict[Question, str] = {}
        begin, ahead = perf_counter(), len(jobs)
        for group in self._groups(jobs):
            self.effort.groups += 1
            # What is left of the budget is shared with the groups to come.
            now = perf_counter()
            end = now + (begin + self._budget_s - now) * len(group) / ahead
            failures |= self._run_group(group, schedule, end)
            ahead -= len(group)
        return failures

    def _groups(self, jobs: Sequence[Job]) -> list[list[Job]]:
        """Jobs that fit into memory together; network by network where loops are wanted.

        A network's jobs on several backends share a group, so that they can be compared. Groups
        are of about one size: what is left over for a small one would stay in the caches from
        round to round, and be faster than its bricks in a large one.
        """
        room = self._room(jobs) if self._protocol.interleaved else 0.0
        nbytes: dict[str, int] = {}
        for job in jobs:  # on the backend where it takes most
            taken = self._worker(job).nbytes(job.model)
            nbytes[job.handle] = max(taken, nbytes.get(job.handle, 0))
        total = sum(nbytes.values())
        share = total / max(1, math.ceil(total / room)) if room else 0.0
        groups: list[list[Job]] = []
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

    def _room(self, jobs: Sequence[Job]) -> float:
        return min((self._worker(job).memory_bytes for job in jobs), default=0) * _LOADED_SHARE

    def _worker(self, job: Job) -> BackendWorker:
        workers = self._workers
        return workers if isinstance(workers, BackendWorker) else workers[job.key.setup.backend]

    def _of(self, jobs: Iterable[Job]) -> list[BackendWorker]:
        """The workers that the jobs run on, each once."""
        return list({id(worker): worker for worker in map(self._worker, jobs)}.values())

    def _run_group(
        self, jobs: Sequence[Job], schedule: Schedule, end: float
    ) -> dict[Question, str]:
        failures: dict[Question, str] = {}
        loading_s: dict[Question, float] = {}
        for job in jobs:
            self._attempt(job, failures, self._load)
            self._advance(job.key.subject.kind)
            loading_s[job.key] = self._spent_s
            self.effort.loading[job.key.subject.kind] += self._spent_s
            self.effort.networks[job.key.subject.kind] += 1
        backwards = False
        while due := self._due(jobs, failures, schedule, end):
            # What comes first meets colder caches: every other round runs the other way.
            order = list(reversed(due)) if backwards else due
            backwards = not backwards
            self._measure_calls(due)
            passes = self._passes(order, schedule.cheap({job.key for job in due}))
            for numbers in passes:
                able = [job for job in numbers if job.key not in failures]
                for turn in self._turns(able):
                    warnings = () if self._cores.gather() else (FAR,)
                    taken = self._take(turn, failures)
                    self._keep(taken, schedule, loading_s, numbers, warnings)
                    for job in turn:
                        self._advance(job.key.subject.kind)
            self._round += len(passes)
        self._free(jobs)
        return failures

    def _free(self, jobs: Sequence[Job]) -> None:
        """Makes room for the next group."""
        if self._protocol.interleaved:
            for worker in self._of(jobs):
                worker.restart()
        else:  # one network each
            for job in jobs:
                self._worker(job).unload(job.handle)

    def _passes(self, order: Sequence[Job], cheap: AbstractSet[Question]) -> list[dict[Job, int]]:
        """A round's jobs, in parts that each hold all cheap ones, and the number of each.

        The parts take about the same time. What runs but once has one number in all of them:
        it belongs together wherever in the round it ran.
        """
        again = [job for job in order if job.key in cheap]
        if not again:
            return [dict.fromkeys(order, self._round)]
        once = [job for job in order if job.key not in cheap]
        until_ms = list(accumulate(self._worker(job).latency_ms(job.handle) for job in once))
        parts: list[dict[Job, int]] = [{} for _ in range(PASSES)]
        for job, reached_ms in zip(once, until_ms, strict=True):
            parts[math.ceil(PASSES * reached_ms / until_ms[-1]) - 1][job] = self._round
        for number, part in enumerate(parts):
            part |= dict.fromkeys(again, self._round + number)
        return parts

    def _due(
        self,
        jobs: Sequence[Job],
        failures: Mapping[Question, str],
        schedule: Schedule,
        end: float,
    ) -> list[Job]:
        """What runs in the next round."""
        keys = [job.key for job in jobs if job.key not in failures]
        due = schedule.due(keys)
        if due and perf_counter() >= end:
            self.late = True
            due = schedule.due(keys, late=True)
        return [job for job in jobs if job.key in due]

    def _load(self, job: Job) -> float:
        return self._worker(job).load(job.handle, job.model, job.key.subject.kind)

    def _measure_calls(self, jobs: Iterable[Job]) -> None:
        """The timer's own cost, where it is not part of turns."""
        runs = 1 if self._protocol.interleaved else _CALL_RUNS
        for worker in self._of(jobs):
            if not self._in_turns(worker):
                worker.measure_call(runs, touch=self._protocol.touch)

    def _in_turns(self, worker: BackendWorker) -> bool:
        return self._protocol.interleaved and worker.in_turns

    def _turns(self, jobs: Iterable[Job]) -> Iterator[list[Job]]:
        """What one worker does without a word to this process in between.

        Where the backend does not want turns, that is one network; else as many as run in
        about the time that nobody minds to lose when everything is interrupted.
        """
        turn: list[Job] = []
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

    def _take(self, turn: Sequence[Job], failures: dict[Question, str]) -> list[_Taken]:
        """Samples of the jobs; those that fail are noted, and the others run again."""
        worker, jobs = self._worker(turn[0]), {job.handle: job for job in turn}
        if not self._in_turns(worker):
            return self._alone(turn[0], failures)
        while jobs:
            begin = perf_counter()
            try:
                found = worker.sample_in_turn([*jobs], touch=self._protocol.touch)
            except NetworkError as error:
                if error.key not in jobs:
                    raise
                blamed = jobs.pop(error.key)
                self.effort.seconds[blamed.key.subject.kind] += perf_counter() - begin
                self._fail(blamed, error, failures)
                continue
            # What belongs to none of them, they share.
            rest_s = perf_counter() - begin - sum(spent_s for _, spent_s in found)
            taken = [
                _Taken(job, [latency_ms], spent_s + rest_s / len(found))
                for job, (latency_ms, spent_s) in zip(jobs.values(), found, strict=True)
            ]
            for each in taken:
                self.effort.seconds[each.job.key.subject.kind] += each.spent_s
            return taken
        return []

    def _alone(self, job: Job, failures: dict[Question, str]) -> list[_Taken]:
        """One sample of a job, or all that it lacks in a loop of its own."""
        samples = self._attempt(job, failures, self._sample)
        return [_Taken(job, samples, self._spent_s)] if samples else []

    def _sample(self, job: Job) -> list[float]:
        runs = 1 if self._protocol.interleaved else job.missing
        return self._worker(job).sample(job.handle, runs, touch=self._protocol.touch)

    def _keep(
        self,
        taken: Sequence[_Taken],
        schedule: Schedule,
        loading_s: dict[Question, float],
        numbers: Mapping[Job, int],
        warnings: tuple[str, ...],
    ) -> None:
        """Commits samples, all at once, under the numbers of their rounds."""
        kept = [
            (
                each.job.key,
                Observation(
                    self.identifier,
                    numbers[each.job],
                    tuple(each.samples_ms),
                    overhead=self._worker(each.job).call_ms,
                    flags=warnings,
                    spent_s=each.spent_s,
                    loading_s=loading_s.pop(each.job.key, None),
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

    def _attempt(
        self, job: Job, failures: dict[Question, str], step: Callable[[Job], StepT]
    ) -> StepT | None:
        """Result of a step, or ``None`` after noting why it failed."""
        begin = perf_counter()
        try:
            return step(job)
        except DLBricksError as error:
            self._fail(job, error, failures)
            return None
        finally:
            self._spent_s = perf_counter() - begin
            self.effort.seconds[job.key.subject.kind] += self._spent_s

    def _fail(self, job: Job, error: DLBricksError, failures: dict[Question, str]) -> None:
        failures[job.key] = reason = reason_of(error)
        self._store.record_failure(job.key, reason, job.operators)


def reason_of(error: DLBricksError) -> str:
    """Why a network has no samples, with what the user can do about it."""
    return f"{error.message} ({error.hint})" if error.hint else error.message
