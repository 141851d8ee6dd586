"""Models under load as known without running anything: measured, composed or predicted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dlbricks_core.compose.options import CutOptions
from dlbricks_core.facts import Note
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.measure.request import Request
from dlbricks_core.store import ResultStore
from dlbricks_serving.scenarios import Scenario
from dlbricks_serving.serving.composed import Composed, stored_service_times
from dlbricks_serving.serving.measured import Loaded, stored_loads
from dlbricks_serving.serving.predicted import predicted_service_times


@dataclass(frozen=True)
class KnownLoads:
    """Known figures of the instances of one model."""

    measured: Mapping[int, Loaded]  #: Figures of the whole model, by number of instances.
    #: Service times, by number of instances: composed from bricks that ran side by side, or else
    #: predicted. An unknown load has its reason.
    composed: Mapping[int, Composed]


@dataclass(frozen=True)
class KnownModels:
    """Known figures of the instances of models."""

    models: Sequence[KnownLoads]  #: Known loads of each model.
    notes: Sequence[Note] = ()  #: Basis of the predictions, and reasons to doubt them.


def known_loads(
    models: Sequence[CanonicalModel],
    request: Request,
    numbers: Sequence[int],
    scenario: Scenario,
    bound_ms: float | None,
    store: ResultStore,
    predictor: str | None,
    cut_options: CutOptions | None = None,
) -> KnownModels:
    """Known figures of models under load. Runs nothing.

    Args:
        models: Models in canonical form.
        request: How each instance runs, and on which system.
        numbers: Numbers of instances, in ascending order.
        scenario: The load pattern.
        bound_ms: Bound on the scenario's percentile in milliseconds; ``None`` for no bound.
        store: Store of the measurements.
        predictor: Predictor of figures that the store lacks; ``None`` for none.
        cut_options: How to cut and compose; ``None`` for the most accurate way.

    Raises:
        PluginError: If there is no such predictor, or it fails.
    """
    bricks = stored_service_times(models, request, numbers, store, cut_options)
    composed = [{n: each[i] for n, each in bricks.items()} for i in range(len(models))]
    wholes = [stored_loads(each, request, scenario, bound_ms, store) for each in models]
    notes: Sequence[Note] = ()
    lacking = [
        i
        for i, (by_bricks, whole) in enumerate(zip(composed, wholes, strict=True))
        if any(each.service is None and n not in whole for n, each in by_bricks.items())
    ]
    if lacking and predictor is not None:
        unknown = [models[i] for i in lacking]
        predicted = predicted_service_times(unknown, request, numbers, store, predictor)
        notes = predicted.notes
        for i, each in zip(lacking, predicted.models, strict=True):
            timed = {n: own for n, own in composed[i].items() if own.service is not None}
            composed[i] = {**each, **timed}
    return KnownModels([KnownLoads(*each) for each in zip(wholes, composed, strict=True)], notes)
