"""Records that are repeated, and their figures then and now."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Self, TypedDict

from dlbricks_accuracy.evaluation import evaluate
from dlbricks_accuracy.side_by_side import run_side_by_side

from dlbricks_core.bricks import CutModel
from dlbricks_core.commands.options.invocation import ModelFacts
from dlbricks_core.commands.options.systems import find_machine
from dlbricks_core.compose.options import CutOptions
from dlbricks_core.errors import DLBricksError, ModelError
from dlbricks_core.estimation.results import RunResult
from dlbricks_core.estimation.run import run
from dlbricks_core.estimation.without_runs import estimate
from dlbricks_core.facts import LATENCY, Calibration, Failure, Machine
from dlbricks_core.figures.protocols import HOT, PROTOCOLS
from dlbricks_core.importers.lookup import runs_code
from dlbricks_core.importers.models import ImportSettings, ModelLoader
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.measure.known_setups import known_setups, nearest_setup
from dlbricks_core.measure.request import Request
from dlbricks_core.progress import Observer
from dlbricks_core.report.data import (
    SCHEMA_VERSION,
    ListedFailuresData,
    environment_of,
    failures_data,
    plain,
)
from dlbricks_core.report.remarks import print_failures
from dlbricks_core.report.tables import Console, styled, table, value_text
from dlbricks_core.store import ResultStore
from dlbricks_core.version import __version__
from dlbricks_core.wording import count, listed
from dlbricks_core.wording import settings as typed
from dlbricks_records import comparison, json_records
from dlbricks_records.record import Record


class ResultsRepeatData(ListedFailuresData):
    """Output of ``dlbricks results repeat``."""

    record: json_records.ResultsRecordData  #: The command.
    differences: list[comparison.RecordedDifference]  #: Differences.
    models: list[RepeatedModelData]  #: Figures then and now, in the order of the record.
    #: Whether all figures may be the same as then; null if there are none to compare.
    agree: bool | None


class RepeatedModelData(TypedDict):
    """A model on a backend, then and now."""

    name: str  #: Name of the model.
    backend: str  #: Name of the backend.
    then: json_records.RecordedFigures  #: Figures of the record.
    now: json_records.RecordedFigures  #: Figures of now.
    #: Estimate now over then; null if one is missing or lacks bricks.
    estimate_ratio: comparison.FigureChangeData | None
    #: Figure of the whole model now over then; null if one is missing.
    measured_ratio: comparison.FigureChangeData | None


@dataclass(frozen=True)
class Rerun:
    """Results of a repetition."""

    record: Record  #: The repeated record.
    #: Differences between the record and the present state.
    differences: Sequence[comparison.RecordedDifference]
    compared: Sequence[comparison.ThenAndNow]  #: Figures then and now, in the order of the record.
    failures: Sequence[Failure]  #: Parts that could not be repeated, with the reason.


@dataclass(frozen=True)
class PreparedRepetition:
    """A prepared repetition of a record."""

    record: Record
    models: Sequence[CanonicalModel]  #: Models that could be loaded again.
    requests: Sequence[Request]  #: Request for each backend of the record.
    #: Differences between the record and the present state.
    differences: Sequence[comparison.RecordedDifference]
    unread: Sequence[Failure]  #: Models that could not be loaded.

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
            *comparison.of_system(record.system, requests[0].target),
            *comparison.if_other("machine", record.machine, machine.told_apart if machine else ""),
        ]
        for old in record.models:
            if old.name in models:
                found += _of_model(old, models[old.name])
        return cls(record, list(models.values()), requests, found, unread)

    def run(self, store: ResultStore, observer: Observer) -> Rerun:
        """Repeats the run, and compares the results."""
        results = _WAYS[self.record.command, self.record.measures](self, store, observer)
        now = {
            (model.cut.model.name, name): _figures(name, result, position)
            for name, result in results.items()
            for position, model in enumerate(result.models)
        }
        compared = [
            comparison.ThenAndNow(then, now[then.model, then.backend])
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


_Results = Mapping[str, RunResult]  #: Results by backend.


def _run(again: PreparedRepetition, store: ResultStore, observer: Observer) -> _Results:
    (request,), whole = again.requests, again.record.end_to_end
    _calibrated(again, request, store)
    found = run(again.models, again.cut_options, request, store, observer, end_to_end=whole)
    return {request.backend.name: found}


def _estimate(again: PreparedRepetition, store: ResultStore, _observer: Observer) -> _Results:
    (request,), cut = again.requests, again.record.cut
    options = None if cut.chosen == "store" else again.cut_options
    machine = _machine(again.record, store)
    store = store.within(machine) if machine else store
    found = estimate(again.models, options, request, store, cut.predictor)
    return {request.backend.name: found}


def _evaluate(again: PreparedRepetition, store: ResultStore, observer: Observer) -> _Results:
    (request,) = again.requests
    _calibrated(again, request, store)
    found = evaluate(again.models, again.cut_options, request, store, observer)
    return {request.backend.name: found.result}


def _compare(again: PreparedRepetition, store: ResultStore, observer: Observer) -> _Results:
    return run_side_by_side(again.models, again.cut_options, again.requests, store, observer)


#: Function that repeats each command, by its name and whether bricks ran.
_WAYS: Mapping[
    tuple[str, bool], Callable[[PreparedRepetition, ResultStore, Observer], _Results]
] = {
    ("estimate", True): _run,
    ("estimate", False): _estimate,
    ("check", True): _evaluate,
    ("compare", True): _compare,
}


def _calibrated(again: PreparedRepetition, request: Request, store: ResultStore) -> None:
    """Adds the record's calibration to a store without one, if the system is the same."""
    fitted, key = again.record.cut.calibration, request.calibration_key(again.cut_options)
    same = again.record.system.fingerprint == request.fingerprint
    if fitted is not None and same and store.calibration(key) is None:
        store.keep_calibration(Calibration.from_dict(key, fitted))


def _request(record: Record, backend: json_records.RecordedBackend, store: ResultStore) -> Request:
    """The request of a record; for an estimate, with the same system and versions if known."""
    how, is_open = record.protocol, record.protocol.precision is not None
    default, is_hot = next(iter(PROTOCOLS)), how.name == HOT.name
    is_estimate = not record.measures
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
            hint="Put the files at the paths in the record, or beside the record.",
        )
    return models, unread


def _source(model: json_records.RecordedModel, folder: Path) -> str:
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


def _renamed(model: json_records.RecordedModel, folders: Iterable[Path]) -> Iterator[Path]:
    """Files with the content of a model's file, under another name in one of some folders."""
    for folder in filter(Path.is_dir, folders):
        for path in sorted(folder.glob(f"*{Path(model.source).suffix}")):
            if path.is_file() and path.stat().st_size == model.bytes:
                with path.open("rb") as file:
                    if hashlib.file_digest(file, "sha256").hexdigest() == model.sha256:
                        yield path


def _of_software(
    record: Record, requests: Sequence[Request]
) -> Iterator[comparison.RecordedDifference]:
    yield from comparison.if_other("DLBricks", record.version, __version__)
    first = requests[0]
    protocol = (first.hot if first.condition == "hot" else first).setup.protocol
    yield from comparison.if_other("protocol", record.protocol.identity, protocol)
    for old, request in zip(record.backends, requests, strict=True):
        name, setup = old.name, request.setup
        yield from comparison.if_other(name, old.version, setup.version)
        yield from comparison.if_other(f"plugin {name}", old.plugin, setup.plugin)
        yield from comparison.by_name(f"{name}, option", old.settings, request.settings.options)
        if record.measures:
            yield from comparison.by_name(
                f"{name}, variable", old.environment, environment_of(request)
            )


def _of_model(
    then: json_records.RecordedModel, now: CanonicalModel
) -> Iterator[comparison.RecordedDifference]:
    """Difference of a model: in its structure, or else only in its file."""
    structure = CutModel(now, (), now).whole.signature
    yield from comparison.if_other(f"{then.name}, structure", then.structure, structure)
    if then.sha256 is not None:
        found = ModelFacts.of(now).sha256
        yield from comparison.if_other(f"{then.name}, hash of the file", then.sha256, found)


def _figures(backend: str, result: RunResult, position: int) -> json_records.RecordedFigures:
    model = result.models[position]
    return json_records.RecordedFigures(
        model=model.cut.model.name,
        backend=backend,
        estimate=model.estimate.value,
        interval=model.estimate.interval,
        measured=model.measured.value if model.measured else None,
        measured_interval=model.measured.interval if model.measured else None,
        missing=len(model.missing),
    )


def print_differences(console: Console, again: PreparedRepetition) -> None:
    """Prints the differences from the record, before anything runs."""
    record = again.record
    when = record.written_at.partition("T")[0]
    what = f"{record.command} of {count(len(record.models), 'model')}, as recorded on {when}"
    if not again.differences:
        console.print(styled((f"Again: {what}. All recorded facts are the same now.", "bold")))
        return
    console.print(styled((f"Again: {what}. Not the same now:", "bold")))
    for each in again.differences:
        console.print(styled(("Differs:", "yellow"), f" {comparison.difference_text(each)}"))


def print_rerun(console: Console, rerun: Rerun) -> None:
    """Prints each figure then and now, with the ratio and its interval."""
    several = len(rerun.record.backends) > 1
    columns = ["Model", *(["Backend"] if several else []), "Figure"]
    shown = table(*columns, "Then", "Now", "Now/then", "90% interval", left=len(columns))
    for each in rerun.compared:
        names = [each.then.model, *([each.then.backend] if several else [])]
        for figure, then, now, change in _rows(each):
            shown.add_row(
                *names, figure, value_text(then), value_text(now), *comparison.ratio_cells(change)
            )
            names = ["" for _ in names]
    console.print(shown)
    console.print(f"In {rerun.record.unit}. Intervals include the scatter of both times.")
    changes = [change for each in rerun.compared for *_, change in _rows(each) if change]
    agreeing = sum(change.agrees for change in changes)
    if changes:
        text = f"{agreeing} of {count(len(changes), 'figure')} may be the same as then."
        console.print(styled((text, "bold")))
    if agreeing < len(changes):
        console.print("The others differ by more than samples scatter; machines drift, too.")
    print_failures(console, rerun.failures)


def rerun_data(rerun: Rerun) -> ResultsRepeatData:
    """A repeated run as a JSON object for scripts."""
    changes = [c for pair in rerun.compared for c in (pair.estimate, pair.measured) if c]
    return {
        "schema_version": SCHEMA_VERSION,
        "record": rerun.record.to_dict(),
        "differences": [plain(each) for each in rerun.differences],
        "models": [_compared(each) for each in rerun.compared],
        "agree": all(each.agrees for each in changes) if changes else None,
        "failures": failures_data(rerun.failures),
    }


def _compared(each: comparison.ThenAndNow) -> RepeatedModelData:
    return {
        "name": each.then.model,
        "backend": each.then.backend,
        "then": plain(each.then),
        "now": plain(each.now),
        "estimate_ratio": _change(each.estimate),
        "measured_ratio": _change(each.measured),
    }


def _change(change: comparison.Change | None) -> comparison.FigureChangeData | None:
    if change is None:
        return None
    return {"value": change.value, "interval": (change.low, change.high), "agrees": change.agrees}


_Row = tuple[str, float | None, float | None, comparison.Change | None]


def _rows(each: comparison.ThenAndNow) -> list[_Row]:
    """Name, old value, new value and ratio of each old or new figure."""
    then, now = each.then, each.now
    rows: list[_Row] = [
        ("estimate", then.estimate, now.estimate, each.estimate),
        ("measured", then.measured, now.measured, each.measured),
    ]
    return [row for row in rows if (row[1], row[2]) != (None, None)]
