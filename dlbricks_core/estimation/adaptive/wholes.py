"""Runs of whole models as their users run them, and latencies of the bricks inside of them."""

from __future__ import annotations

import math
import uuid
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property
from statistics import fmean, geometric_mean
from time import perf_counter
from typing import NamedTuple
from zlib import crc32

from dlbricks_core.backends import Profile
from dlbricks_core.backends.burst import Burst, WholeRun
from dlbricks_core.bricks import CutModel
from dlbricks_core.errors import DLBricksError, UnsupportedError
from dlbricks_core.estimation.adaptive.ahead import Ahead, worker_of
from dlbricks_core.estimation.adaptive.drift import drift, drifting
from dlbricks_core.facts import Kind, Measurement, Note, Observation, Pulse, Question
from dlbricks_core.facts import Session as SessionRecord
from dlbricks_core.facts.note import note
from dlbricks_core.figures.figure import InPlace, Measured
from dlbricks_core.figures.predicted import Placed
from dlbricks_core.figures.protocols import Round
from dlbricks_core.figures.statistics import Disturbance
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.machine.load import LoadSampler, LoadWatch, MachineLoad
from dlbricks_core.machine.pulse import between_moments, slow_now
from dlbricks_core.machine.system import current_host
from dlbricks_core.measure.harvest import LEAST_ASSIGNED, Harvest
from dlbricks_core.measure.ledger import Effort, Ledger
from dlbricks_core.measure.measuring import look_up, settle
from dlbricks_core.measure.request import Request
from dlbricks_core.measure.session import reason_of
from dlbricks_core.measure.worker import BackendWorker
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore
from dlbricks_core.version import __version__

Taken = tuple[Question, Observation, Sequence[str]]


_MOST_HELD_BYTES = 3 * 2**29
"""Most bytes that a process may hold between two models; beyond, it starts anew."""

_LEAST_MS = 1e-6
"""Latency of a brick that does nothing in a running model, such as a view. A store holds no 0."""


class _Beside(NamedTuple):
    """Flags of a run, and the share of the CPUs that others used meanwhile."""

    flags: tuple[str, ...] = ()
    load: float | None = None


class WholeRuns:
    """Whole models that ran, here or before, and latencies of their bricks from profiles.

    Args:
        request: How models run (:attr:`Request.hot`).
        store: Store of the measurements.
        observer: Receives the progress.
        opened: Closes the workers.
        session: Identifier of the session; ``None`` for a new one.
        ahead: Process that was begun before; ``None`` if there is none.

    Attributes:
        figures: Figures of whole models, by signature.
        drifting: The same figures with the drift of the machine, by signature.
        ledger: Measurements and failures, under the key of a whole model in either form.
        importing_s: Seconds until the framework was imported.
        waited_s: Seconds of waiting for a quiet machine, which count for no budget.
    """

    def __init__(
        self,
        request: Request,
        store: ResultStore,
        observer: Observer,
        opened: ExitStack,
        session: str | None = None,
        ahead: Ahead | None = None,
    ) -> None:
        self.figures: dict[str, Measured] = {}
        self.drifting: dict[str, Placed] = {}
        self.ledger = Ledger()
        self.importing_s = 0.0
        self._request = request
        self._store = store
        self._observer = observer
        self._opened = opened
        self._session = session or uuid.uuid4().hex
        self._workers: dict[bool, BackendWorker] = {}
        self._round = 0
        self._sampler = LoadSampler()
        self._ahead = ahead
        self._watch = ahead.watch if ahead else LoadWatch()
        self.waited_s = 0.0
        self._lowered: set[str] = set()
        self._profiled: dict[str, Measurement] = {}
        self._in_place: dict[
            str, tuple[tuple[Observation, ...], tuple[float, ...], InPlace | None]
        ] = {}
        self._models: dict[Round, str] = {}

    def key(self, cut: CutModel) -> Question:
        """The question that the samples of a whole model answer."""
        source = cut.model.source
        opens = source not in self._lowered and self._request.backend.opens(source)
        kind: Kind = "native" if opens else "model"
        return self._request.key(cut.whole.signature, kind)

    @property
    def warned_ledger(self) -> Ledger:
        """The ledger, with disturbances of the machine from the first run until now.

        Pulses of this session and of earlier ones show how much its speed changes.
        """
        if self._request.elsewhere:
            return self.ledger
        pulses, warnings = self._earlier_pulses, self.ledger.warnings
        if self.ledger.anew:
            load, now = self._sampler.load(), self._watch.pulse
            warnings = load.warnings
            if now is not None:
                warnings += slow_now(now, pulses)
                pulses = [*pulses, now] if load.share is not None else pulses
        return replace(self.ledger, warnings=warnings, apart=between_moments(pulses))

    @cached_property
    def _earlier_pulses(self) -> list[Pulse]:
        return self._store.pulses(current_host(), without=self._session)

    def bricks(self, without: Collection[str] = ()) -> Mapping[str, InPlace]:
        """Figures of bricks inside of whole models, by signature.

        Profiles of disturbed runs count only where there is no other.

        Args:
            without: Signatures of whole models whose profiles are left out.
        """
        taken = {
            signature: tuple(
                each
                for each in measurement.observations
                if self._models.get((each.session, each.round)) not in without
            )
            for signature, measurement in self._profiled.items()
        }
        levels = _levels(taken.values())
        found = {}
        for signature, observations in taken.items():
            own = tuple(levels.get((each.session, each.round), 1.0) for each in observations)
            # Asked for after each run, of which few bricks have new samples.
            *before, figure = self._in_place.get(signature, ((), (), None))
            if before != [observations, own]:
                figure = _in_place(
                    replace(self._profiled[signature], observations=observations), levels
                )
                self._in_place[signature] = observations, own, figure
            if figure is not None:
                found[signature] = figure
        return found

    def look_up(self, cuts: Iterable[CutModel]) -> None:
        """Adds stored figures of models and of their bricks."""
        request = self._request
        wholes = {self.key(cut): cut for cut in cuts}
        bricks = dict.fromkeys(s for cut in wholes.values() for s in cut.counts)
        parts = [request.key(signature, "profiled") for signature in bricks]
        found = look_up([*wholes, *parts], request, self._store, refusals=False)
        self._know(found.measurements.values())
        self.ledger = replace(
            self.ledger,
            failures=found.failures,
            unsupported=found.unsupported,
            reused=len(self.figures),
        )

    def run(self, cut: CutModel, burst: Burst, *, harvest: bool = True) -> None:
        """Runs a model, and stores its latency and the latencies of its bricks.

        Args:
            cut: The model.
            burst: Extent of the runs.
            harvest: Whether to profile its bricks. Otherwise they are stored only if the run itself
                is profiled, which costs almost nothing. Bricks of a model with denormal weights, or
                with loops that the user's form runs as loops, are not stored: the same bricks take
                another time elsewhere.
        """
        key = self.key(cut)
        as_used = key.subject.kind == "native"
        tells = _tells_of_bricks(cut.model, as_used=as_used)
        try:
            worker = self._worker(as_used=True)
            self.waited_s += settle(self._watch, self._request, self._observer)
            begin = perf_counter()
            self._watch.lately()
            found = worker.run_whole(cut.model, burst, as_used=as_used)
        except UnsupportedError as error:
            if not as_used:
                self._fail(key, cut, error)
                return
            self._lowered.add(cut.model.source)
            self.remark(note("runs-as-lowered", cut.model.name, reason=error.message))
            self.run(cut, burst, harvest=harvest)
            return
        except DLBricksError as error:
            self._fail(key, cut, error)
            return
        latency_ms = float(self._request.protocol.statistic(found.samples_ms))
        profile = found.profile
        if harvest and tells and not _names_layers(cut, profile):
            try:
                profile = self._profile(cut, burst, latency_ms)
            except DLBricksError as error:
                self.remark(note("no-brick-latencies", cut.model.name, reason=reason_of(error)))
        spent_s = perf_counter() - begin
        self._keep(cut, key, replace(found, profile=profile), spent_s, self._watch.lately())
        for worker in self._workers.values():
            worker.restart_above(_MOST_HELD_BYTES)

    def take(self, cut: CutModel, samples_ms: Sequence[float], burst: Burst) -> None:
        """Keeps latencies that the user's own program saw, and profiles the model.

        Args:
            cut: The model.
            samples_ms: Latency of each run in milliseconds.
            burst: Extent of the profile.

        Raises:
            DLBricksError: If the framework cannot profile the model.
        """
        key = self._request.key(cut.whole.signature, "native")
        latency_ms = float(self._request.protocol.statistic(samples_ms))
        begin = perf_counter()
        profile = None
        if self.key(cut).subject.kind == "native":
            profile = self._worker(as_used=True).run_whole(cut.model, burst, as_used=True).profile
        if not _names_layers(cut, profile):
            profile = self._profile(cut, burst, latency_ms)
        found = WholeRun(tuple(samples_ms), 0.0, profile)
        self._keep(cut, key, found, perf_counter() - begin)

    def _keep(
        self,
        cut: CutModel,
        key: Question,
        found: WholeRun,
        spent_s: float,
        load: MachineLoad | None = None,
    ) -> None:
        """Stores a run of a model, and the latencies of its bricks if it has a profile.

        Args:
            cut: The model.
            key: The question that the run answers.
            found: The run.
            spent_s: Seconds that it took.
            load: Share of the CPUs that other programs used meanwhile; ``None`` if not measured.
        """
        beside = _Beside(load.flags, load.share) if load else _Beside()
        latency_ms = float(self._request.protocol.statistic(found.samples_ms))
        observation = Observation(
            self._session,
            self._round,
            found.samples_ms,
            flags=beside.flags,
            load=beside.load,
            spent_s=spent_s - found.loading_s,
            loading_s=found.loading_s,
        )
        taken: list[Taken] = [(key, observation, cut.whole.operators)]
        tells = _tells_of_bricks(cut.model, as_used=key.subject.kind == "native")
        told = found.profile if tells else None
        if told is not None and _names_layers(cut, told):
            taken += self._harvested(cut, told, latency_ms, beside)
        self._round += 1
        replaces = self._request.force and key not in self.ledger.anew
        self._store.add_all(taken, instead_of={key} if replaces else ())
        effort = self.ledger.effort + Effort.of([Measurement(key, observations=(observation,))])
        self.ledger = replace(self.ledger, effort=effort, anew=self.ledger.anew | {key})
        self._know(Measurement(key, tuple(operators), (each,)) for key, each, operators in taken)

    def _harvested(
        self, cut: CutModel, profile: Profile, latency_ms: float, beside: _Beside
    ) -> list[Taken]:
        found = Harvest.of(cut, profile, latency_ms)
        return [
            (
                self._request.key(signature, "profiled"),
                Observation(
                    self._session,
                    self._round,
                    (max(ms, _LEAST_MS),),
                    flags=beside.flags,
                    load=beside.load,
                ),
                cut.operators(signature),
            )
            for signature, ms in found.ms.items()
        ]

    def _profile(self, cut: CutModel, burst: Burst, latency_ms: float) -> Profile:
        """Profile of the model as lowered, if the profile of the user's form is insufficient.

        Raises:
            DLBricksError: If there is none, or it names few layers of the model.
        """
        settings = self._request.settings
        used = self._request.backend.as_used(settings)
        worker = self._worker(as_used=used == settings)
        found = worker.profile(cut.model, burst.profiled, latency_ms)
        if not _names_layers(cut, found):
            name = self._request.backend.name
            raise UnsupportedError(f"the profile of {name} names few of its layers")
        return found

    def remark(self, found: Note) -> None:
        """Adds a note to the ledger."""
        self.ledger = self.ledger.noting(found)

    def _worker(self, *, as_used: bool) -> BackendWorker:
        """A process with a user's settings, or with the settings for profiles."""
        if as_used not in self._workers:
            begin = perf_counter()
            if as_used and self._ahead is not None:
                worker = self._ahead.worker
            else:
                worker = self._opened.enter_context(worker_of(self._request, as_used=as_used))
            self._workers[as_used] = worker
            worker.start()
            self.importing_s += perf_counter() - begin
            self._begin_session()
        return self._workers[as_used]

    def _begin_session(self) -> None:
        """Stores the session, and at its end the CPU use of other programs during it."""
        system = self._request.system
        self._store.remember_system(system.fingerprint, system.to_dict())
        record = SessionRecord(self._session, current_host(), system.fingerprint, __version__)
        self._store.keep_session(record)

        def end() -> None:
            load, pulse = self._sampler.load().share, self._watch.pulse
            ended = replace(record, load=load)
            if pulse is not None:
                ended = replace(ended, pulse_ms=pulse.ms, pulse_spread=pulse.spread)
            self._store.keep_session(ended)

        self._opened.callback(end)

    def _know(self, measurements: Iterable[Measurement]) -> None:
        """Adds samples of whole models, and of bricks inside of them."""
        wholes: dict[Question, Measurement] = {}
        for measurement in measurements:
            key = measurement.question
            signature, profiled = key.subject.signature, key.subject.kind == "profiled"
            # A figure uses all samples in the store, as for every later reader of the store.
            before = (
                self._profiled.get(signature) if profiled else self.ledger.measurements.get(key)
            )
            if before is not None:
                every = (*before.observations, *measurement.observations)
                measurement = replace(before, observations=every)
            if profiled:
                self._profiled[signature] = measurement
            else:
                wholes[key] = measurement
                places = [(each.session, each.round) for each in measurement.observations]
                self._models |= dict.fromkeys(places, signature)
        found = Ledger.of(wholes, self._request.protocol)
        self.ledger |= found
        for key, figure in found.figures.items():
            signature = key.subject.signature
            drifted = drifting(signature, figure, drift().plain_loop)
            self.figures[signature] = figure
            self.drifting[signature] = Placed(figure, drifted)

    def _fail(self, key: Question, cut: CutModel, error: DLBricksError) -> None:
        reason = reason_of(error)
        self.ledger = self.ledger.failing({key: reason})
        self.remark(note("whole-did-not-run", cut.model.name, reason=reason))
        self._store.record_failure(key, reason, cut.whole.operators)


def _levels(bricks: Iterable[Sequence[Observation]]) -> Mapping[Round, float]:
    """How long bricks took in each run, relative to their means over runs.

    Only bricks of several runs tell, each by its time. They count beside one more, as long as the
    longest of them, that took as long as on average: few of them tell little.

    Args:
        bricks: Profiled latencies of each brick.
    """
    apart: defaultdict[Round, list[tuple[float, float]]] = defaultdict(list)
    for observations in bricks:
        if len({(each.session, each.round) for each in observations}) > 1:
            taken = [max(fmean(each.values), _LEAST_MS) for each in observations]
            middle = geometric_mean(taken)
            for each, ms in zip(observations, taken, strict=True):
                apart[each.session, each.round].append((middle, math.log(ms / middle)))
    return {
        run: math.exp(
            sum(ms * log for ms, log in found)
            / (sum(ms for ms, _ in found) + max(ms for ms, _ in found))
        )
        for run, found in apart.items()
    }


def _in_place(measurement: Measurement, levels: Mapping[Round, float]) -> InPlace | None:
    """Figure of a brick in profiles of running models; ``None`` if none of them tells anything.

    Args:
        measurement: Latencies of the brick.
        levels: As returned by :func:`_levels`.
    """
    quiet = tuple(each for each in measurement.observations if not each.flags)
    used = replace(measurement, observations=quiet or measurement.observations)
    seed, disturbance = crc32(used.question.subject.signature.encode()), Disturbance.of(used)
    if not used.values or disturbance.leaves_nothing:
        return None
    own = tuple(
        levels.get((each.session, each.round), 1.0)
        for each in used.observations
        for _ in each.values
    )
    return InPlace(used.values, seed, disturbed=disturbance, levels=own)


def _tells_of_bricks(model: CanonicalModel, *, as_used: bool) -> bool:
    """Whether bricks inside of a model take as long as the same bricks elsewhere."""
    return not (model.is_slowed or (as_used and model.loop_steps))


def _names_layers(cut: CutModel, profile: Profile | None) -> bool:
    """Whether a profile says of enough of its time which layers of the model took it."""
    return profile is not None and Harvest.of(cut, profile, 1.0).assigned >= LEAST_ASSIGNED
