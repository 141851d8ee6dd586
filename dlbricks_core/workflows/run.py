"""The main job: cuts models into bricks, times and composes them, and compares the estimates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from time import monotonic

from dlbricks_core.ir import CanonicalModel
from dlbricks_core.store import ResultStore
from dlbricks_core.worker import PEAKS
from dlbricks_core.workflows.adaptive import adaptive
from dlbricks_core.workflows.adaptive.bricks import from_bricks
from dlbricks_core.workflows.assemble import assemble
from dlbricks_core.workflows.composing import LEARNED_COMPOSER, CutOptions
from dlbricks_core.workflows.cutting import Cutting, cut_models
from dlbricks_core.workflows.measuring import measure
from dlbricks_core.workflows.observer import Observer
from dlbricks_core.workflows.request import Request
from dlbricks_core.workflows.results import RunResult
from dlbricks_core.workflows.timing_order import run_targets


def run(
    models: Sequence[CanonicalModel],
    cut_options: CutOptions,
    request: Request,
    store: ResultStore,
    observer: Observer,
    *,
    end_to_end: bool = True,
) -> RunResult:
    """Estimates models from their bricks, and times bricks that the store lacks.

    In the hot condition whole models run, as few as the requested precision needs. With the
    composer of the dial, as few bricks as it needs are timed alone, and with any other all bricks.

    Args:
        models: Models in canonical form.
        cut_options: How to cut and compose.
        request: How networks are measured.
        store: Store of the measurements.
        observer: Receives the progress.
        end_to_end: Whether to time the whole models as well, for comparison.
    """
    begin = monotonic()
    if request.condition == "hot":
        result = adaptive(models, request, store, observer, end_to_end=end_to_end)
    elif cut_options.composer == LEARNED_COMPOSER and request.precision is not None:
        result = from_bricks(models, request, store, observer, end_to_end=end_to_end)
    else:
        calibration = store.calibration(cut_options.calibration_key(request))
        cutting = cut_models(models, cut_options, request, observer, calibration, store=store)
        result = run_bricks(cutting, request, store, observer, end_to_end=end_to_end)
    return replace(result, peak_bytes=PEAKS.since(begin))


def run_bricks(
    cutting: Cutting,
    request: Request,
    store: ResultStore,
    observer: Observer,
    *,
    end_to_end: bool = True,
) -> RunResult:
    """Estimates models that are cut already.

    Args:
        cutting: The models, their bricks, and the plan of their timing.
        request: How networks are measured.
        store: Store of the measurements.
        observer: Receives the progress.
        end_to_end: Whether to time the whole models as well, for comparison.
    """
    begin = monotonic()
    targets = run_targets(cutting, end_to_end=end_to_end, backend=request.runs_natives)
    outcome = measure(targets, request, store, observer, cutting)
    outcome.effort.add_loading("brick", cutting.seconds)
    return replace(assemble(request, cutting, outcome), peak_bytes=PEAKS.since(begin))
