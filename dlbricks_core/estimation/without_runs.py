"""Estimates without runs: from the store, and from a predictor for figures that it lacks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Self

from dlbricks_core.compose.options import (
    DEFAULT_COMPOSER,
    LEARNED_COMPOSER,
    PAPER_COMPOSER,
    CutOptions,
)
from dlbricks_core.errors import DLBricksError, UnknownPluginError
from dlbricks_core.estimation.assemble import assemble, joined
from dlbricks_core.estimation.defaults import REGRESSION
from dlbricks_core.estimation.predicted import with_predictions
from dlbricks_core.estimation.results import QuantityPredictor, RunResult
from dlbricks_core.facts import Measurement, Note, Question
from dlbricks_core.facts.note import note
from dlbricks_core.figures.protocols import FEWEST_QUIET
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.measure.cutting import Cutting, cut_models, run_targets
from dlbricks_core.measure.ledger import Ledger, Networks
from dlbricks_core.measure.request import Request
from dlbricks_core.measure.rewrites import kept_rewrites
from dlbricks_core.measure.schedule import shortfalls
from dlbricks_core.plugins import find, names, use
from dlbricks_core.predict.defaults import PREDICTOR
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore
from dlbricks_core.wording import argument, clone_install

NO_PREDICTOR = "none"
"""Name with which users choose no predictor."""

_SEVERAL = 2
"""Minimum number of machines with one fingerprint for a note that names them."""

_MOST = 0.5
"""Minimum share of a model's bricks in the store for the default composer. With fewer bricks, a
predictor is more accurate, because it uses all measurements.
"""


def estimate(
    models: Sequence[CanonicalModel],
    cut_options: CutOptions | None,
    request: Request,
    store: ResultStore,
    predictor: str | None = None,
) -> RunResult:
    """Estimates models from known figures. Runs nothing, and starts no framework.

    The graph that the backend makes of a model on the requested system is cut, if the store has it.
    Otherwise the model itself is cut.

    Args:
        models: Models in canonical form.
        cut_options: How to cut and compose. ``None`` selects the composer whose bricks are in the
            store: the default composer, or the paper's (``bench`` times its bricks). The predictor
            handles models with neither.
        request: The measurements to use, and their system.
        store: Store of the measurements.
        predictor: Name of the predictor for bricks that are not in the store. Without a predictor,
            these bricks are missing.

    Raises:
        DLBricksError: If the predictor is not for the quantity.
        PluginError: If there is no such predictor, or it fails.
    """
    if store.only is not None:
        request = replace(request, machine=store.only.told_apart)
    if predictor is not None and request.metric and predictor != REGRESSION:
        raise DLBricksError(
            f"the predictor {predictor} gives latencies, not {request.quantity.name}",
            hint=f"Leave {argument('predictor')} out, or choose {REGRESSION} or {NO_PREDICTOR}.",
        )
    if cut_options is None and request.metric:
        cut_options = CutOptions.chosen(None, None, None, quantity=request.quantity.name)
    if cut_options is not None:
        way = _Way.of(models, cut_options, request, store)
        result = _predicted(way.result(), predictor, store)
    elif predictor is None:
        result = _held(models, request, store)
    else:
        result = _known_best(models, request, store, predictor)
    answers = any(model.configuration for model in models)
    notes = *_needs(result), *_versions(request, answers), *_machines(request, store)
    return result.noting(*notes)


def _known_best(
    models: Sequence[CanonicalModel], request: Request, store: ResultStore, predictor: str
) -> RunResult:
    """Estimates from stored runs of whole models, and from bricks for models without a run."""
    if (request.hot.setup, request.fingerprint) not in store.setups(request.setup.backend):
        return _nearest(models, request, store, predictor)
    # Where nothing ran, estimates start faster without this code.
    from dlbricks_core.estimation.run import recalled

    positions, of_runs = recalled(models, request, store, predictor)
    rest = tuple(i for i in range(len(models)) if i not in positions)
    if of_runs is None:
        return _nearest(models, request, store, predictor)
    if not rest:
        return of_runs
    others = _nearest([models[i] for i in rest], request, store, predictor)
    return joined({tuple(positions): of_runs, rest: others})


def _versions(request: Request, answers: bool) -> Iterator[Note]:
    """Notes on versions that differ from the installed versions.

    Args:
        request: The measurements to use.
        answers: Whether a model is a language model, whose layers depend on the plugin.
    """
    name, setup, here = request.backend.name, request.setup, request.installed
    if request.plugin.problem:
        yield note("backend-absent", backend=name)
        if answers:
            yield note("form-unknown", backend=name)
    elif here and here.version != setup.version:
        yield note("version-differs", backend=name, measured=setup.version, installed=here.version)
    elif here:
        yield note("plugin-differs", plugin=name, measured=setup.plugin, installed=here.plugin)


def _machines(request: Request, store: ResultStore) -> Iterator[Note]:
    """A note on the measured machines, if several machines share the fingerprint."""
    equal = [each for each in store.machines() if each.system == request.fingerprint]
    if len(equal) < _SEVERAL:
        return
    only = store.only
    if only is None or only.alone:
        yield note("machines-together", machines=[each.reference for each in equal])
    else:
        fingerprint = request.fingerprint[:8]
        yield note("machine-alone", machine=only.reference, fingerprint=fingerprint)


def _needs(result: RunResult) -> Iterator[Note]:
    """A note on the measurements that estimates for another system lack."""
    request = result.request
    known = {
        each.brick.signature
        for each in result.bricks
        if each.origin is not None and each.origin != "predicted"
    }
    new = [
        each.cut.model.name
        for each in result.models
        if each.measured is None and known.isdisjoint(each.cut.counts)
    ]
    if new and (request.elsewhere or request.machine or request.plugin.problem):
        yield note(
            "never-measured",
            quantity=request.quantity.name,
            models=new,
            backend=request.backend.name,
            system=request.machine or request.fingerprint[:8],
            observed=request.metric is not None,
        )


@dataclass(frozen=True)
class _Way:
    """One way to cut models, with the stored measurements for it.

    Attributes:
        request: The measurements to use.
        cutting: The models, cut.
        ledger: Measurements and failures in the store.
    """

    request: Request
    cutting: Cutting
    ledger: Ledger

    @classmethod
    def of(
        cls,
        models: Sequence[CanonicalModel],
        options: CutOptions,
        request: Request,
        store: ResultStore,
    ) -> Self:
        """The way of these options; no backend is started."""
        rewrites = kept_rewrites(models, request, store) if options.cuts_rewritten else None
        cutting = cut_models(models, options, request, Observer(), store, rewrites=rewrites)
        return cls(request, cutting, _held_by(store, cutting, request))

    def result(self) -> RunResult:
        """Estimates from the store alone."""
        return assemble(self.request, self.cutting, self._with_doubtful())

    def is_executed(self, position: int) -> bool:
        """Whether the store shows that the backend executes the graph that was cut."""
        cut = self.cutting.brickset.models[position]
        return cut.graph is not cut.model or not self.request.backend.traits.rewrites

    def lacks(self, position: int) -> bool:
        """Whether the store shows that the backend does not support one of a model's bricks."""
        return not self._bricks.unsupported.isdisjoint(self._counts(position))

    def share(self, position: int) -> float:
        """Share of a model's bricks with a measurement or a failure in the store."""
        bricks, known = self._counts(position), self._bricks.figures.keys() | self._bricks.failures
        return len(bricks & known) / max(len(bricks), 1)

    @cached_property
    def _bricks(self) -> Networks:
        return self.ledger.networks("brick", self.request.quantity)

    def _counts(self, position: int) -> AbstractSet[str]:
        """Signatures of a model's bricks."""
        return self.cutting.brickset.models[position].counts.keys()

    def _with_doubtful(self) -> Ledger:
        """The ledger, with bricks that may be unsupported as failures.

        If the backend does not support the whole model and the unsupported brick is unknown, every
        brick of the model may be unsupported, except bricks that were measured or that another
        model has.
        """
        wholes = self.ledger.networks("model", self.request.quantity)
        models = self.cutting.brickset.models
        refused = {
            i: wholes.failures[cut.whole.signature]
            for i, cut in enumerate(models)
            if cut.whole.signature in wholes.unsupported and not self.lacks(i)
        }
        sound = {s for i, cut in enumerate(models) if i not in refused for s in cut.counts}
        doubtful = {
            self.request.key(signature, "brick"): why
            for i, why in refused.items()
            for signature in self._counts(i) - sound - self._bricks.figures.keys()
        }
        return self.ledger.failing(doubtful, unsupported=True)


def _held(models: Sequence[CanonicalModel], request: Request, store: ResultStore) -> RunResult:
    """Estimates by the composer with more bricks in the store: the default or the paper's."""
    best, paper = (
        _Way.of(models, CutOptions.chosen(None, None, name), request, store).result()
        for name in (DEFAULT_COMPOSER, PAPER_COMPOSER)
    )
    return best if _missing(best) <= _missing(paper) else _noted(paper)


def _missing(result: RunResult) -> int:
    return sum(model.estimate.partial for model in result.models)


def _noted(paper: RunResult) -> RunResult:
    return paper.noting(
        first=[note("other-composer", held=PAPER_COMPOSER, lacking=DEFAULT_COMPOSER)]
    )


def _nearest(
    models: Sequence[CanonicalModel], request: Request, store: ResultStore, predictor: str
) -> RunResult:
    """Estimates each model by the first composer with enough bricks in the store.

    The default composer is tried first, then the paper's. The predictor handles the remaining
    models.
    """
    names = (DEFAULT_COMPOSER, LEARNED_COMPOSER, PAPER_COMPOSER)
    ways = {
        name: _Way.of(models, CutOptions.chosen(None, None, name), request, store)
        for name in (names if _holds_some(request, store) else [LEARNED_COMPOSER])
    }
    chosen: dict[str, list[int]] = {}
    for position in range(len(models)):
        chosen.setdefault(_way(position, ways), []).append(position)
    parts = {}
    for name, positions in chosen.items():
        way = ways[name]
        if len(chosen) > 1:
            part = [models[position] for position in positions]
            way = _Way.of(part, way.cutting.options, request, store)
        result = _predicted(way.result(), predictor, store)
        parts[tuple(positions)] = _noted(result) if name == PAPER_COMPOSER else result
    return joined(parts)


def _holds_some(request: Request, store: ResultStore) -> bool:
    """Whether the store has figures or unsupported networks in the setup."""
    setups = store.setups(request.setup.backend)
    held = any(each == (request.setup, request.fingerprint) for each in setups)
    return held or bool(store.refused(request.setup, request.fingerprint))


def _way(position: int, ways: Mapping[str, _Way]) -> str:
    """Name of the composer for one model."""
    if len(ways) == 1:
        return LEARNED_COMPOSER
    lacking = [name for name, way in ways.items() if way.lacks(position)]
    if lacking:
        return LEARNED_COMPOSER if LEARNED_COMPOSER in lacking else lacking[0]
    default, learned, paper = ways.values()
    if default.is_executed(position) and default.share(position) >= _MOST:
        return DEFAULT_COMPOSER
    if learned.share(position) < 1 and paper.share(position) == 1:
        return PAPER_COMPOSER
    return LEARNED_COMPOSER


def _predicted(result: RunResult, predictor: str | None, store: ResultStore) -> RunResult:
    if predictor is None:
        return result
    if result.request.metric:
        if not any(model.missing for model in result.models):
            return result
        return _quantity_predictor(result.request).fill(result, store)
    return with_predictions(result, predictor, store)


def _quantity_predictor(request: Request) -> QuantityPredictor:
    """The predictor of quantities other than latency.

    Raises:
        UnknownPluginError: If its distribution is not installed.
    """
    kind = "quantity predictor"
    if REGRESSION not in names(kind):
        install = clone_install("plugins/prediction", "plugins/quantities")
        raise UnknownPluginError(
            f"predictions of {request.quantity.name} come with dlbricks-quantities, which is not "
            "installed",
            hint=f"{install}. Or choose {argument('predictor')} {NO_PREDICTOR}.",
        )
    plugin = find(kind, REGRESSION, QuantityPredictor)
    predictor: QuantityPredictor = use(plugin, plugin.loaded)
    return predictor


def default_predictor(request: Request) -> str:
    """Name of the predictor for the requested quantity."""
    return REGRESSION if request.metric else PREDICTOR


def predictor_named(name: str | None, request: Request) -> str | None:
    """Name of the predictor by a user's choice; ``None`` for no predictor.

    Args:
        name: Name that the user chose; ``None`` for the default.
        request: The request.
    """
    if name is None:
        return default_predictor(request)
    return None if name == NO_PREDICTOR else name


def _fewest(cutting: Cutting, request: Request) -> int:
    """Minimum number of samples in a complete measurement.

    A predictor can use few samples, too. If the number of runs is open, the minimum that shows the
    scatter suffices, because no sample can be added here.
    """
    if cutting.options.composer == LEARNED_COMPOSER:
        return 1
    return request.runs if request.precision is None else min(request.runs, FEWEST_QUIET)


def _held_by(store: ResultStore, cutting: Cutting, request: Request) -> Ledger:
    """Stored measurements and failures for models.

    Args:
        store: The store.
        cutting: The models, cut.
        request: The measurements to use.
    """
    fewest = _fewest(cutting, request)
    keys = [
        target.key(request)
        for target in run_targets(cutting, end_to_end=True, backend=request.runs_natives)
    ]
    held: dict[Question, Measurement] = {}
    failures: dict[Question, str] = {}
    unsupported: dict[Question, str] = {}
    for key, found in store.get(keys).items():
        if found.failure:
            (unsupported if found.unsupported else failures)[key] = found.failure
        elif len(found.values) >= fewest:
            held[key] = found
        else:
            failures[key] = f"only {len(found.values)} of {fewest} samples yet"
    wholes = [request.key(cut.whole.signature, "model") for cut in cutting.brickset.models]
    refused = store.refused(request.setup, request.fingerprint)
    for key in (*keys, *wholes):
        reason = refused.get(key.subject.signature)
        if reason and key.subject.kind != "native" and key not in failures:
            unsupported.setdefault(key, reason)
    parts = store.get(chain.from_iterable(map(request.parts, held)))
    ledger = Ledger.of(held | parts, request.protocol, reused=len(held))
    ledger = ledger.failing(failures).failing(unsupported, unsupported=True)
    if cutting.options.composer == LEARNED_COMPOSER:
        return ledger
    return ledger.noting(*shortfalls(request, cutting, ledger, note("store-ended")))
