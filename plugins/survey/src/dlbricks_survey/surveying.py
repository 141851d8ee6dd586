"""Surveys: networks that predictors learn from, timed, and packed as reference data."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from time import perf_counter

import numpy as np
from dlbricks_prediction import Contribution, shipped
from dlbricks_prediction.from_contribution import with_pulls
from dlbricks_prediction.kernel import kernel_of
from dlbricks_prediction.survey import Drawn, is_quick
from dlbricks_prediction.training_data import contributions, whole_models

from dlbricks_core.bricks import BrickSet
from dlbricks_core.bricks.families import family_of
from dlbricks_core.bricks.naming import fold
from dlbricks_core.errors import DLBricksError, UnboundDimensionsError, or_room
from dlbricks_core.facts import Failure, Note, Question, Setup
from dlbricks_core.importers import LoadOptions, ModelCollection
from dlbricks_core.importers.lookup import expand
from dlbricks_core.importers.models import ImportSettings, ModelLoader
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.measure.cutting import Target
from dlbricks_core.measure.measuring import measure
from dlbricks_core.measure.request import Request
from dlbricks_core.plugins import Plugin, attempt, discover
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore
from dlbricks_core.wording import argument, count
from dlbricks_survey.candidates import BASE, Judged, Judges, SurveyCandidates, already_timed
from dlbricks_survey.networks import draw, weights
from dlbricks_survey.packing import extended, write
from dlbricks_survey.session_effects import session_corrected

#: Default number of runs of each network. Where runs scatter by 5%, the mean of the faster half of
#: 8 has an error of 2%, less than any predictor's. Another network therefore yields more
#: information than further runs of the same network.
RUNS = 8

_FIRST_BATCH = 40  #: Number of networks in the first batch, which shows how long others will take.

_BATCH_SHARE = 1 / 6  #: Maximum share of the budget for a batch.

#: Limits of a batch in seconds. A short one starts its worker for few networks, and a long one
#: rests on outdated errors.
_BATCH_S = (5.0, 60.0)

_SMALLEST_BATCH = 10  #: Minimum number of networks that justify the start of a worker.

#: Maximum share of the budget for loading models that the user did not name. Loaded models stay in
#: a cache, so the next survey gets further.
_LOADING_SHARE = 0.2

#: How models are cut: into single layers, and into the segments of estimates.
GRANULARITIES = ((1, "chain"), (128, "short-segments"))


@dataclass(frozen=True)
class Survey:
    """Result of a survey."""

    request: Request  #: How networks were timed.
    budget_s: float  #: Budget in seconds.
    seconds: float = 0.0  #: Duration in seconds.
    networks: int = 0  #: Number of networks with a latency in the store, of this setup and system.
    #: Number of drawn networks among them, by family.
    families: Mapping[str, int] = field(default_factory=dict)
    anew: int = 0  #: Number of networks that this survey timed.
    judged: Sequence[Judged] = ()  #: Networks that the last judgement predicted from others.
    unread: Sequence[Failure] = ()  #: Models that could not be loaded.
    failures: Sequence[Failure] = ()  #: Networks that could not be timed.
    #: Networks with an operator that the backend does not support.
    unsupported: Sequence[Failure] = ()
    warnings: Sequence[Note] = ()  #: Disturbances of the machine.


def survey(
    specs: Sequence[str],
    request: Request,
    store: ResultStore,
    observer: Observer,
    budget_s: float,
    load: LoadOptions,
    settings: ImportSettings,
    families: Collection[str] = (),
) -> Survey:
    """Times networks until the budget ends: drawn networks, and bricks of models.

    Stored measurements are not repeated, so a survey continues where an earlier or interrupted one
    ended. The first networks are the same everywhere. Later ones are drawn from families with large
    prediction errors.

    Args:
        specs: Models whose bricks are timed as well; empty for all models that collections list.
        request: How networks are measured, with a fixed number of runs.
        store: Store of the measurements.
        observer: Receives the progress, in seconds of the budget.
        budget_s: Seconds after which no batch of networks begins.
        load: How models are read.
        settings: How models are imported.
        families: Names of the families that networks are drawn from; empty for all. With some,
            only bricks of models in ``specs`` are timed as well.

    Raises:
        DLBricksError: If there is no such collection or family, or a given size or value applies to
            no model.
    """
    begin = perf_counter()
    clock = _Clock(observer, budget_s)
    observer.stage(f"Surveying {request.backend.name}", math.ceil(budget_s))
    unread: list[Failure] = []
    if specs:
        pieces = _pieces(_named(specs, load, settings, unread))
    elif families:
        pieces = []
    else:
        pieces = _pieces(_some(request.seed, load, budget_s * _LOADING_SHARE, observer))
    timed = partial(already_timed, request, store)
    candidates = SurveyCandidates(pieces, _drawn(request.seed, families), timed)
    surveyed = Survey(request, budget_s)
    failures: dict[Question, Failure] = {}
    unsupported: dict[Question, Failure] = {}
    judges = Judges(request, store)
    if candidates.drawn >= BASE:
        judges.judge()
    size: float = _FIRST_BATCH
    least_s, most_s = _BATCH_S
    while size >= _SMALLEST_BATCH:
        clock.advance()
        batch = candidates.next(int(size), judges.errors)
        if not batch:
            break
        started = perf_counter()
        outcome = measure(batch, request, store, clock)
        each_s = (perf_counter() - started) / len(batch)
        failed = _failures(batch, outcome.failures, request)
        unsupported |= {key: failed.pop(key) for key in outcome.unsupported}
        refused = {key.subject.signature for key in outcome.unsupported}
        candidates.refuse(each for each in batch if each.brick.signature in refused)
        failures |= failed
        warnings = tuple(dict.fromkeys((*surveyed.warnings, *outcome.warnings)))
        anew = surveyed.anew + len(outcome.anew & outcome.measurements.keys())
        surveyed = replace(surveyed, anew=anew, warnings=warnings)
        if candidates.drawn >= BASE:
            judges.judge()
        left_s = begin + budget_s - perf_counter()
        size = min(left_s, max(budget_s * _BATCH_SHARE, least_s), most_s) / each_s
    judges.judge(most=None)
    return replace(
        surveyed,
        seconds=perf_counter() - begin,
        networks=judges.networks,
        families=judges.families,
        judged=judges.last,
        unread=unread,
        failures=list(failures.values()),
        unsupported=list(unsupported.values()),
    )


def _drawn(seed: int, families: Collection[str]) -> Iterator[Drawn]:
    """Drawn networks of some families, or of all if none is named."""
    unknown = sorted(set(families) - weights().keys())
    if unknown:
        raise DLBricksError(
            f"no network is drawn from a family {unknown[0]!r}",
            hint=f"There are {', '.join(sorted(weights()))}.",
        )
    return (each for each in draw(seed) if not families or each.family in families)


class _Clock(Observer):
    """Reports each second that passes to another observer, and hides stages inside a batch."""

    def __init__(self, observer: Observer, most_s: float) -> None:
        self._observer = observer
        self._begin = perf_counter()
        self._told = 0
        self._most = math.ceil(most_s)

    def advance(self, what: str = "") -> None:
        """Reports the seconds since the last call."""
        passed = min(int(perf_counter() - self._begin), self._most)
        for _ in range(self._told, passed):
            self._observer.advance(what)
        self._told = max(self._told, passed)

    def note(self, text: str) -> None:
        """Passes a note on."""
        self._observer.note(text)


def _listed(observer: Observer) -> list[str]:
    found = []
    for plugin in discover("models", ModelCollection):
        names = attempt(plugin, partial(_names, plugin))
        if isinstance(names, DLBricksError):
            observer.note(f"{plugin.name}: is left out: {names.message}")
        else:
            found += [f"{plugin.name}:{name}" for name in names]
    return found


def _names(plugin: Plugin) -> list[str]:
    collection: ModelCollection = plugin.loaded()
    return list(collection.names())


def _named(
    specs: Sequence[str], load: LoadOptions, settings: ImportSettings, unread: list[Failure]
) -> Iterator[CanonicalModel]:
    with ModelLoader(load, settings) as loader:
        for name in expand(specs):
            try:
                yield loader.load_one(name)
            except DLBricksError as error:
                unread.append(Failure(name, error.message, "read"))
        if not unread:  # a model that could not be loaded may have the input or the dimension
            loader.check_options()


def _some(
    seed: int, load: LoadOptions, most_s: float, observer: Observer
) -> Iterator[CanonicalModel]:
    """Models of all collections in shuffled order, as many as can be loaded in time."""
    until, names, unsized = perf_counter() + most_s, _listed(observer), Counter[str]()
    with ModelLoader(load, ImportSettings(most_s)) as loader:
        for position in np.random.default_rng(seed).permutation(len(names)):
            if perf_counter() > until:
                break
            try:
                yield loader.load_one(names[position])
            except UnboundDimensionsError:
                unsized[names[position].partition(":")[0]] += 1
            except DLBricksError as error:
                observer.note(f"{names[position]} is left out: {error.message}")
    for collection, number in unsized.items():
        verb, have = ("is", "it has") if number == 1 else ("are", "they have")
        observer.note(
            f"{collection}: {count(number, 'model')} {verb} left out, since {have} dimensions "
            f"without a size: give sizes with {argument('dims')}"
        )


def _pieces(models: Iterable[CanonicalModel]) -> list[Target]:
    """Distinct bricks of models, without those that are too large for a survey."""
    found: dict[str, Target] = {}
    for model in models:
        group = family_of(model)
        for granularity, strategy in GRANULARITIES:
            for brick in BrickSet.of([model], granularity, strategy).bricks.values():
                if brick.signature not in found and not brick.opaque and is_quick(brick.model):
                    found[brick.signature] = Target(brick, "brick", group)
    return list(found.values())


def _failures(
    batch: Sequence[Target], reasons: Mapping[Question, str], request: Request
) -> dict[Question, Failure]:
    operators = {each.brick.signature: fold(each.brick.operators) for each in batch}
    return {
        key: Failure(
            f"{operators[key.subject.signature]} ({key.subject.signature[:8]})",
            reason,
            "measure",
            backend=request.backend.name,
        )
        for key, reason in reasons.items()
    }


@dataclass(frozen=True)
class Packed:
    """A contribution in a file."""

    path: Path  #: The file.
    contribution: Contribution


def pack(
    store: ResultStore,
    folder: Path,
    observer: Observer,
    backend: str | None = None,
    *,
    extend: bool = False,
) -> list[Packed]:
    """Writes the measurements of a store, one file for each system and setup.

    Differences between sessions are taken off.

    Args:
        store: Store of the measurements.
        folder: Folder of the files. It is created if missing; files of an earlier packing are
            replaced.
        observer: Receives a notice of each file.
        backend: Name of the backend; ``None`` for all backends.
        extend: Whether files also contain the shipped atlas's networks of the same system and
            setup.

    Raises:
        DLBricksError: If there is nothing to pack, or the folder cannot be written.
    """
    found = contributions(store, backend)
    if not found:
        of_backend = f" of {backend}" if backend else ""
        raise DLBricksError(
            f"{store.place}: the store has no measurement{of_backend} for predictions",
            hint=f"Run a survey first, or choose another store with {argument('store')}.",
        )
    observer.stage("Packing the store's measurements", len(found))
    wholes = whole_models(store, backend)
    names = Counter[str]()
    packed = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for each in found:
            name = _file_name(each)
            names[name] += 1
            again = f"-{names[name]}" if names[name] > 1 else ""
            path = folder / f"{name}{again}.npz"
            whole = _with_shipped(each) if extend else each
            kernel = kernel_of(whole.setup.backend)
            complete = with_pulls(session_corrected(whole, kernel, wholes), kernel)
            write(complete, path)
            packed.append(Packed(path, complete))
            observer.advance(path.name)
    except OSError as error:
        raise DLBricksError(
            f"{folder} cannot be written: {error.strerror or error}",
            hint=or_room(error, "Choose another folder."),
        ) from error
    return packed


def _with_shipped(contribution: Contribution) -> Contribution:
    for each in shipped(contribution.setup.backend):
        if _measured_as(each) == _measured_as(contribution):
            contribution = extended(contribution, each)
    return contribution


def _measured_as(contribution: Contribution) -> tuple[str, Setup]:
    """System and setup, without the plugin's version."""
    return contribution.system.fingerprint, replace(contribution.setup, plugin="")


def _file_name(contribution: Contribution) -> str:
    """File name from system, backend and threads. Other setups of these share the name."""
    system, setup = contribution.system, contribution.setup
    name = f"{system.microarchitecture or 'cpu'}-{system.fingerprint[:8]}"
    return f"{name}-{setup.backend}-{setup.threads}"
