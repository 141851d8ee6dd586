"""Repeats the run of a record, and compares the results."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from dlbricks_core.bricks import CutModel
from dlbricks_core.errors import DLBricksError, ModelError
from dlbricks_core.facts import LATENCY, Calibration, Failure, Machine, System
from dlbricks_core.figures.figure import interval
from dlbricks_core.figures.protocols import HOT, PROTOCOLS
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.store import ResultStore
from dlbricks_core.version import __version__
from dlbricks_core.wording import listed
from dlbricks_core.wording import settings as typed
from dlbricks_core.workflows.compare import compare
from dlbricks_core.workflows.composing import CutOptions
from dlbricks_core.workflows.elsewhere import known_setups, nearest_setup
from dlbricks_core.workflows.estimate import estimate
from dlbricks_core.workflows.evaluate import evaluate
from dlbricks_core.workflows.invocation import ModelFacts, environment_of
from dlbricks_core.workflows.loading import ImportSettings, ModelLoader, runs_code
from dlbricks_core.workflows.observer import Observer
from dlbricks_core.workflows.record import (
    Figures,
    Interval,
    Record,
    RecordedBackend,
    RecordedModel,
)
from dlbricks_core.workflows.request import Request
from dlbricks_core.workflows.results import RunResult
from dlbricks_core.workflows.run import run
from dlbricks_core.workflows.systems import find_machine, told_apart

ESTIMATE = "estimate"
"""Command that measures nothing: its repetition rests on the user's store."""

_UNSAID = frozenset({"memory"})
"""Facts of a system that vary slightly from boot to boot."""


@dataclass(frozen=True)
class Difference:
    """A difference between the record and the present state.

    Attributes:
        what: Name of the differing fact.
        then: Its value in the record.
        now: Its present value; empty if there is none.
    """

    what: str
    then: str
    now: str


@dataclass(frozen=True)
class Change:
    """Ratio of a new figure to an old one.

    Attributes:
        value: The ratio.
        low: Lower end of its 90% interval.
        high: Upper end of its 90% interval.
    """

    value: float
    low: float
    high: float

    @classmethod
    def of(
        cls, then: float | None, before: Interval | None, now: float | None, after: Interval | None
    ) -> Self | None:
        """The ratio of two independent figures; ``None`` if one of them or its interval is unknown.

        The variances of both logarithms are recovered from the ends of the intervals (Zou and
        Donner, 2008, "Construction of confidence limits about effect measures: a general approach",
        Statistics in Medicine).

        Args:
            then: The old figure.
            before: 90% interval of the old figure.
            now: The new figure.
            after: 90% interval of the new figure.
        """
        if then is None or before is None or now is None or after is None:
            return None
        if min(then, now, *before, *after) <= 0:
            return None
        ratio = now / then
        below = math.hypot(math.log(now / after[0]), math.log(before[1] / then))
        above = math.hypot(math.log(after[1] / now), math.log(then / before[0]))
        return cls(ratio, ratio * math.exp(-below), ratio * math.exp(above))

    @property
    def agrees(self) -> bool:
        """Whether both figures may be equal: the interval contains 1."""
        return self.low <= 1 <= self.high


@dataclass(frozen=True)
class Compared:
    """Results for a model on a backend, then and now.

    Attributes:
        then: Figures of the record.
        now: Figures of the repetition.
    """

    then: Figures
    now: Figures

    @property
    def estimate(self) -> Change | None:
        """Change of the estimate; ``None`` also if one estimate lacks bricks."""
        if self.then.missing or self.now.missing:
            return None
        return Change.of(
            self.then.estimate, self.then.interval, self.now.estimate, self.now.interval
        )

    @property
    def measured(self) -> Change | None:
        """Change of the figure of the whole model."""
        then, now = self.then, self.now
        return Change.of(then.measured, then.measured_interval, now.measured, now.measured_interval)


@dataclass(frozen=True)
class Rerun:
    """Results of a repetition.

    Attributes:
        record: The repeated record.
        differences: Differences between the record and the present state.
        compared: Figures then and now, in the order of the record.
        failures: Parts that could not be repeated, with the reason.
    """

    record: Record
    differences: Sequence[Difference]
    compared: Sequence[Compared]
    failures: Sequence[Failure]


@dataclass(frozen=True)
class Repetition:
    """A prepared repetition of a record.

    Attributes:
        record: The record.
        models: Models that could be loaded again.
        requests: Request for each backend of the record.
        differences: Differences between the record and the present state.
        unread: Models that could not be loaded.
    """

    record: Record
    models: Sequence[CanonicalModel]
    requests: Sequence[Request]
    differences: Sequence[Difference]
    unread: Sequence[Failure]

    @classmethod
    def of(
        cls,
        record: Record,
        folder: Path,
        store: ResultStore,
        observer: Observer,
        settings: ImportSettings | None = None,
        sources: Mapping[str, str] = MappingProxyType({}),
    ) -> Self:
        """Finds models and backends of a record, and differences from the present state.

        Args:
            record: The record.
            folder: Folder to search for model files that are not at their recorded paths.
            store: Store that an estimate rests on.
            observer: Receives the progress.
            settings: How models are imported.
            sources: Sources that the user gives for models, by the models' recorded names.

        Raises:
            DLBricksError: If no model can be loaded, a source is given for a model that is not in
                the record, or a backend no longer has an option.
            PluginError: If a backend is not installed.
        """
        requests = [_request(record, each, store) for each in record.backends]
        models, unread = _loaded(record, folder, observer, settings, sources)
        machine = _machine(record, store)
        found = [
            *_of_software(record, requests),
            *_of_system(record.system, requests[0].target),
            *_if_other("machine", record.machine, told_apart(machine) if machine else ""),
            *(each for old in record.models if old.name in models
              for each in _of_model(old, models[old.name])),
        ]  # fmt: skip
        return cls(record, list(models.values()), requests, found, unread)

    def run(self, store: ResultStore, observer: Observer) -> Rerun:
        """Repeats the run, and compares the results.

        Args:
            store: Store of the measurements; for an estimate, its basis.
            observer: Receives the progress.
        """
        results = _WAYS[self.record.command](self, store, observer)
        now = {
            (model.cut.model.name, name): _figures(name, result, position)
            for name, result in results.items()
            for position, model in enumerate(result.models)
        }
        compared = [
            Compared(then, now[then.model, then.backend])
            for then in self.record.figures
            if (then.model, then.backend) in now
        ]
        failures = [each for result in results.values() for each in result.failures]
        return Rerun(self.record, self.differences, compared, [*self.unread, *failures])

    @property
    def cut_options(self) -> CutOptions:
        """How models are cut and composed."""
        cut = self.record.cut
        return CutOptions(cut.granularity, cut.split, cut.composer)


_Results = Mapping[str, RunResult]
"""Results by backend."""


def _run(again: Repetition, store: ResultStore, observer: Observer) -> _Results:
    (request,), whole = again.requests, again.record.end_to_end
    _calibrated(again, request, store)
    found = run(again.models, again.cut_options, request, store, observer, end_to_end=whole)
    return {request.backend.name: found}


def _estimate(again: Repetition, store: ResultStore, _observer: Observer) -> _Results:
    (request,), cut = again.requests, again.record.cut
    options = None if cut.chosen == "store" else again.cut_options
    machine = _machine(again.record, store)
    store = store.within(machine) if machine else store
    found = estimate(again.models, options, request, store, cut.predictor)
    return {request.backend.name: found}


def _evaluate(again: Repetition, store: ResultStore, observer: Observer) -> _Results:
    (request,) = again.requests
    _calibrated(again, request, store)
    found = evaluate(again.models, again.cut_options, request, store, observer)
    return {request.backend.name: found.result}


def _compare(again: Repetition, store: ResultStore, observer: Observer) -> _Results:
    return compare(again.models, again.cut_options, again.requests, store, observer).runs


_WAYS: Mapping[str, Callable[[Repetition, ResultStore, Observer], _Results]] = {
    "run": _run,
    ESTIMATE: _estimate,
    "evaluate": _evaluate,
    "compare": _compare,
}
"""Function that repeats each command."""


def _calibrated(again: Repetition, request: Request, store: ResultStore) -> None:
    """Adds the record's calibration to a store without one, if the system is the same."""
    fitted, key = again.record.calibration, again.cut_options.calibration_key(request)
    same = again.record.system.fingerprint == request.fingerprint
    if fitted is not None and same and store.calibration(key) is None:
        store.keep_calibration(Calibration.from_dict(key, fitted))


def _request(record: Record, backend: RecordedBackend, store: ResultStore) -> Request:
    """The request of a record; for an estimate, with the same system and versions if known."""
    how, is_open = record.protocol, record.protocol.precision is not None
    default, is_hot = next(iter(PROTOCOLS)), how.name == HOT.name
    is_estimate = record.command == ESTIMATE
    known = known_setups(store, backend.name) if is_estimate else []
    request = Request.of(
        backend.name,
        quantity=record.quantity,
        threads=how.threads,
        protocol=how.name if record.quantity == LATENCY.name and not is_hot else default,
        condition="hot" if is_hot and not is_estimate else "cold",
        runs=None if is_open else how.runs,
        precision=how.precision,
        budget_s=how.budget_s,
        backend_options=backend.settings,
        seed=how.seed,
        timeout_s=how.timeout_s,
        force=not is_estimate,
        system=record.system if is_estimate else None,
        known=lambda: known,
    )
    there = [setup for setup, where in known if where == record.system.fingerprint]
    if not there:
        return request
    asked = replace(request.setup, version=backend.version, plugin=backend.plugin)
    return replace(request, setup=nearest_setup(asked, there), installed=None)


def _machine(record: Record, store: ResultStore) -> Machine | None:
    """The machine that an estimate was for, if it has a name and the store knows it."""
    if not record.machine:
        return None
    try:
        machine = find_machine(store, record.machine)
    except DLBricksError:
        return None
    return machine if machine.system == record.system.fingerprint else None


def _loaded(
    record: Record,
    folder: Path,
    observer: Observer,
    settings: ImportSettings | None,
    sources: Mapping[str, str],
) -> tuple[dict[str, CanonicalModel], list[Failure]]:
    """Models of a record by their recorded names, and failures of models that cannot be loaded."""
    names = {each.name for each in record.models}
    for name in sources.keys() - names:
        raise DLBricksError(
            f"the record has no model {name!r:.40}", hint=f"It has: {listed(sorted(names), 3)}."
        )
    models: dict[str, CanonicalModel] = {}
    unread = []
    observer.stage("Importing models", len(record.models))
    with ModelLoader(record.reading, settings) as loader:
        for each in record.models:
            observer.advance(each.name)
            try:
                found = loader.load_one(sources.get(each.name) or _source(each, folder))
            except DLBricksError as error:
                unread.append(Failure(each.name, error.message, "read"))
            else:
                models[each.name] = replace(found, name=each.name)
    if not models:
        reasons = dict.fromkeys(each.reason for each in unread)
        raise ModelError(
            f"no model of the record can be loaded: {'; '.join(reasons)}",
            hint="Put the files where the record says, or beside the record.",
        )
    return models, unread


def _source(model: RecordedModel, folder: Path) -> str:
    """Path of a model: the recorded one, one beside the record, or a file that was renamed.

    Raises:
        ModelError: If the source is code. A record comes from elsewhere, and runs none.
    """
    if runs_code(model.source):
        trusted = typed(sources={model.name: model.source})
        raise ModelError(f"{model.source!r:.80} is code, which no record runs; {trusted} runs it")
    recorded = Path(model.source)
    beside = folder / recorded.name
    if model.sha256 is None or recorded.exists():
        return model.source
    if beside.exists():
        return str(beside)
    return str(next(_renamed(model, (recorded.parent, folder)), model.source))


def _renamed(model: RecordedModel, folders: Iterable[Path]) -> Iterator[Path]:
    """Files with the content of a model's file, under another name in one of some folders."""
    for folder in filter(Path.is_dir, folders):
        for path in sorted(folder.glob(f"*{Path(model.source).suffix}")):
            if path.is_file() and path.stat().st_size == model.bytes:
                with path.open("rb") as file:
                    if hashlib.file_digest(file, "sha256").hexdigest() == model.sha256:
                        yield path


def _of_software(record: Record, requests: Sequence[Request]) -> Iterator[Difference]:
    """Differences in versions, options and environment variables."""
    yield from _if_other("DLBricks", record.version, __version__)
    yield from _if_other("protocol", record.protocol.identity, _identity(requests[0]))
    for old, request in zip(record.backends, requests, strict=True):
        name, setup = old.name, request.setup
        yield from _if_other(name, old.version, setup.version)
        yield from _if_other(f"plugin {name}", old.plugin, setup.plugin)
        yield from _by_name(f"{name}, option", old.settings, request.settings.options)
        if record.command != ESTIMATE:
            yield from _by_name(f"{name}, variable", old.environment, environment_of(request))


def _identity(request: Request) -> str:
    """Identity of the protocol by which whole models run, or bricks alone."""
    return (request.hot if request.condition == "hot" else request).setup.protocol


def _of_system(then: System, now: System) -> Iterator[Difference]:
    """Differences between systems."""
    for each in fields(System):
        if each.name not in _UNSAID:
            old, new = (_told(getattr(system, each.name)) for system in (then, now))
            yield from _if_other(f"system, {each.name.replace('_', ' ')}", old, new)


def _of_model(then: RecordedModel, now: CanonicalModel) -> Iterator[Difference]:
    """Difference of a model: in its structure, or else only in its file."""
    structure = CutModel(now, (), now).whole.signature
    yield from _if_other(f"{then.name}, structure", then.structure, structure)
    if then.sha256 is not None:
        found = ModelFacts.of(now).sha256
        yield from _if_other(f"{then.name}, hash of the file", then.sha256, found)


def _by_name(what: str, then: Mapping[str, str], now: Mapping[str, str]) -> Iterator[Difference]:
    for name in sorted({*then, *now}):
        yield from _if_other(f"{what} {name}", then.get(name, ""), now.get(name, ""))


def _if_other(what: str, then: str, now: str) -> Iterator[Difference]:
    if then != now:
        yield Difference(what, then, now)


def _told(fact: Any) -> str:
    """A fact about a system as text."""
    if isinstance(fact, tuple):
        return ", ".join(map(str, fact))
    return "" if fact is None else str(fact)


def _figures(backend: str, result: RunResult, position: int) -> Figures:
    """Figures of a model, in the unit of the quantity."""
    model = result.models[position]
    return Figures(
        model=model.cut.model.name,
        backend=backend,
        estimate=model.estimate.value,
        interval=model.estimate.interval,
        measured=model.measured.value if model.measured else None,
        measured_interval=interval(model.measured.replicates) if model.measured else None,
        missing=len(model.missing),
    )
