"""Estimates of models under load, from stored and predicted figures. Runs nothing."""

from __future__ import annotations

from collections.abc import Sequence

from dlbricks_core.compose.options import CutOptions
from dlbricks_core.facts import Note
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.measure.request import Request
from dlbricks_core.store import ResultStore
from dlbricks_serving.serving import run
from dlbricks_serving.serving.known import known_loads
from dlbricks_serving.serving.predicted import UNDISTURBED


def estimate_scenario(
    models: Sequence[CanonicalModel],
    asked: run.LoadRequest,
    request: Request,
    store: ResultStore,
    predictor: str | None,
    cut_options: CutOptions | None = None,
) -> run.UnderLoad:
    """Figures of models in a scenario, from stored measurements or predicted. Runs nothing.

    Args:
        models: Models in canonical form.
        asked: The request for the load.
        request: The measurements to use, and their system. Its number of threads is ignored.
        store: Store of the measurements.
        predictor: Predictor of figures that the store lacks; ``None`` for none.
        cut_options: How to cut and compose; ``None`` for the most accurate way.

    Raises:
        PluginError: If there is no such predictor, or it fails.
    """
    cut_options = cut_options or CutOptions.chosen(None, None, None)
    rows: list[list[run.Row]] = [[] for _ in models]
    notes: dict[Note, None] = {}
    for threads in sorted({each.threads for each in asked.placements}):
        own = run.with_threads(request, threads)
        numbers = sorted(e.instances for e in asked.placements if e.threads == threads)
        known = known_loads(
            models, own, numbers, asked.scenario, asked.bound_ms, store, predictor, cut_options
        )
        notes |= dict.fromkeys(known.notes)
        for found, loads in zip(rows, known.models, strict=True):
            for number in numbers:
                place = run.Placement(number, threads)
                composed, whole = loads.composed[number], loads.measured.get(number)
                found.append(
                    run.Row(place, measured=whole)  # nothing is missing where the load was measured
                    if whole is not None and composed.service is None
                    else run.row(place, asked, composed, whole, request.seed)
                )
    if any(each.predicted for found in rows for each in found):
        notes[UNDISTURBED] = None
    return run.UnderLoad(
        request,
        asked,
        [
            run.ModelUnderLoad(model, sorted(each, key=lambda row: row.placement))
            for model, each in zip(models, rows, strict=True)
        ],
        cut_options,
        predictor,
        notes=tuple(notes),
        stage="compose",
    )
