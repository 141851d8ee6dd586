"""Predicts a quantity of bricks by regression on stored observations under the same setup."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from dlbricks_prediction.features import Features
from dlbricks_prediction.training_data import features_of, usable_networks

from dlbricks_core.estimation.assemble import NOT_MEASURED, assemble
from dlbricks_core.estimation.defaults import REGRESSION
from dlbricks_core.estimation.results import RunResult
from dlbricks_core.figures.figure import Measured
from dlbricks_core.figures.predicted import Predicted
from dlbricks_core.figures.statistics import FloatArray
from dlbricks_core.measure.request import Request
from dlbricks_core.store import ResultStore
from dlbricks_quantities.notes import note
from dlbricks_quantities.regression import FEWEST, FEWEST_FAMILIES, Regression, size_of
from dlbricks_quantities.shipped import whole_models


def with_regression(result: RunResult, store: ResultStore) -> RunResult:
    """The result with predicted values for bricks without a value.

    If the package ships observations of whole models, whole models are predicted. A brick of any
    other model stays missing if it failed, if it is much larger than all observed networks, or if
    too few networks were observed.

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
    failed |= result.ledger.unsupported.keys()
    wanted = [each for each in missing if keys[each.signature] not in failed and not each.opaque]
    if not wanted:
        return replace(result, predictor=REGRESSION)
    seen = _Observed.of(request, store)
    regressions = seen.regressions()
    if not regressions:
        few = note(
            "too-few-observed",
            quantity=request.quantity.name,
            networks=FEWEST,
            families=FEWEST_FAMILIES,
            held=len(seen.families),
            held_families=len(set(seen.families)),
        )
        return result.noting(few)
    sizes = {each.signature: size_of(Features.of(each.model)) for each in wanted}
    told = {s: size for s, size in sizes.items() if regressions[0].tells_of(size)}
    predicted: list[dict[str, Predicted]] = [
        {s: regression.predict(size, overhead) for s, size in told.items()}
        for regression, overhead in zip(regressions, seen.overheads, strict=True)
    ]
    plan = result.cutting.plan.predicting(predicted[0])
    cutting = replace(result.cutting, plan=plan)
    found = assemble(request, cutting, result.ledger, predicted[1:], predictor=REGRESSION)
    if len(told) == len(sizes):
        return found
    large = note(
        "bricks-larger-than-observed",
        quantity=request.quantity.name,
        bricks=len(sizes) - len(told),
        of_bricks=len(result.bricks),
    )
    return found.noting(large)


def _with_whole_models(result: RunResult) -> RunResult:
    """The result with whole models predicted, if they lack a brick that did not fail."""
    request = result.request
    metric, setup = request.metric, request.setup
    known = whole_models(request.quantity.name, setup.backend)
    if metric is None or not known or not known[0].tell_of(setup, metric.version):
        return result
    shipped = known[0]
    if shipped.regression is None:
        return result
    told, names, large = {}, [], []
    for model in result.models:
        whole = model.cut.whole
        only_unmeasured = bool(model.missing) and all(
            reason.startswith(NOT_MEASURED) for reason in model.missing.values()
        )
        if only_unmeasured and whole.signature not in model.cut.counts:
            size = np.array(metric.sizes(whole.model))
            if shipped.regression.tells_of(size):
                told[whole.signature] = shipped.regression.predict(size, 0.0)
                names.append(model.cut.model.name)
            else:
                large.append(model.cut.model.name)
    if large:
        larger = note(
            "models-larger-than-shipped",
            quantity=request.quantity.name,
            names=large,
            models=len(shipped.models),
        )
        result = result.noting(larger)
    if not told:
        return result
    cutting = replace(result.cutting, plan=result.cutting.plan.predicting(told))
    found = assemble(request, cutting, result.ledger, predictor=REGRESSION)
    basis = note(
        "predicted-from-shipped",
        quantity=request.quantity.name,
        names=names,
        models=len(shipped.models),
        backend=shipped.backend,
        version=shipped.version,
        threads=shipped.threads,
        system=shipped.system,
        date=shipped.date,
    )
    return found.noting(basis)


@dataclass(frozen=True)
class _Observed:
    """Networks whose quantity was observed under one setup on one system.

    Attributes:
        sizes: Size of each network: shape (n, 3).
        values: Value of each network without the overhead, for the quantity and then for each part.
        families: Family of models of each network.
        overheads: Overhead of an observation, for the quantity and then for each part.
    """

    sizes: FloatArray
    values: Sequence[FloatArray]
    families: Sequence[str]
    overheads: Sequence[float]

    @classmethod
    def of(cls, request: Request, store: ResultStore) -> _Observed:
        """The networks in a store."""
        networks = usable_networks(store)
        keys = [
            each.question
            for each in store.sampled(request.quantity, request.setup.backend)
            if each.question.setup == request.setup
            and each.question.system == request.fingerprint
            and each.question.subject.signature in networks
            and not all(each.disturbed)
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
            values=[np.array([figures[key].own for key in column]) for column in columns],
            families=[min(each.groups, default=each.signature) for each in own],
            overheads=[
                float(np.median([figures[key].overhead for key in column])) for column in columns
            ],
        )

    def regressions(self) -> list[Regression]:
        """Regressions on the quantity and on each part; empty if too few networks were observed."""
        fitted = [Regression.fitted(self.sizes, each, self.families) for each in self.values]
        return [each for each in fitted if each is not None]
