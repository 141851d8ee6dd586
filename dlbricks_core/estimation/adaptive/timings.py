"""Networks that adaptive measuring could time, and the worker that times them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from time import perf_counter
from types import MappingProxyType
from typing import Self

from dlbricks_core.bricks import Brick
from dlbricks_core.estimation.defaults import FINEST
from dlbricks_core.facts import Note, Question
from dlbricks_core.figures.figure import Figure
from dlbricks_core.figures.protocols import FEWEST_QUIET
from dlbricks_core.figures.statistics import WIDENS
from dlbricks_core.measure.costs import START_S, Costs
from dlbricks_core.measure.cutting import Cutting, Target, alike_together
from dlbricks_core.measure.ledger import Ledger
from dlbricks_core.measure.measuring import check, look_up, measure, open_worker, settle_models
from dlbricks_core.measure.request import Request
from dlbricks_core.measure.worker import BackendWorker
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore

RUNS = 4
"""Runs of each network. The uncertainty of all untimed networks outweighs the scatter of so few."""

_ENOUGH_S = 0.2
"""Total seconds of a network's runs after which three of them suffice."""


@dataclass(frozen=True)
class Candidates:
    """Networks that could be timed.

    Attributes:
        cutting: The models and their bricks.
        bricks: Bricks by signature.
        wholes: Whole models that may be timed instead of their bricks, by signature.
        kept_apart: Signatures of whole models for comparison, which estimates must not use.
        probes: Networks of the survey that may be timed to characterize the system, by signature.
    """

    cutting: Cutting
    bricks: Mapping[str, Brick]
    wholes: Mapping[str, Brick]
    kept_apart: frozenset[str]
    probes: Mapping[str, Target] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        cutting: Cutting,
        *,
        end_to_end: bool,
        probes: Mapping[str, Target] = MappingProxyType({}),
    ) -> Self:
        """All networks except opaque layers, models with opaque layers, and models of much memory.

        Args:
            cutting: The models and their bricks.
            end_to_end: Whether whole models are for comparison.
            probes: Networks of the survey, by signature.
        """
        every = cutting.brickset.bricks
        bricks = {signature: each for signature, each in every.items() if not each.opaque}
        wholes = {
            cut.whole.signature: cut.whole
            for cut in cutting.brickset.models
            if cut.counts.keys() <= bricks.keys() and cut.whole.signature not in bricks
        }
        others = {s: each for s, each in probes.items() if s not in bricks and s not in wholes}
        if end_to_end:
            return cls(cutting, bricks, {}, frozenset(wholes), others)
        large = {s for s, footprint in cutting.footprints.items() if not footprint.is_modest}
        able = {s: whole for s, whole in wholes.items() if s not in large}
        return cls(cutting, bricks, able, frozenset(), others)

    @cached_property
    def every(self) -> Mapping[str, Brick]:
        """Each model followed by its bricks in execution order, then the probes."""
        able = {**self.bricks, **self.wholes}
        found: dict[str, Brick] = {}
        for cut in self.cutting.brickset.models:
            found |= {s: able[s] for s in (cut.whole.signature, *cut.counts) if s in able}
        probes = alike_together(self.probes.values())
        return {**found, **able, **{each.brick.signature: each.brick for each in probes}}

    def target(self, signature: str) -> Target:
        """A network with the role in which it is timed."""
        if signature in self.bricks:
            return Target(self.bricks[signature], "brick")
        if signature in self.probes:
            return self.probes[signature]
        return Target(self.wholes[signature], "model")


class TimingWorker:
    """Times networks on one worker, which stays until the end.

    Args:
        subjects: Networks that could be timed.
        request: How networks are measured, to what precision, and for how long.
        store: Store of the measurements.
        observer: Receives the progress.
        opened: Closes the worker.

    Attributes:
        subjects: Networks that could be timed.
        request: How they are measured.
        ledger: Measurements and failures so far.
        known: Figures of measured networks, by signature.
        nothing: Signatures of networks whose samples are useless.
        insisted: Signatures of whole models that were timed to the requested precision.
        spent_s: Seconds of timing, including the start of the worker.
        importing_s: Part of these seconds until the framework was imported.
        worker: The worker; ``None`` before it is needed.
    """

    def __init__(
        self,
        subjects: Candidates,
        request: Request,
        store: ResultStore,
        observer: Observer,
        opened: ExitStack,
    ) -> None:
        self.ledger = Ledger()
        self.known: dict[str, Figure] = {}
        self.insisted: set[str] = set()
        self.nothing: set[str] = set()
        self.spent_s = self.importing_s = 0.0
        self.subjects = subjects
        self.request = request
        self.store = store
        self._observer = observer
        self._opened = opened
        self.worker: BackendWorker | None = None

    @property
    def start_s(self) -> float:
        """Seconds until the worker is ready."""
        return START_S if self.worker is None else 0.0

    @property
    def started(self) -> bool:
        """Whether the worker has timed anything."""
        return self.worker is not None

    @property
    def precision(self) -> float:
        """Half-width of all models' intervals to reach, relative to their latencies."""
        return self.request.precision or FINEST

    def key(self, signature: str) -> Question:
        """Key of the samples of a network."""
        return self.request.key(signature, self.subjects.target(signature).kind)

    def open(self, signature: str) -> bool:
        """Whether a network can be timed, and has not been."""
        tried = signature in self.known or signature in self.nothing
        return not tried and not self.failed(signature)

    def failed(self, signature: str) -> bool:
        """Whether timing a network failed."""
        return self.key(signature) in self.ledger.failures

    def look_up(self) -> None:
        """Adds stored measurements and failures."""
        keys = map(self.key, self.subjects.every)
        self._add(look_up(keys, self.request, self.store, fewest=FEWEST_QUIET))
        self.ledger = replace(self.ledger, reused=len(self.known))

    def check_doubtful(self) -> None:
        """Checks all bricks if a model is known to be unsupported, and no brick explains it."""
        request = self.request
        refused = self.store.refused(request.setup, request.fingerprint).keys()
        models = self.subjects.cutting.brickset.models
        if refused and any(
            not refused.isdisjoint({cut.whole.signature, *cut.counts, *cut.layer_signatures})
            and not any(map(self.failed, cut.counts.keys() & self.subjects.bricks.keys()))
            for cut in models
        ):
            begin = perf_counter()
            self._start()
            self.spent_s += perf_counter() - begin

    def time(self, signatures: Iterable[str]) -> None:
        """Times networks. The first call checks all bricks beforehand.

        They run in the order of their models. After networks with other operators, a layer finds
        less of its code in the caches than in its model (research/2026-11-27-order.md).
        """
        request = replace(
            self.request, precision=None, budget_s=None, runs=RUNS, enough_s=_ENOUGH_S
        )
        self._measure({s for s in signatures if self.open(s)}, request)

    def insist(self, wholes: AbstractSet[str], scatter: float, left_s: float) -> None:
        """Times whole models until scatter leaves each a narrow interval.

        Args:
            wholes: Signatures of the models.
            scatter: Half-width of the interval to reach, relative to the figure.
            left_s: Remaining seconds of the budget.
        """
        self.insisted |= wholes
        self._measure(wholes, replace(self.request, precision=scatter, budget_s=left_s))

    def _measure(self, signatures: AbstractSet[str], request: Request) -> None:
        begin = perf_counter()
        if self.worker is None:
            self._start()
        chosen = (s for s in self.subjects.every if s in signatures and not self.failed(s))
        targets, cutting = map(self.subjects.target, chosen), self.subjects.cutting
        found = measure(targets, request, self.store, self._observer, cutting, self.worker)
        # All timing for an estimate is part of the estimate's cost.
        effort = found.effort.counted_as("brick")
        self._add(replace(found, effort=effort, notes=(), reused=0))
        self.spent_s += perf_counter() - begin

    def costs(self) -> Costs:
        """Cost of timing, as observed so far."""
        every = self.subjects.every
        seen = self.ledger.measurements.values()
        return Costs.seen(
            (every[each.question.subject.signature].model, each)
            for each in seen
            if each.question.subject.signature in every
        )

    def _start(self) -> None:
        """Starts the worker, and checks which bricks the backend does not support."""
        begin = perf_counter()
        subjects = self.subjects
        self.worker = self._opened.enter_context(open_worker(self.request))
        self.worker.start()
        self.importing_s = perf_counter() - begin
        bricks = {self.key(s): each for s, each in subjects.bricks.items()}
        unknown = {self.key(s): each for s, each in subjects.bricks.items() if self.open(s)}
        request, store = self.request, self.store
        self.ledger |= check(unknown, request, self.worker, store, self._observer)
        settle_models(subjects.cutting, bricks, self.ledger, request, store)

    def drop(self, signatures: Iterable[str], why: Note) -> None:
        """Marks networks, here and in the store, that must not be used for other networks."""
        keys = list(map(self.key, signatures))
        self.store.mark(keys, WIDENS)
        self._add(Ledger.of(self.store.get(keys), self.request.protocol, notes=(why,)))

    def _add(self, found: Ledger) -> None:
        """Adds measurements, failures and their cost."""
        self.ledger |= found
        for key, figure in found.figures.items():
            signature = key.subject.signature
            if signature not in self.subjects.every:
                continue
            if figure.measures_nothing:
                self.nothing.add(signature)
            else:
                self.known[signature] = figure
