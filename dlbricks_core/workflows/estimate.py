"""Estimates: composed from the store, and from a predictor where the store has no figure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Self

from dlbricks_core.errors import DLBricksError
from dlbricks_core.figures.figure import FEWEST_QUIET
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.store import ResultStore
from dlbricks_core.wording import argument, listed
from dlbricks_core.workflows.adaptive import recalled
from dlbricks_core.workflows.assemble import assemble
from dlbricks_core.workflows.composing import (
    DEFAULT_COMPOSER,
    LEARNED_COMPOSER,
    PAPER_COMPOSER,
    CutOptions,
)
from dlbricks_core.workflows.cutting import Cutting, cut_models
from dlbricks_core.workflows.joining import joined
from dlbricks_core.workflows.measuring import Outcome
from dlbricks_core.workflows.observer import Observer
from dlbricks_core.workflows.oracle import PREDICTOR
from dlbricks_core.workflows.predicting import with_predictions
from dlbricks_core.workflows.regressing import REGRESSION, with_regression
from dlbricks_core.workflows.request import Request
from dlbricks_core.workflows.results import RunResult
from dlbricks_core.workflows.rewrites import kept_rewrites
from dlbricks_core.workflows.systems import reference, told_apart
from dlbricks_core.workflows.targets import shortfalls
from dlbricks_core.workflows.timing_order import run_targets

NO_PREDICTOR = "none"
"""Name by which users choose no predictor."""

_ABSENT = "{} is not installed: version and options are those of what was measured elsewhere"

_OTHER = "figures are those of {}, which was measured on that system; {} is installed here"

_NEW = (
    "the {} of {} was never measured with {} on {}. To change that, time models there ('dlbricks "
    "run'), or their bricks ('dlbricks generate' here, 'dlbricks bench' there){}, and bring the "
    "store"
)

_ALONE = "figures are those of {} alone: other machines share its fingerprint {}"

_TOGETHER = "figures are those of {} together, which are built and set alike"

_NAMED = 3
"""Maximum number of new models, or of equal machines, that a note names."""

_SEVERAL = 2
"""Minimum number of machines of a fingerprint that a note tells apart."""

_MOST = 0.5
"""Minimum share of a model's bricks in the store for the default composer. With fewer bricks, a
predictor that learns from all measurements is more accurate.
"""


def estimate(
    models: Sequence[CanonicalModel],
    cut_options: CutOptions | None,
    request: Request,
    store: ResultStore,
    predictor: str | None = None,
) -> RunResult:
    """Estimates models from known figures. Runs nothing, and starts no framework.

    The graph that the backend makes of a model on the requested system is cut, if the store holds
    it. Otherwise the model itself is cut.

    Args:
        models: Models in canonical form.
        cut_options: How to cut and compose. ``None`` selects the composer whose bricks the store
            holds: the default one, or the paper's (``bench`` times its bricks). The predictor
            handles models with neither.
        request: The measurements to use, and their system.
        store: Store of the measurements.
        predictor: Name of the predictor for bricks that are not in the store. Without one, these
            are missing.

    Raises:
        DLBricksError: If the predictor is not for the quantity.
        PluginError: If there is no such predictor, or it fails.
    """
    if store.only is not None:
        request = replace(request, machine=told_apart(store.only))
    if predictor is not None and request.probe and predictor != REGRESSION:
        raise DLBricksError(
            f"the predictor {predictor} gives latencies, not {request.quantity.name}",
            hint=f"Leave {argument('predictor')} out, or choose {REGRESSION} or {NO_PREDICTOR}.",
        )
    if cut_options is None and request.probe:
        cut_options = CutOptions.chosen(None, None, None, quantity=request.quantity.name)
    if cut_options is not None:
        way = _Way.of(models, cut_options, request, store)
        result = _predicted(way.result(), predictor, store)
    elif predictor is None:
        result = _held(models, request, store)
    else:
        result = _known_best(models, request, store, predictor)
    result.outcome.notes = (
        *result.outcome.notes,
        *_needs(result),
        *_versions(request),
        *_machines(request, store),
    )
    return result


def _known_best(
    models: Sequence[CanonicalModel], request: Request, store: ResultStore, predictor: str
) -> RunResult:
    """Estimates from runs of whole models where the store has any, and from bricks elsewhere."""
    positions, told = recalled(models, request, store, predictor)
    rest = tuple(i for i in range(len(models)) if i not in positions)
    if told is None:
        return _nearest(models, request, store, predictor)
    if not rest:
        return told
    others = _nearest([models[i] for i in rest], request, store, predictor)
    return joined({tuple(positions): told, rest: others})


def _versions(request: Request) -> Iterator[str]:
    """Sentences on versions that differ from the installed ones."""
    name, setup, here = request.backend.name, request.setup, request.installed
    if request.plugin.problem:
        yield _ABSENT.format(name)
    elif here and here.version != setup.version:
        yield _OTHER.format(f"{name} {setup.version}", here.version)
    elif here:
        yield _OTHER.format(f"the plugin {name} {setup.plugin}", here.plugin)


def _machines(request: Request, store: ResultStore) -> Iterator[str]:
    """A sentence on the machines behind the figures, where several share the fingerprint."""
    equal = [each for each in store.machines() if each.system == request.fingerprint]
    if len(equal) < _SEVERAL:
        return
    only = store.only
    if only is None or only.alone:
        names = listed([reference(each) for each in equal], _NAMED)
        yield _TOGETHER.format(names)
    else:
        yield _ALONE.format(reference(only), request.fingerprint[:8])


def _needs(result: RunResult) -> Iterator[str]:
    """A sentence on the measurements that estimates for another system lack."""
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
        quantity = request.quantity.name
        where = request.machine or request.fingerprint
        asked = f", with {argument('quantity')} {quantity}" if request.probe else ""
        what = quantity.replace("-", " ")
        yield _NEW.format(what, listed(new, _NAMED), request.backend.name, where, asked)


@dataclass(frozen=True)
class _Way:
    """One way to cut models, with the stored measurements for it.

    Attributes:
        request: The measurements to use.
        cutting: The models, cut.
        outcome: Measurements and failures in the store.
    """

    request: Request
    cutting: Cutting
    outcome: Outcome

    @classmethod
    def of(
        cls,
        models: Sequence[CanonicalModel],
        options: CutOptions,
        request: Request,
        store: ResultStore,
    ) -> Self:
        """The way that options describe; no backend is started."""
        calibration = store.calibration(options.calibration_key(request))
        rewrites = kept_rewrites(models, request, store) if options.cuts_rewritten else None
        cutting = cut_models(models, options, request, Observer(), calibration, rewrites)
        return cls(request, cutting, _held_by(store, cutting, request))

    def result(self) -> RunResult:
        """Estimates from the store alone."""
        return assemble(self.request, self.cutting, self._with_doubtful())

    def is_executed(self, position: int) -> bool:
        """Whether the backend executes the graph that was cut, as far as is known."""
        cut = self.cutting.brickset.models[position]
        return cut.graph is not cut.model or not self.request.backend.traits.rewrites

    def lacks(self, position: int) -> bool:
        """Whether the backend is known not to support one of a model's bricks."""
        bricks = self.cutting.brickset.models[position].counts
        return any(self.request.key(s, "brick") in self.outcome.unsupported for s in bricks)

    def _with_doubtful(self) -> Outcome:
        """The outcome, without bricks that may hold what the backend is known not to support.

        That is so if it does not support the whole model, and nothing tells which brick is to
        blame. A brick that was measured, or that another model has, is not.
        """
        outcome, models = self.outcome, self.cutting.brickset.models
        wholes = [self.request.key(cut.whole.signature, "model") for cut in models]
        doubtful = {
            position
            for position, key in enumerate(wholes)
            if key in outcome.unsupported and not self.lacks(position)
        }
        sound = {s for i, cut in enumerate(models) if i not in doubtful for s in cut.counts}
        found = {
            self.request.key(signature, "brick"): outcome.unsupported[wholes[position]]
            for position in doubtful
            for signature in models[position].counts.keys() - sound
        }
        found = {key: why for key, why in found.items() if key not in outcome.measurements}
        return replace(
            outcome,
            failures=outcome.failures | found,
            unsupported=outcome.unsupported | found,
        )

    def share(self, position: int) -> float:
        """Share of a model's bricks with a measurement or a failure in the store."""
        told = {*self.outcome.measurements, *self.outcome.failures}
        bricks = self.cutting.brickset.models[position].counts
        held = sum(self.request.key(signature, "brick") in told for signature in bricks)
        return held / max(len(bricks), 1)


def _held(models: Sequence[CanonicalModel], request: Request, store: ResultStore) -> RunResult:
    """Estimates by the composer with more bricks in the store: the default one or the paper's."""
    best, paper = (
        _Way.of(models, CutOptions.chosen(None, None, name), request, store).result()
        for name in (DEFAULT_COMPOSER, PAPER_COMPOSER)
    )
    return best if _missing(best) <= _missing(paper) else _noted(paper)


def _missing(result: RunResult) -> int:
    return sum(model.estimate.partial for model in result.models)


def _noted(paper: RunResult) -> RunResult:
    note = f"the store holds bricks of the composer {PAPER_COMPOSER}, not of {DEFAULT_COMPOSER}"
    paper.outcome.notes = (note, *paper.outcome.notes)
    return paper


def _nearest(
    models: Sequence[CanonicalModel], request: Request, store: ResultStore, predictor: str
) -> RunResult:
    """Estimates each model by the first composer with enough bricks in the store.

    The default composer comes first, then the paper's. The predictor, which learns from the whole
    store, handles the remaining models.
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
    """Whether the store knows anything in the setup: figures, or what is not supported."""
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
    if result.request.probe:
        return with_regression(result, store)
    return with_predictions(result, predictor, store)


def default_predictor(request: Request) -> str:
    """Name of the predictor for the requested quantity."""
    return REGRESSION if request.probe else PREDICTOR


def _fewest(cutting: Cutting, request: Request) -> int:
    """Minimum number of samples in a complete measurement.

    A predictor learns from few samples, too. Where the number of runs is open, as many suffice as
    show their scatter: nothing can be added to them here.
    """
    if cutting.options.composer == LEARNED_COMPOSER:
        return 1
    return request.runs if request.precision is None else min(request.runs, FEWEST_QUIET)


def _held_by(store: ResultStore, cutting: Cutting, request: Request) -> Outcome:
    """Stored measurements and failures for models.

    Args:
        store: The store.
        cutting: The models, cut.
        request: The measurements to use.
    """
    fewest = _fewest(cutting, request)
    keys = [
        request.key(target.brick.signature, target.kind)
        for target in run_targets(cutting, end_to_end=True, backend=request.runs_natives)
    ]
    outcome = Outcome()
    for key, found in store.get(keys).items():
        if found.failure:
            outcome.failures[key] = found.failure
            if found.unsupported:
                outcome.unsupported[key] = found.failure
        elif len(found.values) >= fewest:
            outcome.measurements[key] = found
        else:
            outcome.failures[key] = f"only {len(found.values)} of {fewest} samples yet"
    wholes = [request.key(cut.whole.signature, "model") for cut in cutting.brickset.models]
    asked = [key for key in (*keys, *wholes) if key.subject.kind != "native"]
    refused = store.refused(request.setup, request.fingerprint)
    for key in asked:
        reason = refused.get(key.subject.signature)
        if reason and key not in outcome.failures:
            outcome.failures[key] = outcome.unsupported[key] = reason
    outcome.reused = len(outcome.measurements)
    parts = chain.from_iterable(map(request.parts, outcome.measurements))
    outcome.measurements |= store.get(parts)
    if cutting.options.composer != LEARNED_COMPOSER:
        outcome.notes = shortfalls(
            request, cutting, outcome.measurements.values(), "as far as the store goes"
        )
    return outcome
