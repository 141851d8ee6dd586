"""Predicts a quantity of bricks by regression on stored observations under the same setup."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dlbricks_core.facts import Question
from dlbricks_core.figures.figure import Figure, Measured, Predicted
from dlbricks_core.figures.statistics import FloatArray
from dlbricks_core.predict.features import Features
from dlbricks_core.predict.regression import FEWEST, FEWEST_FAMILIES, Regression, size_of
from dlbricks_core.predict.whole_models import whole_models
from dlbricks_core.store import ResultStore
from dlbricks_core.wording import argument, listed
from dlbricks_core.workflows.assemble import NOT_MEASURED, assemble
from dlbricks_core.workflows.knowledge import FEATURES, features_of
from dlbricks_core.workflows.request import Request
from dlbricks_core.workflows.results import RunResult

REGRESSION = "regression"
"""Name of the predictor for quantities that have a probe."""

_MANY = (
    "to predict {quantity}, {networks} networks of {families} families of models are needed, and "
    "the store holds {held} of {own} in this setup: 'dlbricks run' of more models with "
    "{name} {quantity} observes them"
)

_SHIPPED = (
    "{quantity} of {names} is predicted from {models} well-known models on {backend} {version}, "
    "{threads} ({system}, {date}): 'dlbricks run' with {name} {quantity} observes {theirs} bricks"
)

_TOO_LARGE = (
    "{quantity} of {names} is not predicted from the {models} well-known models of the package: "
    "none is half as large"
)

_NAMED = 3
"""Maximum number of models that a note names."""

_LARGE = "{} is not predicted for {} of {} bricks: nothing nearly as large was observed"


def with_regression(result: RunResult, store: ResultStore) -> RunResult:
    """The result with predicted values for bricks without a value.

    Where the package ships observations of whole models, models are predicted as a whole. A brick
    of any other model stays missing if it failed, if it is much larger than all observed networks,
    or if too few networks were observed.

    Args:
        result: Result from the store alone.
        store: Store of the observations.
    """
    request = result.request
    result = _with_whole_models(result)
    lacking = {signature for model in result.models for signature in model.missing}
    missing = [each.brick for each in result.bricks if each.brick.signature in lacking]
    keys = {each.signature: request.key(each.signature, "brick") for each in missing}
    failed = {key for key, found in store.get(keys.values()).items() if found.failure}
    failed |= result.outcome.unsupported.keys()
    wanted = [each for each in missing if keys[each.signature] not in failed and not each.opaque]
    if not wanted:
        return replace(result, predictor=REGRESSION)
    seen = _Observed.of(request, store)
    regressions = seen.regressions()
    if not regressions:
        note = _MANY.format(
            quantity=request.quantity.name,
            name=argument("quantity"),
            networks=FEWEST,
            families=FEWEST_FAMILIES,
            held=len(seen.families),
            own=len(set(seen.families)),
        )
        return _noted(result, note)
    sizes = {each.signature: size_of(Features.of(each.model)) for each in wanted}
    told = {s: size for s, size in sizes.items() if regressions[0].tells_of(size)}
    predicted: list[dict[str, Predicted]] = [
        {s: regression.predict(size, overhead) for s, size in told.items()}
        for regression, overhead in zip(regressions, seen.overheads, strict=True)
    ]
    plan = result.cutting.plan.predicting(predicted[0])
    cutting = replace(result.cutting, plan=plan)
    found = assemble(request, cutting, result.outcome, predicted[1:])
    found = replace(found, predictor=REGRESSION)
    if len(told) == len(sizes):
        return found
    left = len(sizes) - len(told)
    return _noted(found, _LARGE.format(request.quantity.name, left, len(result.bricks)))


def _with_whole_models(result: RunResult) -> RunResult:
    """The result with models predicted as a whole that lack a brick which did not fail."""
    request = result.request
    probe, setup = request.probe, request.setup
    known = whole_models(request.quantity.name, setup.backend)
    if probe is None or not known or not known[0].tell_of(setup, probe.version):
        return result
    shipped = known[0]
    if shipped.regression is None:
        return result
    told, names, large = {}, [], []
    for model in result.models:
        whole = model.cut.whole
        only_unmeasured = set(model.missing.values()) == {NOT_MEASURED}
        if only_unmeasured and whole.signature not in model.cut.counts:
            size = np.array(probe.sizes(whole.model))
            if shipped.regression.tells_of(size):
                told[whole.signature] = shipped.regression.predict(size, 0.0)
                names.append(model.cut.model.name)
            else:
                large.append(model.cut.model.name)
    if large:
        models, quantity = len(shipped.models), request.quantity.name
        note = _TOO_LARGE.format(quantity=quantity, names=listed(large, _NAMED), models=models)
        result = _noted(result, note)
    if not told:
        return result
    cutting = replace(result.cutting, plan=result.cutting.plan.predicting(told))
    found = replace(assemble(request, cutting, result.outcome), predictor=REGRESSION)
    note = _SHIPPED.format(
        quantity=request.quantity.name,
        names=listed(names, _NAMED),
        models=len(shipped.models),
        backend=shipped.backend,
        version=shipped.version,
        threads="1 thread" if shipped.threads == 1 else f"{shipped.threads} threads",
        system=shipped.system,
        date=shipped.date,
        name=argument("quantity"),
        theirs="its" if len(told) == 1 else "their",
    )
    return _noted(found, note)


def _noted(result: RunResult, note: str) -> RunResult:
    outcome = replace(result.outcome, notes=(*result.outcome.notes, note))
    return replace(result, outcome=outcome)


@dataclass(frozen=True)
class _Observed:
    """Networks whose quantity was observed under one setup on one system.

    Attributes:
        sizes: Size of each network: shape (n, 3).
        values: Value of each network without the overhead, for the quantity and then for each part.
        families: Family of models that each network comes from.
        overheads: Overhead of an observation, for the quantity and then for each part.
    """

    sizes: FloatArray
    values: Sequence[FloatArray]
    families: Sequence[str]
    overheads: Sequence[float]

    @classmethod
    def of(cls, request: Request, store: ResultStore) -> _Observed:
        """The networks in a store."""
        networks = store.networks(FEATURES)
        keys = [
            each.question
            for each in store.sampled(request.quantity, request.setup.backend)
            if each.question.setup == request.setup
            and each.question.system == request.fingerprint
            and each.question.subject.signature in networks
        ]
        every = [(key, *request.parts(key)) for key in keys]
        found = store.get(question for several in every for question in several)
        figures = {
            key: Measured.of(each, request.protocol)
            for key, each in found.items()
            if each.observations and not each.failure
        }
        # A network of one layer may be a model and a brick.
        whole = {
            several[0].subject.signature: several
            for several in every
            if all(each in figures for each in several)
        }
        own = [networks[signature] for signature in whole]
        columns = list(zip(*whole.values(), strict=True))
        return cls(
            sizes=np.array([size_of(features_of(each)) for each in own]).reshape(-1, 3),
            values=[_values(figures, column) for column in columns],
            families=[min(each.groups, default=each.signature) for each in own],
            overheads=[
                float(np.median([figures[key].overhead for key in column])) for column in columns
            ],
        )

    def regressions(self) -> list[Regression]:
        """Regressions on the quantity and on each part; none if too few networks were observed."""
        fitted = [Regression.fitted(self.sizes, each, self.families) for each in self.values]
        return [each for each in fitted if each is not None]


def _values(figures: Mapping[Question, Figure], keys: Sequence[Question]) -> FloatArray:
    return np.array([figures[key].own for key in keys])
