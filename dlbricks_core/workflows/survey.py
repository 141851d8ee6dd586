"""Surveys: networks that are timed so that a predictor knows this system."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from time import perf_counter
from zlib import crc32

import numpy as np

from dlbricks_core.bricks import BrickSet
from dlbricks_core.errors import DLBricksError
from dlbricks_core.facts import Failure, Question
from dlbricks_core.figures.figure import RESAMPLES, interval, relative_half_width
from dlbricks_core.importers import ModelCollection
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.plugins import Plugin, attempt, discover
from dlbricks_core.predict import Contribution
from dlbricks_core.predict.from_atlas import believed
from dlbricks_core.store import ResultStore
from dlbricks_core.survey import Drawn, draw, is_quick, weights
from dlbricks_core.wording import argument
from dlbricks_core.workflows.knowledge import SURVEYED, contributions, family_of, remember
from dlbricks_core.workflows.loading import ModelLoader, expand
from dlbricks_core.workflows.measuring import Target, measure
from dlbricks_core.workflows.observer import Observer
from dlbricks_core.workflows.request import Request

RUNS = 8
"""Runs of each network. The mean of the faster half of 8 is off by 2% where runs scatter by 5%,
which is less than any predictor errs: more runs of one network tell less than another network."""

BASE = 400
"""Networks that are drawn whatever the predictor errs by. Of all but the rarest families, that is
about ten or more, from which an error can be told."""

_FIRST_BATCH = 40
"""Networks of the first batch, which tells how long others will take."""

_BATCH_SHARE = 1 / 6
_BATCH_S = (5.0, 60.0)
"""Share of the budget that a batch may take, and limits of that in seconds. A short batch starts
its worker for few networks, and a long one rests on errors that are no longer true."""

_SMALLEST_BATCH = 10
"""Networks for which it is worth while to start a worker."""

_LOADING_SHARE = 0.2
"""Most of the budget that loading models takes. What is loaded once comes from a cache, so that
the next survey comes further."""

_POOL = 3000
"""Drawn networks among which a batch is chosen, beyond those that are timed already."""

_FOLDS = 5
"""Parts into which networks are divided: each part is predicted from the other ones."""

_FEWEST_JUDGED = 10
"""Networks that tell how wide predictions are."""

_PRIOR = 5.0
"""Networks whose weight the error of all families has in that of each."""

_GRANULARITIES = ((1, "chain"), (128, "short-segments"))
"""How models are cut: into single layers, and into segments as they are estimated from."""


@dataclass(frozen=True)
class Judged:
    """A network whose latency was predicted from others.

    Attributes:
        family: Family that it was drawn from.
        error: Logarithm of predicted over measured latency.
        half_width: Half-width of the 90% interval, relative to its middle.
        covered: Whether the interval holds the measured latency.
    """

    family: str
    error: float
    half_width: float
    covered: bool


@dataclass(frozen=True)
class Survey:
    """Result of a survey.

    Attributes:
        request: How networks were timed.
        budget_s: Seconds that it was to take.
        seconds: Seconds that it took.
        networks: Networks with a latency that the store holds now, of this setup and system.
        families: Number of those that were drawn, by family.
        anew: Networks that this survey timed.
        judged: Networks that were predicted from others, those of the last judgement.
        unread: Models that could not be loaded.
        failures: Networks that could not be timed.
        warnings: Disturbances of the machine.
    """

    request: Request
    budget_s: float
    seconds: float = 0.0
    networks: int = 0
    families: Mapping[str, int] = field(default_factory=dict)
    anew: int = 0
    judged: Sequence[Judged] = ()
    unread: Sequence[Failure] = ()
    failures: Sequence[Failure] = ()
    warnings: Sequence[str] = ()


def survey(
    specs: Sequence[str],
    request: Request,
    store: ResultStore,
    observer: Observer,
    budget_s: float,
) -> Survey:
    """Times networks until the budget ends: drawn ones, and bricks of models.

    What the store holds is not timed again, so that a survey goes on where an earlier one, or an
    interrupted one, ended. The first networks are the same everywhere; those after them are drawn
    where predictions err.

    Args:
        specs: Models whose bricks are timed as well; none for all that collections list.
        request: How to measure, with a fixed number of runs.
        store: Where measurements are kept.
        observer: Hears of progress, in seconds of the budget.
        budget_s: Seconds after which no batch of networks begins.

    Raises:
        DLBricksError: If there is no model or collection of such a name.
    """
    begin = perf_counter()
    clock = _Clock(observer, budget_s)
    observer.stage(f"Surveying {request.backend.name}", math.ceil(budget_s))
    named = expand(specs) if specs else _listed(observer)
    unread: list[Failure] = []
    loaded = _loaded(named, begin + budget_s * _LOADING_SHARE, unread, request.seed)
    timed = partial(_timed, request, store)
    candidates = _Candidates(_pieces(loaded), draw(request.seed), timed)
    surveyed = Survey(request, budget_s)
    failures: dict[Question, Failure] = {}
    judges = _Judges(request, store)
    if candidates.drawn >= BASE:
        judges.judge()
    size: float = _FIRST_BATCH
    while size >= _SMALLEST_BATCH:
        clock.advance()
        batch = candidates.next(int(size), judges.errors)
        started = perf_counter()
        outcome = measure(batch, request, store, clock)
        each_s = (perf_counter() - started) / len(batch)
        failures |= _failures(batch, outcome.failures, request)
        warnings = tuple(dict.fromkeys((*surveyed.warnings, *outcome.warnings)))
        surveyed = replace(surveyed, anew=surveyed.anew + outcome.measured, warnings=warnings)
        if candidates.drawn >= BASE:
            judges.judge()
        left_s = begin + budget_s - perf_counter()
        size = min(left_s, _batch_s(budget_s)) / each_s
    judges.judge()
    return replace(
        surveyed,
        seconds=perf_counter() - begin,
        networks=judges.networks,
        families=judges.families,
        judged=judges.last,
        unread=unread,
        failures=list(failures.values()),
    )


@dataclass(frozen=True)
class Packed:
    """A contribution that was written.

    Attributes:
        path: The file.
        contribution: What it holds.
    """

    path: Path
    contribution: Contribution


def pack(store: ResultStore, folder: Path, backend: str | None = None) -> list[Packed]:
    """Writes what a store knows, a file for each system and setup.

    Args:
        store: Store of the measurements.
        folder: Made if it is not there; files of an earlier packing are replaced.
        backend: Name of the backend; ``None`` for every one.

    Raises:
        DLBricksError: If there is nothing to pack, or the folder cannot be written.
    """
    found = contributions(store, backend)
    if not found:
        of_backend = f" of {backend}" if backend else ""
        raise DLBricksError(
            f"{store.path}: the store holds nothing{of_backend} that a predictor can learn from",
            hint=f"Run a survey first, or choose another store with {argument('store')}.",
        )
    names = Counter[str]()
    packed = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for each in found:
            name = _file_name(each)
            names[name] += 1
            again = f"-{names[name]}" if names[name] > 1 else ""
            path = folder / f"{name}{again}.npz"
            each.write(path)
            packed.append(Packed(path, each))
    except OSError as error:
        raise DLBricksError(
            f"{folder} cannot be written: {error.strerror or error}", hint="Choose another folder."
        ) from error
    return packed


def _file_name(contribution: Contribution) -> str:
    """System, backend and threads. Other setups of these have the same name."""
    system, setup = contribution.system, contribution.setup
    name = f"{system.microarchitecture or 'cpu'}-{system.fingerprint[:8]}"
    return f"{name}-{setup.backend}-{setup.threads}"


def _batch_s(budget_s: float) -> float:
    """Seconds that a batch may take."""
    least, most = _BATCH_S
    return min(max(budget_s * _BATCH_SHARE, least), most)


class _Clock(Observer):
    """Tells another observer of each second that passes; stages within are its own matter."""

    def __init__(self, observer: Observer, most_s: float) -> None:
        self._observer = observer
        self._begin = perf_counter()
        self._told = 0
        self._most = math.ceil(most_s)

    def advance(self, what: str = "") -> None:
        """Passes on the seconds since it was called last."""
        passed = min(int(perf_counter() - self._begin), self._most)
        for _ in range(self._told, passed):
            self._observer.advance(what)
        self._told = max(self._told, passed)

    def note(self, text: str) -> None:
        """Passes it on."""
        self._observer.note(text)


def _listed(observer: Observer) -> list[str]:
    """Names of the models of all collections that list theirs."""
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


def _loaded(
    named: Sequence[str], until: float, unread: list[Failure], seed: int
) -> Iterator[CanonicalModel]:
    """Models, in an order that mixes collections, as many as can be loaded in time.

    Args:
        named: The user's names of the models.
        until: Time after which no further model is loaded.
        unread: Takes up those that cannot be loaded.
        seed: Seed of the order.
    """
    order = np.random.default_rng(seed).permutation(len(named))
    with ModelLoader() as loader:
        for position in order:
            if perf_counter() > until:
                return
            try:
                yield loader.load_one(named[position])
            except DLBricksError as error:
                unread.append(Failure(named[position], error.message, "read"))


def _pieces(models: Iterable[CanonicalModel]) -> list[Target]:
    """Bricks of models, each once, without those that are too large for a survey."""
    found: dict[str, Target] = {}
    for model in models:
        group = family_of(model)
        for granularity, strategy in _GRANULARITIES:
            for brick in BrickSet.of([model], granularity, strategy).bricks.values():
                if brick.signature not in found and not brick.opaque and is_quick(brick.model):
                    found[brick.signature] = Target(brick, "brick", group)
    return list(found.values())


def _timed(request: Request, store: ResultStore, targets: Sequence[Target]) -> frozenset[str]:
    """Signatures of the targets that are timed already, or have failed.

    Their features are kept: older versions of DLBricks did not, or kept others.
    """
    bricks = {each.brick.signature: each.brick for each in targets}
    found = store.get([request.key(signature, "brick") for signature in bricks])
    timed = frozenset(
        key.subject.signature
        for key, measurement in found.items()
        if measurement.failure or len(measurement.values) >= request.runs
    )
    groups = {each.brick.signature: [each.group] for each in targets}
    remember(store, {signature: bricks[signature] for signature in timed}, groups)
    return timed


def _target(drawn: Drawn) -> Target:
    return Target(drawn.brick, "brick", f"{SURVEYED}{drawn.family}")


class _Candidates:
    """Networks that may be timed next.

    Args:
        pieces: Bricks of models.
        drawn: Networks without end.
        timed: Tells which of some networks are timed already, by their signatures.

    Attributes:
        drawn: Number of drawn networks that were given away, or are timed already.
    """

    def __init__(
        self,
        pieces: Sequence[Target],
        drawn: Iterator[Drawn],
        timed: Callable[[Sequence[Target]], Collection[str]],
    ) -> None:
        known = timed(pieces)
        self._pieces = [each for each in pieces if each.brick.signature not in known]
        # Mixed, so that those which come first are a fair sample of all models.
        order = np.random.default_rng(0).permutation(len(self._pieces))
        self._pieces = [self._pieces[i] for i in order]
        self._stream = map(_target, drawn)
        self._timed = timed
        self._pool: dict[str, Target] = {}
        self.drawn = 0
        self._fill(BASE)

    def _fill(self, count: int) -> None:
        """Draws networks until so many are in the pool or were in it."""
        while len(self._pool) + self.drawn < count:
            more = list(islice(self._stream, BASE))
            known = self._timed(more)
            self.drawn += len(known)
            for each in more:
                if each.brick.signature not in known:
                    self._pool[each.brick.signature] = each

    def next(self, size: int, errors: Mapping[str, float]) -> list[Target]:
        """Takes networks from the candidates: half of them bricks of models, while there are any.

        Args:
            size: Number of networks.
            errors: Relative error of each family's predictions; empty if they are not known.
        """
        found, self._pieces = self._pieces[: size // 2], self._pieces[size // 2 :]
        wanted = size - len(found)
        base = max(BASE - self.drawn, 0)
        if base < wanted:
            self._fill(_POOL + self.drawn)
        chosen = list(islice(self._pool, base))[:wanted]
        chosen += self._by_error(wanted - len(chosen), errors, set(chosen))
        self.drawn += len(chosen)
        return [*found, *map(self._pool.pop, chosen)]

    def _by_error(
        self, wanted: int, errors: Mapping[str, float], without: Collection[str]
    ) -> list[str]:
        """Signatures of networks: those of each family in proportion to its share and its error.

        Of all ways to divide a number of samples among strata, this is the one after which the
        error of their weighted sum is least (Neyman, Journal of the Royal Statistical Society 97,
        1934).
        """
        shares, ranks = weights(), Counter[str]()
        places: dict[str, float] = {}
        for signature, target in self._pool.items():
            if signature not in without:
                family = _family(target.group)
                score = shares[family] * errors.get(family, errors.get("", 1.0))
                places[signature] = (ranks[family] + 0.5) / score
                ranks[family] += 1
        return sorted(places, key=places.__getitem__)[:wanted]


class _Judges:
    """Tells how far predictions err: drawn networks are predicted from all others.

    Attributes:
        networks: Number of networks with a latency.
        families: Number of those that were drawn, by family.
        last: Networks of the last judgement.
    """

    def __init__(self, request: Request, store: ResultStore) -> None:
        self._request = request
        self._store = store
        self._found: dict[str, Judged] = {}
        self._fold = 0
        self.networks = 0
        self.families: Mapping[str, int] = {}
        self.last: Sequence[Judged] = ()

    @property
    def errors(self) -> Mapping[str, float]:
        """Root mean square of the errors of each family, and of all under the empty name.

        That of a family of few networks is drawn to that of all.
        """
        squares: defaultdict[str, list[float]] = defaultdict(list)
        for each in self._found.values():
            squares[each.family].append(each.error**2)
        if not squares:
            return {}
        mean = float(np.mean([one for each in squares.values() for one in each]))
        found = {
            family: (sum(each) + _PRIOR * mean) / (len(each) + _PRIOR)
            for family, each in squares.items()
        }
        return {family: math.sqrt(square) for family, square in {**found, "": mean}.items()}

    def judge(self) -> None:
        """Predicts a part of the networks from the others; another part each time."""
        mine = self._mine()
        if mine is None:
            return
        self.networks = len(mine)
        families = [_family(group) for group in mine.groups]
        self.families = Counter(family for family in families if family)
        chosen = [
            i
            for i, signature in enumerate(mine.signatures)
            if families[i] and crc32(signature.encode()) % _FOLDS == self._fold
        ]
        self._fold = (self._fold + 1) % _FOLDS
        if len(chosen) < _FEWEST_JUDGED:
            return
        judged = _judged(mine, chosen)
        self.last = list(judged.values())
        self._found |= judged

    def _mine(self) -> Contribution | None:
        """What the store holds of this system and setup."""
        setup, system = self._request.setup, self._request.fingerprint
        for each in contributions(self._store, setup.backend):
            alike = replace(each.setup, plugin=setup.plugin) == setup
            if alike and each.system.fingerprint == system:
                return each
        return None


def _family(group: str) -> str:
    """Family that a network was drawn from; empty for one that was not drawn."""
    drawn = (name for name in group.split(",") if name.startswith(SURVEYED))
    return next(drawn, "").removeprefix(SURVEYED)


def _judged(contribution: Contribution, chosen: Sequence[int]) -> dict[str, Judged]:
    """Some networks of a contribution, predicted from the other ones."""
    asked = contribution.only(chosen)
    among = set(chosen)
    rest = contribution.only([i for i in range(len(contribution)) if i not in among])
    belief = believed(asked.features, contribution.setup, contribution.system, [rest])
    draws = np.exp(belief.draws(RESAMPLES)) @ asked.counts.T.toarray() + asked.call_ms
    found = {}
    for i, signature in enumerate(asked.signatures):
        low, high = interval(draws[:, i])
        found[signature] = Judged(
            _family(asked.groups[i]),
            float(np.log(draws[:, i].mean()) - asked.log_ms[i]),
            relative_half_width((low, high)),
            low <= math.exp(asked.log_ms[i]) <= high,
        )
    return found


def _failures(
    batch: Sequence[Target], reasons: Mapping[Question, str], request: Request
) -> dict[Question, Failure]:
    """Networks of a batch that could not be timed."""
    operators = {each.brick.signature: ", ".join(each.brick.operators) for each in batch}
    return {
        key: Failure(
            f"{operators[key.subject.signature]} ({key.subject.signature[:8]})",
            reason,
            "measure",
            backend=request.backend.name,
        )
        for key, reason in reasons.items()
    }
